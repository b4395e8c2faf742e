package stages

import (
	"iter"
	"slices"
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

// DeferredAt returns the range of deferred clusters that has the cluster at pos, or nil.
func (r *Run) DeferredAt(p *Plan, pos int) *Deferred {
	stage, group := p.StageOf(pos)
	if stage != r.Stage || len(r.Stages[stage].Groups) == 0 {
		return nil
	}
	ranges := r.Stages[stage].Groups[group].Deferred
	i, ok := slices.BinarySearchFunc(ranges, pos, func(r Deferred, pos int) int {
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

// Spanning returns the range with other bounds.
func (r Deferred) Spanning(first, last int) Deferred {
	r.First, r.Last = first, last
	return r
}

// IsDue reports whether the calendar has to be read again for the range.
func (r *Deferred) IsDue(now Instant) bool { return r.NotYet != 0 && r.NotYet <= now }

// Join extends the range by the one that follows, if both have the same state, and reports whether it did.
func (r *Deferred) Join(next Deferred, now Instant) bool {
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

// HasComeTo reports whether the run has reached the cluster at pos: it has ended, is in flight, waits, or is
// deferred.
func (r *Run) HasComeTo(p *Plan, pos int) bool {
	stage, group := p.StageOf(pos)
	if stage < 0 || stage >= len(r.Stages) || len(r.Stages[stage].Groups) == 0 {
		return false
	}
	gr := &r.Stages[stage].Groups[group]
	for i, c := range p.Members(stage, group) {
		if c.Cell == p.Clusters[pos].Cell && i < len(gr.Cells) {
			return c.From(pos) < gr.Cells[i]
		}
	}
	return pos < p.Stages[stage].Groups[group].First+gr.Next
}

// States yields the state of every cluster of the plan, by position; of a run that
// is not one of the plan, by [Check], none. Its cost grows with the fleet.
func States(p *Plan, r *Run) iter.Seq2[int, State] {
	if Check(p, r) != nil {
		return func(func(int, State) bool) {}
	}
	return func(yield func(int, State) bool) {
		book := NewLookup(p, r)
		for pos := range p.Clusters {
			if !yield(pos, book.State(pos)) {
				return
			}
		}
	}
}

// Lookup finds clusters of a run by position.
type Lookup struct {
	p                 *Plan
	r                 *Run
	inFlight, waiting map[int]int
}

// NewLookup returns a lookup of the clusters of a run, which must not change while it is used.
func NewLookup(p *Plan, r *Run) Lookup {
	l := Lookup{p: p, r: r, inFlight: map[int]int{}, waiting: map[int]int{}}
	for i := range r.InFlight {
		if r.InFlight[i].Attempt != 0 {
			l.inFlight[r.InFlight[i].Pos] = i
		}
	}
	for i := range r.Waiting {
		l.waiting[r.Waiting[i].Pos] = i
	}
	return l
}

// InFlight returns the flight of the cluster at pos, which is in flight.
func (l Lookup) InFlight(pos int) *InFlight { return &l.r.InFlight[l.inFlight[pos]] }

// Retrying returns the state of the cluster at pos, which waits to be started again.
func (l Lookup) Retrying(pos int) *Retrying { return &l.r.Waiting[l.waiting[pos]] }

// State returns the state of the cluster at pos.
func (l Lookup) State(pos int) State {
	if e := UnsuccessfulAt(l.r.Unsuccessful, pos); e != nil {
		return e.State
	}
	if _, ok := l.inFlight[pos]; ok {
		return Running
	}
	if _, ok := l.waiting[pos]; ok {
		return Pending
	}
	if p := l.r.DeferredAt(l.p, pos); p != nil {
		if p.Closed && !l.r.IsEnded() && !l.r.IsBypassed() {
			return Pending
		}
		return NotStarted
	}
	stage, _ := l.p.StageOf(pos)
	if stage > l.r.Stage || stage < len(l.r.Stages) && len(l.r.Stages[stage].Groups) == 0 {
		return NotStarted
	}
	if l.r.HasComeTo(l.p, pos) {
		return Completed
	}
	return NotStarted
}

// IsTouched reports whether the run may have changed the cluster at pos.
func (r *Run) IsTouched(pos int, state State) bool {
	switch state {
	case Completed, Failed:
		return true
	case Skipped:
		return UnsuccessfulAt(r.Unsuccessful, pos).Sent
	case Running:
		return slices.ContainsFunc(r.InFlight, func(f InFlight) bool { return f.Attempt != 0 && f.Pos == pos && f.Sent })
	case Pending:
		return slices.ContainsFunc(r.Waiting, func(y Retrying) bool { return y.Pos == pos && y.Sent })
	default:
		return false
	}
}

// Touched returns the number of clusters that a run may have changed.
func Touched(p *Plan, r *Run) (n int) {
	for pos, state := range States(p, r) {
		if r.IsTouched(pos, state) {
			n++
		}
	}
	return n
}
