package stages

import "fmt"

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
		if pos := l.reviewed(); pos >= 0 {
			return pos
		}
		if pos := l.reached(); pos >= 0 {
			return pos
		}
		pos, again := l.unlimited()
		if !again {
			return pos
		}
	}
}

// reviewed takes the first cluster of the ranges that are due which may start
// now.
func (l *lane) reviewed() int {
	now, found := l.s.now, -1
	for i := 0; ; i++ {
		if i == len(l.gr.Passed) {
			return -1
		}
		if l.gr.Passed[i].due(now) {
			break
		}
	}
	ranges := l.gr.Passed
	l.gr.Passed = make([]Passed, 0, len(ranges)+1)
	for _, r := range ranges {
		if found >= 0 || !r.due(now) {
			l.file(r)
			continue
		}
		pos := r.First
		for ; pos <= r.Last && found < 0; pos++ {
			if l.opens(pos, r.Closed) {
				found = pos
			}
		}
		if pos <= r.Last {
			l.file(r.over(pos, r.Last))
		}
	}
	l.s.changed = true
	return found
}

// reached takes the first cluster from the cursor on that may start now. Those
// before it let it go first, as long as those are not too many.
func (l *lane) reached() int {
	for l.s.passSkipped(l.g, l.gr); l.gr.Next < l.g.Len && len(l.gr.Passed) < l.mostPassed(); l.s.passSkipped(l.g, l.gr) {
		pos := l.g.First + l.gr.Next
		l.gr.Next++
		l.s.changed = true
		if l.opens(pos, false) {
			return pos
		}
	}
	return -1
}

// unlimited takes the first cluster that let those with windows go first. It
// tells to look again where that one has a window by now.
func (l *lane) unlimited() (pos int, again bool) {
	for i := range l.gr.Passed {
		r := &l.gr.Passed[i]
		if r.Closed || r.NotYet != 0 {
			continue
		}
		pos := r.First
		if w := l.s.window(pos); !w.Open {
			r.NotYet = l.s.now
			return -1, true
		}
		l.s.unpass(pos)
		return pos, false
	}
	return -1, false
}

// opens tells that the cluster at pos starts next; where it does not, it is
// filed. was tells that it was outside its window before.
func (l *lane) opens(pos int, was bool) bool {
	w := l.s.window(pos)
	switch {
	case w.Open && (w.Limited || l.s.p.Strategy.Profile != ClusterUpdate):
		return true
	case w.Open:
		l.file(Passed{First: pos, Last: pos})
	default:
		r := Passed{First: pos, Last: pos, Closed: true, NotYet: w.changes(l.s.now), Reason: w.why()}
		if !was {
			l.waits(pendingCluster{pos, r.NotYet, r.Reason})
		}
		l.file(r)
	}
	return false
}

// mostPassed is how many ranges of the group may let others go first.
func (l *lane) mostPassed() int { return min(maxPassed, max(1, maxPassedOfAll/l.groups())) }

// groups is how many groups share what there is room for.
func (l *lane) groups() int { return len(l.s.p.Stages[l.s.r.Stage].Groups) }

// file adds a range behind those that are there.
func (l *lane) file(r Passed) {
	n := len(l.gr.Passed)
	if n > 0 && l.gr.Passed[n-1].join(r, l.s.now) {
		return
	}
	if n >= min(maxPassedReasons, maxReasonsOfAll/l.groups()) {
		r.Reason = ""
	}
	l.gr.Passed = append(l.gr.Passed, r)
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
