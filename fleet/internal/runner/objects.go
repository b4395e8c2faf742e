package runner

import (
	"context"

	"github.com/slipway-dev/slipway/fleet/internal/examine"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages/check"
)

// examines starts to apply the check objects of the run, if it has any.
func (d *driver) examines() {
	if d.e.examiner == nil || d.plan == nil {
		return
	}
	for _, c := range d.plan.Checks() {
		if c.Object != "" && d.objects == nil {
			d.objects = d.begin()
		}
	}
}

func (d *driver) begin() *examine.Run {
	return d.e.examiner.Begin(&examine.Run{
		Placement: d.placement, Name: d.name, UID: d.uid, Epoch: d.epoch, Key: d.secretKey, Health: d.rec.Apply.Health,
		Answered: d.meter.measured,
	})
}

// measure starts the measurements of the questions that are due: providers answer queries, clusters
// answer objects.
func (d *driver) measure(ctx context.Context, all []*check.Question) {
	var queries, objects []*check.Question
	for _, q := range all {
		if q.Check.Object != "" {
			objects = append(objects, q)
		} else {
			queries = append(queries, q)
		}
	}
	d.meter.measure(ctx, d.rec.Run.Now.Time(), queries)
	if d.objects == nil {
		return
	}
	var due []examine.Question
	var wrong []check.Measured
	for _, q := range objects {
		if asked, problem := d.objectOf(ctx, q); problem != "" {
			wrong = append(wrong, check.Measured{Where: q.Where, Query: "object " + q.Check.Object, Answer: check.Answer{Err: problem}})
		} else {
			due = append(due, asked)
		}
	}
	d.objects.Want(due)
	d.meter.measured(wrong)
}

// objectOf returns the object that answers a question, and its cluster. The object comes from the
// content that the cluster gets in the run. A cluster outside of the plan gets the object of the
// first cluster that receives content, counted from the start of the current stage.
func (d *driver) objectOf(ctx context.Context, q *check.Question) (out examine.Question, problem string) {
	out = examine.Question{Where: q.Where, Object: q.Check.Object}
	name := q.Cluster
	if name == "" {
		name = q.Check.Cluster
	}
	pos, planned := d.plan.Position(name)
	if planned {
		c := &d.plan.Clusters[pos]
		if c.Revision < 0 {
			return out, "the run removes the placement from cluster " + name
		}
		out.Cluster = placement.Cluster{Name: c.Name, UID: c.UID}
	} else {
		clusters, err := d.e.state.Inventory(ctx)
		if err != nil {
			return out, err.Error()
		}
		c, known := clusters[name]
		if !known {
			return out, "cluster " + name + " is not in the inventory"
		}
		out.Cluster = placement.Cluster{Name: c.Name, UID: c.UID}
		pos = d.plan.Stages[d.rec.Run.Form(runstate.Key{}).Stage].Groups[0].First
	}
	n := len(d.plan.Clusters)
	for i := range n {
		if c := &d.plan.Clusters[(pos+i)%n]; c.Revision >= 0 {
			out.Revision = d.plan.Revisions[c.Revision]
			return out, ""
		}
	}
	return out, "no cluster of the run gets a snapshot, which would have the object"
}
