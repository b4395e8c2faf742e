package stages

import (
	"cmp"
	"slices"
)

// groupOf returns the planned group of the current stage that pos is in, and
// its run. pos must be in the current stage.
func (s *stepper) groupOf(pos int) (*PlannedGroup, *GroupRun) {
	st, run, _ := s.stage()
	i, found := slices.BinarySearchFunc(st.Groups, pos, func(g PlannedGroup, pos int) int {
		switch {
		case pos < g.First:
			return 1
		case pos >= g.First+g.Len:
			return -1
		default:
			return 0
		}
	})
	if !found {
		return nil, nil
	}
	return &st.Groups[i], &run.Groups[i]
}

// flight returns the slot of the cluster at pos, or nil.
func (s *stepper) flight(pos int) *Flight {
	for i := range s.r.Flights {
		if f := &s.r.Flights[i]; f.Pos == pos && f.Attempt != 0 {
			return f
		}
	}
	return nil
}

// take puts a cluster into the first free slot.
func (s *stepper) take(f Flight) {
	s.changed = true
	s.inDomain(f.Pos, 1)
	for i := range s.r.Flights {
		if s.r.Flights[i].Attempt == 0 {
			s.r.Flights[i] = f
			return
		}
	}
	s.r.Flights = append(s.r.Flights, f)
}

// free gives the slot of f back and drops free slots at the end.
func (s *stepper) free(f *Flight) {
	s.inDomain(f.Pos, -1)
	*f = Flight{}
	s.changed = true
	n := len(s.r.Flights)
	for n > 0 && s.r.Flights[n-1].Attempt == 0 {
		n--
	}
	s.r.Flights = s.r.Flights[:n]
}

// eachFlight calls do for every cluster in flight; do may end the flight.
func (s *stepper) eachFlight(do func(*Flight)) {
	for i := 0; i < len(s.r.Flights); i++ {
		if f := &s.r.Flights[i]; f.Attempt != 0 {
			do(f)
		}
	}
}

// inFlight counts the slots in use.
func (s *stepper) inFlight() (n int) {
	for i := range s.r.Flights {
		if s.r.Flights[i].Attempt != 0 {
			n++
		}
	}
	return n
}

// yielded returns the index in Waiting of the cluster at pos, or -1.
func (s *stepper) yielded(pos int) int {
	return slices.IndexFunc(s.r.Waiting, func(y Yielded) bool { return y.Pos == pos })
}

// unreached counts the clusters that wait because they could not be reached.
func (s *stepper) unreached() (n int) {
	for i := range s.r.Waiting {
		if s.r.Waiting[i].Tries > 0 {
			n++
		}
	}
	return n
}

// dueUnreached returns the index in Waiting of a cluster of the group of pos
// that could not be reached and is due, and may have the slot of pos; or -1.
func (s *stepper) dueUnreached(pos int) int {
	if s.spare() < 0 {
		return -1
	}
	g, _ := s.groupOf(pos)
	s.inDomains()
	s.inDomain(pos, -1)
	defer s.inDomain(pos, 1)
	return s.due(g, true)
}

// unyield takes the cluster at index i out of Waiting.
func (s *stepper) unyield(i int) {
	s.r.Waiting = slices.Delete(s.r.Waiting, i, i+1)
	s.changed = true
}

// dropWaiting gives up the clusters that yielded their slot.
func (s *stepper) dropWaiting(reason string) {
	waiting := s.r.Waiting
	s.r.Waiting = nil
	for _, y := range waiting {
		s.record(skippedYielded(&y, reason))
	}
}

// except records an exception for the positions of e that have none yet, and
// returns how many those are.
func (s *stepper) except(e Exception) (n int) {
	e.Reason = cut(e.Reason)
	var add []Exception
	next := e.First
	for _, old := range s.r.Exceptions {
		if old.Last < next || old.First > e.Last {
			continue
		}
		if old.First > next {
			add = append(add, e.Spanning(next, old.First-1))
		}
		next = old.Last + 1
	}
	if next <= e.Last {
		add = append(add, e.Spanning(next, e.Last))
	}
	if len(add) == 0 {
		return 0
	}
	for i, room := 0, maxReasons-s.reasons(); i < len(add); i++ {
		n += add[i].Last - add[i].First + 1
		if i >= room {
			add[i].Reason = ""
		}
	}
	s.changed = true
	s.r.Exceptions = mergeExceptions(append(s.r.Exceptions, add...))
	return n
}

// reasons counts the exceptions that keep their reason.
func (s *stepper) reasons() (n int) {
	for i := range s.r.Exceptions {
		if s.r.Exceptions[i].Reason != "" {
			n++
		}
	}
	return n
}

// mergeExceptions sorts and joins neighbours that say the same.
func mergeExceptions(es []Exception) []Exception {
	slices.SortFunc(es, func(a, b Exception) int { return cmp.Compare(a.First, b.First) })
	out := es[:0]
	for _, e := range es {
		if n := len(out); n > 0 && out[n-1].Last+1 == e.First && out[n-1].Spanning(0, 0) == e.Spanning(0, 0) {
			out[n-1].Last = e.Last
			continue
		}
		out = append(out, e)
	}
	return out
}

// unexcept takes the cluster at pos out of its exception.
func (s *stepper) unexcept(pos int) {
	var out []Exception
	for _, e := range s.r.Exceptions {
		if pos < e.First || pos > e.Last {
			out = append(out, e)
			continue
		}
		if e.First < pos {
			out = append(out, e.Spanning(e.First, pos-1))
		}
		if pos < e.Last {
			out = append(out, e.Spanning(pos+1, e.Last))
		}
	}
	s.r.Exceptions = out
	s.changed = true
}
