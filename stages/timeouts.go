package stages

import "time"

// startClock lets a timeout begin once what it is of may start.
func (c control) startClock(f *Flow, clock *Clock) {
	if f.Timeout > 0 && clock.Deadline == 0 && c.r.State == Running {
		clock.Deadline, clock.TimedOut = c.now.Add(f.Timeout), false
		c.changed = true
	}
}

// haltClocks remembers since when timeouts stand still, where there may be any.
func (c control) haltClocks() {
	if c.r.Halted == 0 && c.p.Strategy.HasFlow() {
		c.r.Halted = c.now
	}
}

// resumeClocks lets the timeouts go on that stood still.
func (c control) resumeClocks() {
	if c.r.Halted == 0 {
		return
	}
	stood := c.now - c.r.Halted
	c.r.Halted = 0
	if _, run, ok := c.stage(); ok {
		run.PutOff(stood)
		for i := range run.Groups {
			run.Groups[i].PutOff(stood)
		}
	}
}

// timeouts fails what has not ended in time.
func (c control) timeouts() {
	st, run, ok := c.stage()
	if !ok || c.r.State != Running {
		return
	}
	if run.IsOver(c.now) {
		c.timeOut(&run.Clock, "stage "+st.Name, st.Timeout, nil)
	}
	for i := range run.Groups {
		if g := &st.Groups[i]; c.r.State == Running && run.Groups[i].IsOver(c.now) {
			c.timeOut(&run.Groups[i].Clock, "group "+g.Name+" of stage "+st.Name, g.Timeout, g)
		}
	}
}

// timeOut fails what is in flight of a group, or of all where that is nil, and the
// run with it.
func (c control) timeOut(clock *Clock, what string, after time.Duration, g *PlannedGroup) {
	clock.Deadline, clock.TimedOut = 0, true
	reason := what + " was not done within " + after.String()
	c.exceeded(reason)
	c.eachFlight(func(f *Flight) {
		if g == nil || g.Has(f.Pos) {
			c.giveUp(f, reason)
		}
	})
}
