package stages

import (
	"slices"
	"time"

	"github.com/slipway-dev/slipway/stages/runstate"
)

// Bounds of what a run keeps of clusters that wait for their windows.
const (
	// maxPassed is how many ranges of clusters of a group may let others go first,
	// maxPassedOfAll how many of all groups of a stage, each of which may have one.
	maxPassed, maxPassedOfAll = 1024, 2048
	// maxPassedReasons is how many of those of a group keep their reason,
	// maxReasonsOfAll how many of those of all groups.
	maxPassedReasons, maxReasonsOfAll = 64, 256
	// maxSingleEvents is how many clusters of a group to which the same happens
	// at once get an event each.
	maxSingleEvents = 8
)

// window returns the window of a cluster, open where nobody limits it.
func (s *stepper) window(pos int) Window {
	if s.anytime() {
		return Window{Open: true}
	}
	w := s.calendar.Window(pos, s.now.Time())
	w.Open = w.Open || !w.Limited
	return w
}

// anytime reports whether windows play no part now.
func (s *stepper) anytime() bool { return s.calendar == nil || s.r.IsBypassed() }

// startNext starts a cluster of a group: one that is to be tried again, the
// next one, or one that could not be reached and is due. Those come last, so
// that however many cannot be reached, the others get their turn.
func (s *stepper) startNext(g *PlannedGroup, gr *GroupRun) bool {
	if i := s.due(g, false); i >= 0 {
		s.startAgain(i)
		return true
	}
	if pos := s.nextOf(g, gr); pos >= 0 {
		s.launch(Flight{Pos: pos, Attempt: 1, Started: s.now})
		return true
	}
	if i := s.due(g, true); i >= 0 {
		s.startAgain(i)
		return true
	}
	return false
}

// due returns the index in Waiting of a cluster of g to be started now, or -1:
// of those that could not be reached, or of the others.
func (s *stepper) due(g *PlannedGroup, unreached bool) int {
	for i := range s.r.Waiting {
		if y := &s.r.Waiting[i]; (y.Tries > 0) == unreached && g.Has(y.Pos) && s.hasRoom(y.Pos) && s.mayStart(y) {
			return i
		}
	}
	return -1
}

// mayStart reports whether a cluster that yielded its slot may have one again. One
// that only its window keeps from that is Pending for its window.
func (s *stepper) mayStart(y *Yielded) bool {
	never := y.Closed && y.NotYet == 0
	if y.Closed && s.anytime() {
		return true
	}
	if never || y.NotYet > s.now {
		return false
	}
	w := s.window(y.Pos)
	if w.Open {
		return true
	}
	news := !y.Closed || y.Message != windowReason(&w)
	y.Closed, y.NotYet, y.Message = true, w.Changes(s.now), windowReason(&w)
	s.changed = true
	if news {
		s.emitCluster(y.Pos, Event{Type: ClusterPending, Attempt: y.Attempt, Message: y.Message, Until: y.NotYet.Time()})
	}
	return false
}

// startAgain starts the cluster at index i of Waiting. The time that it was
// Pending counts only in a removal, whose deadline begins with the first try.
func (s *stepper) startAgain(i int) {
	y := s.r.Waiting[i]
	s.unyield(i)
	f := Flight{
		Pos: y.Pos, Attempt: y.Attempt, Sent: y.Sent, Tries: y.Tries, Since: y.Since,
		Started: s.now - Instant(y.Spent), Message: y.Message,
	}
	if st, _, ok := s.stage(); ok && st.Remove {
		f.Started = y.Started
	}
	s.launch(f)
}

// launch puts a cluster into flight. Another try to reach it is no start.
func (s *stepper) launch(f Flight) {
	f.Phase = Applying
	s.take(f)
	if f.Tries > 0 {
		return
	}
	s.emitCluster(f.Pos, Event{Type: ClusterStarted, Attempt: f.Attempt})
}

