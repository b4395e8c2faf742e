package stages

import "time"

// window returns the window of a cluster, open where it is not limited.
func (s *starter) window(pos int) Window {
	if s.anytime() {
		return Window{Open: true}
	}
	w := s.calendar.Window(pos, s.now.Time())
	w.Open = w.Open || !w.Limited
	return w
}

// anytime reports whether windows play no part now.
func (s *starter) anytime() bool { return s.calendar == nil || s.r.IsBypassed() }

// mayStart reports whether a cluster that yielded its slot may have one again. One
// that only its window keeps from that is Pending for its window.
func (s *starter) mayStart(y *Yielded) bool {
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

// windowReason says why a cluster with that window waits.
func windowReason(w *Window) string {
	if w.Reason == "" {
		return "outside its maintenance window"
	}
	return cutAt(w.Reason, maxYieldedMessage)
}

// newCalendar has the calendar asked again about every cluster that waits for its window.
func (d *draft) newCalendar() {
	_, run, ok := d.stage()
	if !ok || d.r.Final(d.p) {
		return
	}
	for i := range run.Groups {
		for j := range run.Groups[i].Passed {
			run.Groups[i].Passed[j].NotYet = d.now
			d.changed = true
		}
	}
	for i := range d.r.Waiting {
		if y := &d.r.Waiting[i]; y.Closed {
			y.NotYet = d.now
			d.changed = true
		}
	}
}

// longestBypass is how far ahead windows may be bypassed.
const longestBypass = 7 * 24 * time.Hour

// bypass lets clusters start outside their windows for a while, or ends that. It
// returns why it does not, or "".
func (d *draft) bypass(c Command) string {
	until := At(c.Until)
	switch {
	case c.Message == "":
		return "a bypass of windows needs a reason"
	case until == 0:
		return "a bypass of windows needs to know until when"
	case until > d.now.Add(longestBypass):
		return "windows may be bypassed for 7 days at most, until " + d.now.Add(longestBypass).Time().Format(time.RFC3339)
	case until <= d.now && !d.r.IsBypassed():
		return "it is " + d.now.Time().Format(time.RFC3339) + " already, and there is no bypass to end"
	}
	until = max(until, d.now)
	d.r.Bypass = &Bypass{Until: until, By: c.By.Name, Reason: cut(c.Message)}
	d.emit(Event{Type: WindowsBypassed, By: c.By.Name, Until: until.Time(), Message: cut(c.Message)})
	return ""
}
