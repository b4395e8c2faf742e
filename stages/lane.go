package stages

import (
	"fmt"
	"slices"
)

// lane picks the cluster of a group that starts next, by what the calendar
// says.
type lane struct {
	s  *stepper
	g  *PlannedGroup
	gr *GroupRun
	// pending are the first of those that are Pending from now on, n is how many
	// they are, first the window that changes first.
	pending []pendingCluster
	n       int
	first   pendingCluster
}

type pendingCluster struct {
	pos   int
	until Instant
	why   string
}

// next takes the cluster that starts next. First come those whose windows are
// open; in profile ClusterUpdate those without windows come after them, in all
// others in between, in the order of the plan.
func (l *lane) next() int {
	for {
		before, _ := l.s.head(l.g, l.gr)
		if before < 0 {
			before = l.g.First + l.g.Len
		}
		if pos := l.reviewed(before); pos >= 0 {
			return pos
		}
		pos, again := l.reached()
		if pos < 0 && !again {
			pos, again = l.unlimited()
		}
		if !again {
			return pos
		}
	}
}

// reviewed takes the first cluster of the ranges that are due which may start
// now, of those before a position.
func (l *lane) reviewed(before int) int {
	now, found := l.s.now, -1
	ranges := l.gr.Passed
	crowded := len(ranges) >= l.s.mostPassed()
	if !slices.ContainsFunc(ranges, func(r Passed) bool { return r.IsDue(now) && l.startable(r, before, crowded) >= 0 }) {
		return -1
	}
	l.gr.Passed = make([]Passed, 0, len(ranges)+1)
	for _, r := range ranges {
		if found >= 0 || !r.IsDue(now) {
			l.file(r)
			continue
		}
		found = l.review(r, before, crowded)
	}
	l.s.changed = true
	return found
}

// startable is that of the stepper, for clusters before a position.
func (l *lane) startable(r Passed, before int, whole bool) int {
	pos := l.s.startable(l.g, r, whole)
	if pos >= before {
		return -1
	}
	return pos
}

// review takes the first cluster of a range that may start now. Those whose
// domains are full stay as they are, and the calendar is not asked about them.
// Where there are too many ranges, none is divided.
func (l *lane) review(r Passed, before int, crowded bool) (found int) {
	pos := r.First
	for found = -1; found < 0 && pos <= r.Last; {
		next := l.startable(r.Spanning(pos, r.Last), before, crowded || len(l.gr.Passed) >= l.s.mostPassed())
		if next < 0 {
			break
		}
		if next > pos {
			l.file(r.Spanning(pos, next-1))
		}
		if l.opens(next, r.Closed) {
			found = next
		}
		pos = next + 1
	}
	if pos <= r.Last {
		l.file(r.Spanning(pos, r.Last))
	}
	return found
}

// reached takes the first cluster from the cursor on that may start now. Those
// before it let it go first, as long as those are not too many. With failure
// domains one that does not start may stand behind such that are due: again tells
// to look at those first.
func (l *lane) reached() (pos int, again bool) {
	for l.s.passSkipped(l.g, l.gr); len(l.gr.Passed) < l.s.mostPassed(); l.s.passSkipped(l.g, l.gr) {
		pos := l.s.takeNext(l.g, l.gr)
		if pos < 0 || l.opens(pos, false) {
			return pos, false
		}
		if len(l.gr.Cells) > 0 {
			return -1, true
		}
	}
	return -1, false
}

// unlimited takes the first cluster that let those with windows go first. It
// tells to look again where that one has a window by now.
func (l *lane) unlimited() (pos int, again bool) {
	crowded := len(l.gr.Passed) >= l.s.mostPassed()
	for i := range l.gr.Passed {
		r := &l.gr.Passed[i]
		if r.Closed || r.NotYet != 0 {
			continue
		}
		pos := l.s.startable(l.g, *r, crowded)
		if pos < 0 {
			continue
		}
		if w := l.s.window(pos); !w.Open {
			r.NotYet = l.s.now
			return -1, true
		}
		l.s.unpass(pos)
		return pos, false
	}
	return -1, false
}

// opens reports whether the cluster at pos starts next; where it does not, it is
// filed. was says that it was outside its window before.
func (l *lane) opens(pos int, was bool) bool {
	w := l.s.window(pos)
	switch {
	case w.Open && (w.Limited || l.s.p.Strategy.Profile != ClusterUpdate):
		return true
	case w.Open:
		l.file(Passed{First: pos, Last: pos})
	default:
		r := Passed{First: pos, Last: pos, Closed: true, NotYet: w.Changes(l.s.now), Reason: windowReason(&w)}
		if !was {
			l.waits(pendingCluster{pos, r.NotYet, r.Reason})
		}
		l.file(r)
	}
	return false
}

// mostPassed is how many ranges of the group may let others go first.
func (s *stepper) mostPassed() int { return min(maxPassed, max(1, maxPassedOfAll/s.groups())) }

// groups is how many groups share what there is room for.
func (s *stepper) groups() int { return len(s.p.Stages[s.r.Stage].Groups) }

// file adds a range to those that are there, mostly behind them.
func (l *lane) file(r Passed) {
	all := l.gr.Passed
	i := len(all)
	for i > 0 && all[i-1].First > r.First {
		i--
	}
	if i > 0 && all[i-1].Join(r, l.s.now) {
		return
	}
	if len(all) >= min(maxPassedReasons, maxReasonsOfAll/l.s.groups()) {
		r.Reason = ""
	}
	l.gr.Passed = slices.Insert(all, i, r)
}

// waits takes in that a cluster is Pending for its window from now on.
func (l *lane) waits(c pendingCluster) {
	l.n++
	if l.n <= maxSingleEvents {
		l.pending = append(l.pending, c)
	}
	if l.n == 1 || c.until != 0 && (l.first.until == 0 || c.until < l.first.until) {
		l.first = c
	}
}

// tell emits what happened to those that wait.
func (l *lane) tell() {
	if l.n <= maxSingleEvents {
		for _, c := range l.pending {
			l.s.emitCluster(c.pos, Event{Type: ClusterPending, Attempt: 1, Message: c.why, Until: c.until.Time()})
		}
		return
	}
	l.s.emitStage(Event{
		Type: ClusterPending, Group: l.g.Name, Count: l.n, Until: l.first.until.Time(),
		Message: fmt.Sprintf("the first is %s: %s", l.s.p.Clusters[l.first.pos].Name, l.first.why),
	})
}
