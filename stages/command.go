package stages

import (
	"slices"
	"time"

	"github.com/slipway-dev/slipway/stages/check"
)

// maxSeen is how many command ids a run remembers.
const maxSeen = 64

// commands carries out the commands of operators.
type commands struct {
	control
	// blocked names the run that has the placement while that is another one.
	blocked string
}

// command carries out cmd, once, or refuses it.
func (c commands) command(cmd Command) {
	cmd.ID, cmd.Name, cmd.Message, cmd.By = clean(cmd.ID), clean(cmd.Name), clean(cmd.Message), cleanIdentity(cmd.By)
	if slices.Contains(c.r.Seen, cmd.ID) {
		return
	}
	c.r.Seen = append(c.r.Seen, cmd.ID)
	if n := len(c.r.Seen) - maxSeen; n > 0 {
		c.r.Seen = slices.Delete(c.r.Seen, 0, n)
	}
	c.changed = true
	why := c.refusal(&cmd)
	if why == "" {
		why = c.obey(cmd)
	}
	if why != "" {
		c.emit(Event{Type: CommandRefused, Command: string(cmd.Verb), By: cmd.By.Name, Message: why})
	}
}

// obey carries out cmd, which fits the state of the run, and returns why it still cannot, or "".
func (c commands) obey(cmd Command) string {
	switch cmd.Verb {
	case Start:
		c.start(cmd)
	case Stop:
		c.stop(cmd)
	case Abort:
		c.abort(cmd)
	case Skip:
		c.skip(cmd)
	case Decide:
		gs, g := c.requestFor(cmd.Decision.Binding)
		return c.decide(gs, g, *cmd.Decision)
	case Supersede:
		c.supersede(cmd)
	case Retry:
		c.retry(cmd)
	case BypassWindows:
		return c.bypass(cmd)
	case CompleteGate:
		gs, g := c.scheduled(cmd.Name)
		gs.end(g, Completed)
		g.By = cmd.By.Name
		gs.emit(g.EndEvent(cmd.By.Name))
	case RequestRollback:
		c.rollBack(cmd)
	default:
	}
	return ""
}

func (c commands) start(cmd Command) {
	switch c.r.State {
	case NotStarted, Pending:
		c.r.Hold = false
		c.changed = true
	case Stopped, Stopping, Failed:
		again := c.r.Closing == nil && (c.r.State == Failed || c.p.Strategy.Suspends())
		if c.resume(cmd) && again {
			c.requeue(OnlyFailed)
		}
	default:
	}
}

// resume continues a stopped, stopping or failed run with its unprocessed clusters, and reports whether the
// run had begun.
func (c commands) resume(cmd Command) bool {
	if c.r.State == Failed {
		c.r.Attempt++
		c.r.Ended = 0
	}
	c.r.Ending, c.r.StopAt, c.r.Hold = "", 0, false
	c.resumeClocks()
	if c.r.Started == 0 {
		c.set(NotStarted, "")
		return false
	}
	parked := c.r.State == Stopped
	c.eachInFlight(func(f *InFlight) {
		f.Started = c.now
		if parked {
			c.doubt(f)
		}
	})
	for i := range c.r.Waiting {
		c.r.Waiting[i].Started, c.r.Waiting[i].Spent = c.now, 0
	}
	if planned, st, ok := c.stage(); ok && st.Started != 0 {
		st.Checks = check.NewRuns(planned.Checks, c.now) // what was bad is measured again
	}
	// The stage is what it was before the run ended in it.
	if _, st, ok := c.stage(); ok && st.Reached != 0 && (c.r.Closing == nil || !st.IsBroken()) {
		st.State = Running
		if st.Started == 0 {
			st.State = Pending
		}
	}
	c.set(Running, c.r.Closing.Why())
	c.emit(Event{Type: RunResumed, By: cmd.By.Name, Attempt: c.r.Attempt})
	return true
}

func (c commands) stop(cmd Command) {
	switch c.r.State {
	case Pending:
		c.r.Hold = true
		c.set(Stopped, reasonBy("stopped", cmd))
		c.emit(Event{Type: RunStopped, Message: c.r.Reason})
	case Running:
		c.r.StopAt = c.now.Add(c.grace())
		c.windDown(Stopped, reasonBy("stopped", cmd), cmd.By.Name)
	default:
	}
}

func (c commands) abort(cmd Command) {
	c.cancelRollback()
	c.set(Aborted, reasonBy("aborted", cmd))
	c.eachInFlight(func(f *InFlight) {
		c.leave(f, Failed, "the run was aborted while the cluster was in flight")
	})
	c.dropWaiting("the run was aborted")
	if c.runAlways(Aborted, c.r.Reason) {
		return
	}
	c.closeGates()
	c.end(Event{Type: RunAborted, By: cmd.By.Name, Message: c.r.Reason})
}

