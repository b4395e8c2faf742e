package runner

import (
	"context"
	"time"

	"github.com/slipway-dev/slipway/fleet/internal/examine"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// measures are the measurements of a run's checks: providers answer queries, clusters answer check
// objects. Both leave their answers with the meter.
type measures struct {
	plan      *stages.Plan
	inventory func(context.Context) (map[string]placement.Cluster, error)
	meter     *meter
	// begin starts to apply check objects; nil if the plan has none. objects applies them once it
	// has begun.
	begin   func() *examine.Run
	objects *examine.Run
}

// newMeasures returns the measurements of a run. p is the placement when the driver began.
func newMeasures(e *engine, t *tenure, rec *record.Run, p *record.Placement, wake func()) *measures {
	m := &measures{plan: t.plan, inventory: e.State.World.Inventory, meter: newMeter(e, t, wake)}
	if e.Examiner == nil {
		return m
	}
	for _, c := range t.plan.Checks() {
		if c.Object != "" {
			m.begin = func() *examine.Run {
				return e.Examiner.Begin(&examine.Run{
					Placement: t.placement, Name: t.name, UID: t.uid, Epoch: t.epoch, Key: p.Key, Health: rec.Apply.Health,
					Answered: m.meter.measured,
				})
			}
		}
	}
	return m
}

// open starts to apply the check objects of the run, if it has any.
func (m *measures) open() {
	if m.begin != nil {
		m.objects = m.begin()
	}
}

// reconcile starts the measurements of the questions that are due in a stage at a time of the run.
func (m *measures) reconcile(ctx context.Context, due time.Time, stage int, all []*check.Question) {
	var queries, objects []*check.Question
	for _, q := range all {
		if q.Check.Object != "" {
			objects = append(objects, q)
		} else {
			queries = append(queries, q)
		}
	}
	m.meter.measure(ctx, due, queries)
	if m.objects == nil {
		return
	}
	var wanted []examine.Question
	var wrong []check.Measured
	for _, q := range objects {
		if asked, problem := m.objectOf(ctx, stage, q); problem != "" {
			wrong = append(wrong, check.Measured{Where: q.Where, Query: "object " + q.Check.Object, Answer: check.Answer{Err: problem}})
		} else {
			wanted = append(wanted, asked)
		}
	}
	m.objects.Want(wanted)
	m.meter.measured(wrong)
}

// end ends all measurements and waits for them.
func (m *measures) end() {
	m.meter.end()
	if m.objects != nil {
		m.objects.End()
	}
}

// objectOf returns the object that answers a question, and its cluster. The object comes from the
// content that the cluster gets in the run. A cluster outside of the plan gets the object of the
// first cluster that receives content, counted from the start of the current stage.
func (m *measures) objectOf(ctx context.Context, stage int, q *check.Question) (out examine.Question, problem string) {
	out = examine.Question{Where: q.Where, Object: q.Check.Object}
	name := q.Cluster
	if name == "" {
		name = q.Check.Cluster
	}
	pos, planned := m.plan.Position(name)
	if planned {
		c := &m.plan.Clusters[pos]
		if c.Revision < 0 {
			return out, "the run removes the placement from cluster " + name
		}
		out.Cluster = placement.Cluster{Name: c.Name, UID: c.UID}
	} else {
		clusters, err := m.inventory(ctx)
		if err != nil {
			return out, err.Error()
		}
		c, known := clusters[name]
		if !known {
			return out, "cluster " + name + " is not in the inventory"
		}
		out.Cluster = placement.Cluster{Name: c.Name, UID: c.UID}
		pos = m.plan.Stages[stage].Groups[0].First
	}
	n := len(m.plan.Clusters)
	for i := range n {
		if c := &m.plan.Clusters[(pos+i)%n]; c.Revision >= 0 {
			out.Revision = m.plan.Revisions[c.Revision]
			return out, ""
		}
	}
	return out, "no cluster of the run gets a snapshot, which would have the object"
}