// passSkipped moves the cursor of a group over clusters that are not to be
// started.
func (s *stepper) passSkipped(g *PlannedGroup, gr *GroupRun) {
	if cells := s.cellsOf(g); cells != nil {
		s.passSkippedCells(cells, gr)
		return
	}
	for gr.Next < g.Len {
		e := runstate.ExceptionAt(s.r.Exceptions, g.First+gr.Next)
		if e == nil {
			return
		}
		n := min(e.Last-g.First, g.Len-1) + 1 - gr.Next
		gr.Next += n
		gr.Skipped += n
		s.changed = true
	}
}

// nextOf takes the cluster of a group that is to start first, and returns its
// position; -1 where none may.
func (s *stepper) nextOf(g *PlannedGroup, gr *GroupRun) int {
	if !s.anytime() {
		l := &lane{s: s, g: g, gr: gr}
		pos := l.next()
		l.tell()
		return pos
	}
	crowded := len(gr.Passed) >= s.mostPassed()
	head, _ := s.head(g, gr)
	for _, r := range gr.Passed {
		if pos := s.startable(g, r, crowded); pos >= 0 && (head < 0 || pos < head) {
			s.unpass(pos)
			return pos
		}
	}
	return s.takeNext(g, gr)
}

// passed reports whether the cluster at pos let others go first.
func (s *stepper) passed(pos int) bool { return s.r.PassedAt(s.p, pos) != nil }

// unpass takes the cluster at pos out of those that let others go first, and
// reports whether it was one.
func (s *stepper) unpass(pos int) bool {
	found := s.r.PassedAt(s.p, pos)
	if found == nil {
		return false
	}
	r := *found
	_, gr := s.groupOf(pos)
	i := slices.Index(gr.Passed, r)
	var rest []Passed
	if r.First < pos {
		rest = append(rest, r.Spanning(r.First, pos-1))
	}
	if pos < r.Last {
		rest = append(rest, r.Spanning(pos+1, r.Last))
	}
	gr.Passed = slices.Replace(gr.Passed, i, i+1, rest...)
	s.changed = true
	return true
}

// askAgain has the calendar asked again about everybody.
func (s *stepper) askAgain() {
	_, run, ok := s.stage()
	if !ok || s.r.Final(s.p) {
		return
	}
	for i := range run.Groups {
		for j := range run.Groups[i].Passed {
			run.Groups[i].Passed[j].NotYet = s.now
			s.changed = true
		}
	}
	for i := range s.r.Waiting {
		if y := &s.r.Waiting[i]; y.Closed {
			y.NotYet = s.now
			s.changed = true
		}
	}
}

// wakeForWindows adds when windows of clusters may open.
func (s *stepper) wakeForWindows(w *alarm) {
	if _, run, ok := s.stage(); ok {
		for i := range run.Groups {
			for j := range run.Groups[i].Passed {
				w.at(run.Groups[i].Passed[j].NotYet)
			}
		}
	}
}

// longestBypass is how far ahead windows may be bypassed.
const longestBypass = 7 * 24 * time.Hour

// bypass lets clusters start outside their windows for a while, or ends that.
func (s *stepper) bypass(c Command) string {
	until := At(c.Until)
	switch {
	case c.Message == "":
		return "a bypass of windows needs a reason"
	case until == 0:
		return "a bypass of windows needs to know until when"
	case until > s.now.Add(longestBypass):
		return "windows may be bypassed for 7 days at most, until " + s.now.Add(longestBypass).Time().Format(time.RFC3339)
	case until <= s.now && !s.r.IsBypassed():
		return "it is " + s.now.Time().Format(time.RFC3339) + " already, and there is no bypass to end"
	}
	until = max(until, s.now)
	s.r.Bypass = &Bypass{Until: until, By: c.By.Name, Reason: cut(c.Message)}
	s.emit(Event{Type: WindowsBypassed, By: c.By.Name, Until: until.Time(), Message: cut(c.Message)})
	return ""
}

// windowReason says why a cluster with that window waits.
func windowReason(w *Window) string {
	if w.Reason == "" {
		return "outside its maintenance window"
	}
	return cutAt(w.Reason, maxYieldedMessage)
}
