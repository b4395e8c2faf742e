package runstate

import (
	"slices"

	"github.com/slipway-dev/slipway/stages"
)

// UnsuccessfulAt returns the range that covers pos, or nil.
func UnsuccessfulAt(es []Unsuccessful, pos int) *Unsuccessful {
	i, found := slices.BinarySearchFunc(es, pos, func(e Unsuccessful, pos int) int {
		switch {
		case pos < e.First:
			return 1
		case pos > e.Last:
			return -1
		default:
			return 0
		}
	})
	if !found {
		return nil
	}
	return &es[i]
}

// Spanning returns the range with other bounds.
func (e Unsuccessful) Spanning(first, last int) Unsuccessful {
	e.First, e.Last = first, last
	return e
}

// Spanning returns the range with other bounds.
func (r Deferred) Spanning(first, last int) Deferred {
	r.First, r.Last = first, last
	return r
}

// IsDue reports whether the calendar must be read again for the range.
func (r *Deferred) IsDue(now stages.Instant) bool { return r.NotYet != 0 && r.NotYet <= now }

// Join extends the range by the next one, if they are adjacent and have the same state, and reports
// whether it did.
func (r *Deferred) Join(next Deferred, now stages.Instant) bool {
	if r.Last+1 != next.First || r.Closed != next.Closed {
		return false
	}
	if r.NotYet != next.NotYet && (!r.Closed || r.IsDue(now) || next.IsDue(now)) {
		return false
	}
	if r.NotYet == 0 || next.NotYet != 0 && next.NotYet < r.NotYet {
		r.NotYet = next.NotYet
	}
	if r.Reason != next.Reason {
		r.Reason = ""
	}
	r.Last = next.Last
	return true
}

// At returns the slot of the cluster at pos, or nil if it is not in flight.
func (f *Form) At(pos int) *InFlight {
	for i := range f.InFlight {
		if s := &f.InFlight[i]; s.Pos == pos && s.Attempt != 0 {
			return s
		}
	}
	return nil
}

// MayHaveChanged reports whether the run may have changed the cluster.
func (f *InFlight) MayHaveChanged() bool { return f.Sent || f.Assumed }

// Flying counts the clusters in flight, which are the slots in use.
func (f *Form) Flying() (n int) {
	for i := range f.InFlight {
		if f.InFlight[i].Attempt != 0 {
			n++
		}
	}
	return n
}

// FlyingOf reports whether a cluster of the group is in flight.
func (f *Form) FlyingOf(g *stages.PlannedGroup) bool {
	return slices.ContainsFunc(f.InFlight, func(s InFlight) bool { return s.Attempt != 0 && g.Has(s.Pos) })
}

// ClustersEnded reports whether every cluster of the current stage has ended.
func (f *Form) ClustersEnded(st *stages.PlannedStage, run *StageRun) bool {
	for i := range st.Groups {
		if run.Groups[i].Next < st.Groups[i].Len || len(run.Groups[i].Deferred) > 0 {
			return false
		}
	}
	return len(f.Waiting) == 0 && len(f.InFlight) == 0
}

// MembersEnded reports whether every cluster of a group of the current stage has ended.
func (f *Form) MembersEnded(g *stages.PlannedGroup, gr *GroupRun) bool {
	return gr.Next >= g.Len && len(gr.Deferred) == 0 && !f.FlyingOf(g) &&
		!slices.ContainsFunc(f.Waiting, func(y Retrying) bool { return g.Has(y.Pos) })
}
