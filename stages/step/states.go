package step

import (
	"iter"
	"slices"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// deferredAt returns the deferred range that contains the cluster at pos, or nil.
func (r *Run) deferredAt(p *stages.Plan, pos int) *runstate.Deferred {
	stage, group := p.StageOf(pos)
	if stage != r.form.Stage || len(r.form.Stages[stage].Groups) == 0 {
		return nil
	}
	ranges := r.form.Stages[stage].Groups[group].Deferred
	i, ok := slices.BinarySearchFunc(ranges, pos, func(r runstate.Deferred, pos int) int {
		switch {
		case pos < r.First:
			return 1
		case pos > r.Last:
			return -1
		default:
			return 0
		}
	})
	if !ok {
		return nil
	}
	return &ranges[i]
}

// hasReached reports whether the run has reached the cluster at pos: it has ended, is in flight,
// waits, or is deferred.
func (r *Run) hasReached(p *stages.Plan, pos int) bool {
	stage, group := p.StageOf(pos)
	if stage < 0 || stage >= len(r.form.Stages) || len(r.form.Stages[stage].Groups) == 0 {
		return false
	}
	gr := &r.form.Stages[stage].Groups[group]
	for i, c := range p.Members(stage, group) {
		if c.Cell == p.Clusters[pos].Cell && i < len(gr.Cells) {
			return c.From(pos) < gr.Cells[i]
		}
	}
	return pos < p.Stages[stage].Groups[group].First+gr.Next
}

// States yields the state of every cluster of the plan, by position. It yields none if the run
// does not belong to the plan, see [Run.Check]. Its cost grows with the fleet.
func (r *Run) States(p *stages.Plan) iter.Seq2[int, stages.State] {
	if r.Check(p) != nil {
		return func(func(int, stages.State) bool) {}
	}
	return func(yield func(int, stages.State) bool) {
		book := newLookup(p, r)
		for pos := range p.Clusters {
			if !yield(pos, book.State(pos)) {
				return
			}
		}
	}
}

// lookup finds clusters of a run by position.
type lookup struct {
	p                 *stages.Plan
	r                 *Run
	inFlight, waiting map[int]int
}

// newLookup returns a lookup of the clusters of a run, which must not change while it is used.
func newLookup(p *stages.Plan, r *Run) lookup {
	l := lookup{p: p, r: r, inFlight: map[int]int{}, waiting: map[int]int{}}
	for i := range r.form.InFlight {
		if r.form.InFlight[i].Attempt != 0 {
			l.inFlight[r.form.InFlight[i].Pos] = i
		}
	}
	for i := range r.form.Waiting {
		l.waiting[r.form.Waiting[i].Pos] = i
	}
	return l
}

// InFlight returns the flight of the cluster at pos, which is in flight.
func (l lookup) InFlight(pos int) *runstate.InFlight { return &l.r.form.InFlight[l.inFlight[pos]] }

// Retrying returns the state of the cluster at pos, which waits to be started again.
func (l lookup) Retrying(pos int) *runstate.Retrying { return &l.r.form.Waiting[l.waiting[pos]] }

// State returns the state of the cluster at pos.
func (l lookup) State(pos int) stages.State {
	if e := runstate.UnsuccessfulAt(l.r.form.Unsuccessful, pos); e != nil {
		return e.State
	}
	if _, ok := l.inFlight[pos]; ok {
		return stages.Running
	}
	if _, ok := l.waiting[pos]; ok {
		return stages.Pending
	}
	if p := l.r.deferredAt(l.p, pos); p != nil {
		if p.Closed && !l.r.IsEnded() && !l.r.isBypassed() {
			return stages.Pending
		}
		return stages.NotStarted
	}
	stage, _ := l.p.StageOf(pos)
	if stage > l.r.form.Stage || stage < len(l.r.form.Stages) && len(l.r.form.Stages[stage].Groups) == 0 {
		return stages.NotStarted
	}
	if l.r.hasReached(l.p, pos) {
		return stages.Completed
	}
	return stages.NotStarted
}

// MayHaveChanged reports whether the run may have changed the cluster at pos.
func (r *Run) MayHaveChanged(pos int, state stages.State) bool {
	switch state {
	case stages.Completed:
		return true
	case stages.Failed:
		return !runstate.UnsuccessfulAt(r.form.Unsuccessful, pos).Unreached
	case stages.Skipped:
		return runstate.UnsuccessfulAt(r.form.Unsuccessful, pos).Sent
	case stages.Running:
		return slices.ContainsFunc(r.form.InFlight, func(f runstate.InFlight) bool { return f.Attempt != 0 && f.Pos == pos && f.MayHaveChanged() })
	case stages.Pending:
		return slices.ContainsFunc(r.form.Waiting, func(y runstate.Retrying) bool { return y.Pos == pos && y.Sent })
	default:
		return false
	}
}

// Clusters yields every cluster of the plan, by position, like [Run.States]. A host shows them
// beside the [Run.Outline].
func (r *Run) Clusters(p *stages.Plan) iter.Seq[stages.ClusterOutline] {
	return func(yield func(stages.ClusterOutline) bool) {
		book := newLookup(p, r)
		for pos, state := range r.States(p) {
			stage, group := p.StageOf(pos)
			c := stages.ClusterOutline{Name: p.Clusters[pos].Name, Stage: p.Stages[stage].Name, Group: p.Stages[stage].Groups[group].Name, State: state}
			switch state { //nolint:exhaustive // other states add nothing to the answer
			case stages.Running:
				f := book.InFlight(pos)
				c.Phase, c.Since, c.Message = f.Phase.String(), f.Started.Time(), f.Message
			case stages.Pending:
				if out := r.deferredAt(p, pos); out != nil {
					c.Message = out.Reason
				} else {
					c.Message = book.Retrying(pos).Message
				}
			case stages.Failed, stages.Skipped:
				c.Message = runstate.UnsuccessfulAt(r.form.Unsuccessful, pos).Reason
			}
			if !yield(c) {
				return
			}
		}
	}
}