// supersede ends the run in favour of another one: an apply in flight may end, everything else is given up at
// once. It has no effect on a run that has ended or is being superseded.
func (c commands) supersede(cmd Command) {
	if c.r.Ending == Superseded || c.r.Final(c.p) {
		return
	}
	c.cancelRollback()
	reason := "superseded by run " + cmd.Message
	c.r.StopAt = c.now.Add(drainGrace)
	c.windDown(Superseded, reason, cmd.By.Name)
	c.eachInFlight(func(f *InFlight) {
		if f.Phase != Applying {
			c.leave(f, Skipped, reason+" before the cluster was proven healthy")
		}
	})
	c.dropWaiting(reason)
}

// skip skips a cluster, a group, a stage or a wait. Where no other event shows it, one says when it counts.
func (c commands) skip(cmd Command) {
	s, told := skipping{c.draft, reasonBy("skipped", cmd)}, len(c.events)
	switch cmd.Scope {
	case SkipCluster:
		if pos, ok := c.p.Position(cmd.Name); ok {
			s.cluster(pos)
		}
	case SkipGroup:
		stage, group, _ := groupNamed(c.p, cmd.Name)
		s.group(stage, group)
	case SkipStage:
		s.stage(c.p.StageIndex(cmd.Name))
	default:
		c.r.Stages[c.p.StageIndex(cmd.Name)].SkipWait = true
		c.changed = true
	}
	if len(c.events) == told {
		c.emit(Event{Type: CommandAccepted, Command: string(cmd.Verb), By: cmd.By.Name, Message: c.skipsLater(cmd)})
	}
}

// skipsLater says what a skip that was accepted comes to, and when.
func (c commands) skipsLater(cmd Command) string {
	if cmd.Scope == SkipCluster {
		return "cluster " + cmd.Name + " is in flight: its attempt goes on, and the cluster is skipped if that fails"
	}
	what, stage := "the gates of stage "+cmd.Name+" are skipped", c.p.StageIndex(cmd.Name)
	switch cmd.Scope {
	case SkipGroup:
		what = "what is left of group " + cmd.Name + " is skipped"
		stage, _, _ = groupNamed(c.p, cmd.Name)
	case SkipAfterWait:
		what = "the wait after stage " + cmd.Name + " is skipped"
	default:
	}
	switch {
	case stage > c.r.Stage || c.r.Started == 0:
		return what + " when the run comes to it"
	case cmd.Scope != SkipAfterWait: // those that are open are closed at once
	case c.r.State == Stopped || c.r.State == Failed:
		return what + " when the run, which is " + string(c.r.State) + ", is started again"
	case c.r.Stages[stage].Done == 0:
		return what + " when the clusters of the stage have ended"
	}
	return what
}

// rollBack ends the run and requests its rollback.
func (c commands) rollBack(cmd Command) {
	u := RollbackRequest{Cause: OnCommand, Run: cmd.Name, By: cmd.By, Message: reasonBy("taken back", cmd)}
	c.requestRollback(u)
	if c.r.State == Failed { // a run that might have been started again is at its end now
		c.dropWaiting(u.Message)
		c.closeGates()
		return
	}
	c.fail(u.Message)
}

// longestBypass is how far ahead windows may be bypassed.
const longestBypass = 7 * 24 * time.Hour

// bypass lets clusters start outside their windows for a while, or ends that. It
// returns why it does not, or "".
func (c commands) bypass(cmd Command) string {
	until := At(cmd.Until)
	switch {
	case cmd.Message == "":
		return "a bypass of windows needs a reason"
	case until == 0:
		return "a bypass of windows needs to know until when"
	case until > c.now.Add(longestBypass):
		return "windows may be bypassed for 7 days at most, until " + c.now.Add(longestBypass).Time().Format(time.RFC3339)
	case until <= c.now && !c.r.IsBypassed():
		return "it is " + c.now.Time().Format(time.RFC3339) + " already, and there is no bypass to end"
	}
	until = max(until, c.now)
	c.r.Bypass = &Bypass{Until: until, By: cmd.By.Name, Reason: cut(cmd.Message)}
	c.emit(Event{Type: WindowsBypassed, By: cmd.By.Name, Until: until.Time(), Message: cut(cmd.Message)})
	return ""
}

// scheduled returns the open scheduled start, or wait of a pause, of that name at the current stage or the
// group of it; nil if there is none. A name of a stage is never that of a group alone.
func (c commands) scheduled(name string) (gates, *Gate) {
	for gs, g := range c.eachOpen {
		stage := c.p.Stages[c.r.Stage].Name
		called := name == stage
		if gs.group != "" {
			called = name == stage+"/"+gs.group || name == gs.group && c.p.StageIndex(name) < 0
		}
		if called && (g.Type == ScheduledStart || gs.pause && g.Type == TimedWait) {
			return gs, g
		}
	}
	return gates{}, nil
}

// reasonBy returns a reason: the act, the author of the command and its message.
func reasonBy(what string, cmd Command) string {
	if cmd.By.Name != "" {
		what += " by " + cmd.By.Name
	}
	if cmd.Message != "" {
		what += ": " + cmd.Message
	}
	return what
}
