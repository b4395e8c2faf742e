package scenario

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// hadBefore is the previous revision of clusters without had.
const hadBefore = "before"

// previous fills in the previous revisions of the clusters, if the strategy has a rollback.
func (r *reader) previous() {
	if r.out.Strategy.Rollback == nil {
		for _, v := range r.saidHad {
			v.Fail("is for a run that is rolled back; write a rollback too")
		}
		return
	}
	r.out.Environment.Return.Previous = map[string]stages.Previous{}
	for i := range r.out.Clusters {
		name := r.out.Clusters[i].Name
		if had := r.had[name]; had != "" {
			r.out.Environment.Return.Previous[name] = stages.Previous{Snapshot: had, Revision: had}
		}
	}
}

// history is the state before the run from an entry of clusters or of count.
type history struct {
	had   string
	fresh bool
	said  []value
}

func (h *history) reads(more fields) {
	more["had"] = func(v value) {
		h.said = append(h.said, v)
		h.had = v.Named(validation.IsDNS1123Label)
	}
	more["new"] = func(v value) {
		h.said = append(h.said, v)
		h.fresh = v.Boolean()
	}
}

// before records the previous revision of a cluster.
func (r *reader) before(h *history, name string) {
	if r.had[name] = cmp.Or(h.had, hadBefore); h.fresh {
		r.had[name] = ""
	}
}

// checkHistory reports a contradictory entry.
func (r *reader) checkHistory(v value, h *history) {
	r.saidHad = append(r.saidHad, h.said...)
	if h.fresh && h.had != "" {
		v.Fail("had %s before, and is new; leave one of the two", yamldoc.Clip(h.had))
	}
}

// checkReturn reports fields that a fault during a rollback cannot have.
func (f *fault) checkReturn() {
	for _, name := range []string{"unreachable", "unhealthyAt", "for"} {
		if at, says := f.says[name]; says && f.back {
			at.Fail("is at a time of its own, which it is on the way back too; leave during out")
		}
	}
}

// returning assigns the faults during a rollback to the clusters.
func (r *reader) returning() {
	said := map[string]map[string]int{}
	for i := range r.faults {
		f := &r.faults[i]
		if !f.back || f.name == "" || !r.knows(f) {
			continue
		}
		of := r.out.Environment.Return.Members
		m, known := of[f.name]
		if !known {
			m = r.forth(f.name)
			said[f.name] = map[string]int{}
		}
		r.once(f, said[f.name])
		if of == nil {
			of = map[string]simulate.Member{}
			r.out.Environment.Return.Members = of
		}
		of[f.name] = f.over(m)
	}
}

// forth returns the behaviour of a cluster before its rollback, without failures.
func (r *reader) forth(name string) simulate.Member {
	m, known := r.out.Environment.Members[name]
	if !known {
		m = r.out.Environment.Default
	}
	m.Fail = 0
	return m
}
