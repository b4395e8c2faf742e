package step

import (
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// window returns the window of a cluster. A cluster without limits has a window that is always
// open.
func (s *starter) window(pos int) stages.Window {
	if s.anytime() {
		return stages.Window{Open: true}
	}
	w := s.calendar.Window(pos, s.now.Time())
	w.Open = w.Open || !w.Limited
	return w
}

// anytime reports whether windows have no effect now.
func (s *starter) anytime() bool { return s.calendar == nil || s.r.isBypassed() }

// mayStart reports whether a cluster in Waiting may have a slot. A cluster that only its window
// keeps from starting becomes Pending for that window.
func (s *starter) mayStart(y *runstate.Retrying) bool {
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
		s.emitCluster(y.Pos, stages.Event{Type: stages.ClusterPending, Attempt: y.Attempt, Message: y.Message, Until: y.NotYet.Time()})
	}
	return false
}

// windowReason returns why a cluster with that window waits.
func windowReason(w *stages.Window) string {
	if w.Reason == "" {
		return "outside its maintenance window"
	}
	return values.Cut(w.Reason, maxRetryMessage)
}

// recheck makes every cluster that waits for its window due to be checked against the calendar.
func (s *starter) recheck() {
	_, run, ok := s.stage()
	if !ok || s.r.Final(s.p) {
		return
	}
	for i := range run.Groups {
		for j := range run.Groups[i].Deferred {
			run.Groups[i].Deferred[j].NotYet = s.now
			s.changed = true
		}
	}
	for i := range s.r.form.Waiting {
		if y := &s.r.form.Waiting[i]; y.Closed {
			y.NotYet = s.now
			s.changed = true
		}
	}
}
