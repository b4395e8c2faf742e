package stages

import (
	"slices"
	"time"

	"github.com/slipway-dev/slipway/approval"
)

// OnFailure is what becomes of a run of profile Workflow past a budget or a
// timeout.
type OnFailure string

// What to do on a failure.
const (
	// SuspendRun stops the run, to be resumed or aborted. It is the default.
	SuspendRun OnFailure = "Suspend"
	// EndRun ends the run as Failed, once what runs always has run.
	EndRun OnFailure = "End"
)

// Flow is what a stage or a group has of a step of a workflow.
type Flow struct {
	// Pause makes it one that picks no clusters and whose tasks hold the run all the
	// same. It has at least one task before it and none after it.
	Pause bool `json:"pause,omitempty"`
	// Timeout is how long it may take from when its gates before have passed until
	// its last cluster has ended; 0 means for ever. Past it what is in flight has
	// failed, and the run goes the way of one whose budget is exceeded. Time in
	// which the run is stopped or about to be does not count. That of a Pause counts
	// from when it is reached.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Always runs it also when the run has failed or was aborted before. Only
	// profile Workflow has it.
	Always bool `json:"always,omitempty"`
}

// Closing tells that a run has failed or was aborted and goes on only with what
// runs always.
type Closing struct {
	// State is what the run comes to then, Failed or Aborted, for the Reason.
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// reason is why, where a run is closing.
func (c *Closing) reason() string {
	if c == nil {
		return ""
	}
	return c.Reason
}

// Flows tells that the run has what only runs of workflows have, which is stored in
// a newer format than the rest.
func (r *Run) Flows() bool {
	if r.Closing != nil || r.Halted != 0 {
		return true
	}
	for i := range r.Stages {
		st := &r.Stages[i]
		if st.Clock != (Clock{}) || slices.ContainsFunc(st.Groups, func(g GroupRun) bool { return g.Clock != Clock{} }) {
			return true
		}
	}
	return false
}

// suspends tells that a run which fails is stopped rather than ended.
func (s *Strategy) suspends() bool { return s.Profile == Workflow && s.OnFailure != EndRun }

// closes makes a run that has failed or was aborted, and of which nothing is in
// flight, go on with what runs always; false where there is nothing of that, or
// the run is at it already.
func (s *stepper) closes(state State, reason string) bool {
	if s.r.Closing != nil || s.r.Started == 0 || !s.alwaysLeft() {
		return false
	}
	s.r.Closing = &Closing{State: state, Reason: cut(reason)}
	s.r.Ending, s.r.StopAt = "", 0
	s.goOn()
	for i := s.r.Stage; i < len(s.p.Stages); i++ {
		s.skipUnlessAlways(i, "not run: "+reason)
	}
	s.breakStage(state)
	s.set(Running, reason)
	s.emit(Event{Type: RunClosing, Message: s.r.Reason})
	s.timeouts() // of what was about to be late when the run began to stop
	return true
}

// alwaysLeft tells that a stage or a group runs always and has not begun to fail.
func (s *stepper) alwaysLeft() bool {
	for i := s.r.Stage; i < len(s.p.Stages); i++ {
		st := &s.p.Stages[i]
		if st.Always && i > s.r.Stage && !s.r.Stages[i].SkipGates {
			return true
		}
		for j := range st.Groups {
			if st.Groups[j].Always && s.groupLeft(i, j) {
				return true
			}
		}
	}
	return false
}

// groupLeft tells that a group has not ended.
func (s *stepper) groupLeft(stage, group int) bool {
	run, g := &s.r.Stages[stage], &s.p.Stages[stage].Groups[group]
	if run.SkipGates || len(run.Groups) == 0 || g.Pause {
		return !run.SkipGates && (len(run.Groups) == 0 || run.Groups[group].Ended == 0)
	}
	return !s.membersEnded(g, &run.Groups[group])
}

// skipUnlessAlways skips what does not run always of a stage.
func (s *stepper) skipUnlessAlways(i int, reason string) {
	st := &s.p.Stages[i]
	always := func(g PlannedGroup) bool { return g.Always }
	switch {
	case st.Always && i > s.r.Stage:
	case !slices.ContainsFunc(st.Groups, always):
		s.skipStage(i, reason)
	default:
		for j := range st.Groups {
			if !st.Groups[j].Always {
				s.skipGroup(i, j, reason)
			}
		}
	}
}

// breakStage records that the current stage is where the run broke off.
func (s *stepper) breakStage(state State) {
	if _, run, ok := s.stage(); ok && run.Reached != 0 {
		run.State, run.Deadline = state, 0 // what runs always in it has timeouts of its own
		s.changed = true
	}
}

// broken tells that the run broke off in the stage.
func (r *StageRun) broken() bool { return r.State == Failed || r.State == Aborted }

// failAlways takes in that something which runs always has failed: what is left of
// its stage is skipped, and the run goes on with the next.
func (s *stepper) failAlways(reason string) {
	s.skipStage(s.r.Stage, "not run: "+reason)
	s.breakStage(Failed)
}

// finishClosing ends a run whose last stage is done as it failed or was aborted
// before.
func (s *stepper) finishClosing(c Closing) {
	s.set(c.State, c.Reason)
	e := Event{Type: RunFailed, Message: c.Reason}
	if c.State == Aborted {
		e.Type = RunAborted
	}
	s.end(e)
}

// pauses tells that the stage, or a group of it, holds the run without clusters.
func (s *PlannedStage) pauses() bool {
	return s.Pause || slices.ContainsFunc(s.Groups, func(g PlannedGroup) bool { return g.Pause })
}

// flows tells that the run keeps track of when the group is reached and ends.
func (g *PlannedGroup) flows(st *PlannedStage) bool {
	return len(g.Gates) > 0 || st.tracked() || g.Timeout > 0
}

// tracked tells that groups of the stage wait for others.
func (s *PlannedStage) tracked() bool {
	return slices.ContainsFunc(s.Groups, func(g PlannedGroup) bool { return len(g.After) > 0 })
}

// isNext tells that every group has ended that the group comes after.
func (g *PlannedGroup) isNext(run *StageRun) bool {
	return !slices.ContainsFunc(g.After, func(i int) bool { return run.Groups[i].Ended == 0 })
}

// startClock lets a timeout begin once what it is of may start.
func (s *stepper) startClock(f *Flow, c *Clock) {
	if f.Timeout > 0 && c.Deadline == 0 && s.r.State == Running {
		c.Deadline, c.TimedOut = s.now.Add(f.Timeout), false
		s.changed = true
	}
}

// Clock is the timeout of a stage or a group that has begun.
type Clock struct {
	// Deadline is when it is over; it is put off by the time the run was stopped.
	Deadline Instant `json:"deadline,omitempty"`
	// TimedOut tells that it was over before the stage or group had ended.
	TimedOut bool `json:"timedOut,omitempty"`
}

// isOver tells that the deadline has passed.
func (c *Clock) isOver(now Instant) bool { return c.Deadline != 0 && now >= c.Deadline }

// timeouts fails what has not ended in time.
func (s *stepper) timeouts() {
	st, run, ok := s.stage()
	if !ok || s.r.State != Running {
		return
	}
	if run.isOver(s.now) {
		s.timeOut(&run.Clock, "stage "+st.Name, st.Timeout, nil)
	}
	for i := range run.Groups {
		if g := &st.Groups[i]; s.r.State == Running && run.Groups[i].isOver(s.now) {
			s.timeOut(&run.Groups[i].Clock, "group "+g.Name+" of stage "+st.Name, g.Timeout, g)
		}
	}
}

// timeOut fails what is in flight of a group, or of all where that is nil, and the
// run with it.
func (s *stepper) timeOut(c *Clock, what string, after time.Duration, g *PlannedGroup) {
	c.Deadline, c.TimedOut = 0, true
	reason := what + " was not done within " + after.String()
	s.exceeded(reason)
	s.eachFlight(func(f *Flight) {
		if g == nil || g.has(f.Pos) {
			s.leave(f, Failed, reason)
		}
	})
}

// halt remembers since when clocks stand still, where there may be any.
func (s *stepper) halt() {
	if s.r.Halted == 0 && s.p.Strategy.flows() {
		s.r.Halted = s.now
	}
}

// goOn lets the clocks go on that stood still.
func (s *stepper) goOn() {
	if s.r.Halted == 0 {
		return
	}
	stood := s.now - s.r.Halted
	s.r.Halted = 0
	_, run, ok := s.stage()
	if !ok {
		return
	}
	run.putOff(stood)
	for i := range run.Groups {
		run.Groups[i].putOff(stood)
	}
}

func (c *Clock) putOff(by Instant) {
	if c.Deadline != 0 {
		c.Deadline += by
	}
}

// wakeForTimeouts adds when what has begun is over.
func (s *stepper) wakeForTimeouts(w *alarm) {
	_, run, ok := s.stage()
	if !ok {
		return
	}
	w.at(run.Deadline)
	for i := range run.Groups {
		w.at(run.Groups[i].Deadline)
	}
}

// paused tells that the gates of a pause have passed.
func (gr *GroupRun) paused(g *PlannedGroup, run *StageRun) bool {
	return !g.Pause || gr.admits(g, run)
}

// gatesDone tells that every gate on a side has passed.
func gatesDone(planned []PlannedGate, gates []Gate, when approval.When) bool {
	for i := range planned {
		if planned[i].When != when {
			continue
		}
		if g := gateOf(gates, &planned[i]); g == nil || g.State != Completed && g.State != Skipped {
			return false
		}
	}
	return true
}
