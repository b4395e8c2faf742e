package step

import (
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// maxSeen is the number of command IDs that a run remembers.
const maxSeen = 64

// commands carries out the commands of operators.
type commands struct {
	control
	// blocked names the other run that has the placement; empty if there is none.
	blocked string
}

// command carries out cmd, once, or refuses it.
func (c commands) command(cmd stages.Command) {
	cmd.ID, cmd.Name, cmd.Message, cmd.By = values.Clean(cmd.ID), values.Clean(cmd.Name), values.Clean(cmd.Message), values.CleanIdentity(cmd.By)
	if cmd.ID != "" {
		if slices.Contains(c.r.form.Seen, cmd.ID) {
			return
		}
		c.r.form.Seen = append(c.r.form.Seen, cmd.ID)
	}
	if n := len(c.r.form.Seen) - maxSeen; n > 0 {
		c.r.form.Seen = slices.Delete(c.r.form.Seen, 0, n)
	}
	c.changed = true
	why := c.refusal(&cmd)
	if why == "" {
		why = c.obey(cmd)
	}
	if why != "" {
		c.emit(stages.Event{Type: stages.CommandRefused, Command: string(cmd.Verb), By: cmd.By.Name, Message: why})
	}
}

// obey carries out cmd, which fits the state of the run, and returns why it still cannot, or "".
func (c commands) obey(cmd stages.Command) string {
	switch cmd.Verb {
	case stages.Start:
		c.start(cmd)
	case stages.Stop:
		c.stop(cmd)
	case stages.Abort:
		c.abort(cmd)
	case stages.Skip:
		c.skip(cmd)
	case stages.Decide:
		gs, g := c.requestFor(cmd.Decision.Binding)
		return c.decide(gs, g, *cmd.Decision)
	case stages.Supersede:
		c.supersede(cmd)
	case stages.Retry:
		c.retry(cmd)
	case stages.BypassWindows:
		return c.bypass(cmd)
	case stages.CompleteGate:
		gs, g := c.scheduled(cmd.Name)
		gs.end(g, stages.Completed)
		g.By = cmd.By.Name
		gs.emit(g.EndEvent(cmd.By.Name))
	case stages.RequestRollback:
		c.rollBack(cmd)
	default:
	}
	return ""
}

func (c commands) start(cmd stages.Command) {
	switch c.r.State {
	case stages.NotStarted, stages.Pending:
		c.r.Hold = false
		c.changed = true
	case stages.Stopped, stages.Stopping, stages.Failed:
		again := c.r.form.Closing == nil && (c.r.State == stages.Failed || c.p.Strategy.Suspends())
		if c.resume(cmd) && again {
			c.requeue(stages.OnlyFailed)
		}
	default:
	}
}

// resume continues a stopped, stopping or failed run with its unprocessed clusters, and reports
// whether the run had begun.
func (c commands) resume(cmd stages.Command) bool {
	if c.r.State == stages.Failed {
		c.r.Attempt++
		c.r.Ended = 0
	}
	c.r.Ending, c.r.form.StopAt, c.r.Hold = "", 0, false
	c.resumeClocks()
	if c.r.Started == 0 {
		c.set(stages.NotStarted, "")
		return false
	}
	parked := c.r.State == stages.Stopped
	c.eachInFlight(func(f *runstate.InFlight) {
		f.Started = c.now
		if f.Tries > 0 {
			f.Since = c.now
		}
		if parked {
			c.interruptSoak(f)
		}
	})
	for i := range c.r.form.Waiting {
		y := &c.r.form.Waiting[i]
		y.Started, y.Spent = c.now, 0
		if y.Tries > 0 {
			y.Since = c.now
		}
	}
	if planned, st, ok := c.stage(); ok && st.Started != 0 {
		st.Checks = newCheckRuns(planned.Checks, c.now) // failed checks are measured again
	}
	// The stage returns to the state that it had before the run ended in it.
	if _, st, ok := c.stage(); ok && st.Reached != 0 && (c.r.form.Closing == nil || !st.IsBroken()) {
		st.State = stages.Running
		if st.Started == 0 {
			st.State = stages.Pending
		}
	}
	c.set(stages.Running, c.r.form.Closing.Why())
	c.emit(stages.Event{Type: stages.RunResumed, By: cmd.By.Name, Attempt: c.r.Attempt})
	return true
}

func (c commands) stop(cmd stages.Command) {
	switch c.r.State {
	case stages.Pending:
		c.r.Hold = true
		c.set(stages.Stopped, reasonBy("stopped", cmd))
		c.emit(stages.Event{Type: stages.RunStopped, Message: c.r.Reason})
	case stages.Running:
		c.r.form.StopAt = c.now.Add(c.grace())
		c.windDown(stages.Stopped, reasonBy("stopped", cmd), cmd.By.Name)
	default:
	}
}

func (c commands) abort(cmd stages.Command) {
	c.cancelRollback()
	c.set(stages.Aborted, reasonBy("aborted", cmd))
	c.eachInFlight(func(f *runstate.InFlight) {
		c.abandon(f, stages.Failed, "the run was aborted while the cluster was in flight")
	})
	c.dropWaiting("the run was aborted")
	if c.runAlways(stages.Aborted, c.r.Reason) {
		return
	}
	gatesOf(c.draft).close()
	c.end(stages.Event{Type: stages.RunAborted, By: cmd.By.Name, Message: c.r.Reason})
}

// supersede ends the run in favour of another one. An apply in flight may end; everything else is
// abandoned at once. It has no effect on a run that has ended or is being superseded.
func (c commands) supersede(cmd stages.Command) {
	if c.r.Ending == stages.Superseded || c.r.Final(c.p) {
		return
	}
	c.cancelRollback()
	reason := "superseded by run " + cmd.Message
	c.r.form.StopAt = c.now.Add(drainGrace)
	c.windDown(stages.Superseded, reason, cmd.By.Name)
	c.eachInFlight(func(f *runstate.InFlight) {
		if f.Phase != stages.Applying {
			c.leave(f, stages.Skipped, reason+" before the cluster was proven healthy")
		}
	})
	c.dropWaiting(reason)
}

// skip skips a cluster, a group, a stage or a wait. If no other event shows the skip yet, it emits
// an event that describes when the skip takes effect.
func (c commands) skip(cmd stages.Command) {
	s, told := skipping{c.draft, reasonBy("skipped", cmd)}, len(c.events)
	switch cmd.Scope {
	case stages.SkipCluster:
		if pos, ok := c.p.Position(cmd.Name); ok {
			s.cluster(pos)
		}
	case stages.SkipGroup:
		stage, group, _ := groupNamed(c.p, cmd.Name)
		s.group(stage, group)
	case stages.SkipStage:
		s.stage(c.p.StageIndex(cmd.Name))
	default:
		c.r.form.Stages[c.p.StageIndex(cmd.Name)].SkipWait = true
		c.changed = true
	}
	if len(c.events) == told {
		c.emit(stages.Event{Type: stages.CommandAccepted, Command: string(cmd.Verb), By: cmd.By.Name, Message: c.skipsLater(cmd)})
	}
}

// skipsLater describes the effect of an accepted skip and its time.
func (c commands) skipsLater(cmd stages.Command) string {
	if cmd.Scope == stages.SkipCluster {
		return "cluster " + cmd.Name + " is in flight: its attempt continues, and the cluster is skipped if the attempt fails"
	}
	what, stage := "the gates of stage "+cmd.Name+" are skipped", c.p.StageIndex(cmd.Name)
	switch cmd.Scope {
	case stages.SkipGroup:
		what = "the other clusters of group " + cmd.Name + " are skipped"
		stage, _, _ = groupNamed(c.p, cmd.Name)
	case stages.SkipAfterWait:
		what = "the wait after stage " + cmd.Name + " is skipped"
	default:
	}
	switch {
	case stage > c.r.form.Stage || c.r.Started == 0:
		return what + " when the run reaches it"
	case cmd.Scope != stages.SkipAfterWait: // open waits are closed at once
	case c.r.State == stages.Stopped || c.r.State == stages.Failed:
		return what + " when the run, which is " + string(c.r.State) + ", is started again"
	case c.r.form.Stages[stage].Done == 0:
		return what + " when the clusters of the stage have ended"
	}
	return what
}

// rollBack ends the run and requests its rollback.
func (c commands) rollBack(cmd stages.Command) {
	u := stages.RollbackRequest{Cause: stages.OnCommand, Run: cmd.Name, By: cmd.By, Message: reasonBy("rollback requested", cmd)}
	c.requestRollback(u)
	if c.r.State == stages.Failed { // a run that could have been started again is now final
		c.dropWaiting(u.Message)
		gatesOf(c.draft).close()
		return
	}
	c.fail(u.Message)
}

// longestBypass is the longest time for which windows may be bypassed.
const longestBypass = 7 * 24 * time.Hour

// bypass lets clusters start outside their windows for a while, or ends that. If it refuses, it
// returns the reason, otherwise "".
func (c commands) bypass(cmd stages.Command) string {
	until := stages.At(cmd.Until)
	switch {
	case cmd.Message == "":
		return "a bypass of windows needs a reason"
	case until == 0:
		return "a bypass of windows needs to know until when"
	case until > c.now.Add(longestBypass):
		return "windows may be bypassed for 7 days at most, until " + c.now.Add(longestBypass).Time().Format(time.RFC3339)
	case until <= c.now && !c.r.isBypassed():
		return "it is " + c.now.Time().Format(time.RFC3339) + " already, and there is no bypass to end"
	}
	until = max(until, c.now)
	c.r.form.Bypass = &runstate.Bypass{Until: until, By: cmd.By.Name, Reason: cut(cmd.Message)}
	c.emit(stages.Event{Type: stages.WindowsBypassed, By: cmd.By.Name, Until: until.Time(), Message: cut(cmd.Message)})
	return ""
}

// scheduled returns the open scheduled start, or open wait of a pause, with that name in the
// current stage or one of its groups, or nil. The name of a group alone counts only if no stage has
// that name.
func (c commands) scheduled(name string) (gates, *runstate.Gate) {
	for gs, g := range gatesOf(c.draft).open {
		stage := c.p.Stages[c.r.form.Stage].Name
		called := name == stage
		if gs.group != "" {
			called = name == stage+"/"+gs.group || name == gs.group && c.p.StageIndex(name) < 0
		}
		if called && (g.Type == stages.ScheduledStart || gs.pause && g.Type == stages.TimedWait) {
			return gs, g
		}
	}
	return gates{}, nil
}

// reasonBy returns a reason: the act, the author of the command and its message.
func reasonBy(what string, cmd stages.Command) string {
	if cmd.By.Name != "" {
		what += " by " + cmd.By.Name
	}
	if cmd.Message != "" {
		what += ": " + cmd.Message
	}
	return what
}

// CommandText describes a command for people, for example "skip stage canary by ann".
func CommandText(c *stages.Command) string {
	scope := map[stages.SkipScope]string{stages.SkipCluster: "cluster", stages.SkipGroup: "group", stages.SkipStage: "stage", stages.SkipAfterWait: "wait after stage"}[c.Scope]
	words := []string{strings.ToLower(string(c.Verb)), scope, c.Name}
	switch {
	case c.Verb == stages.Decide && c.Decision != nil:
		words[0] = strings.ToLower(string(c.Decision.Verdict))
	case c.Verb == stages.RequestRollback:
		words = []string{"rollback"}
	case c.Only != "":
		words = append(words, "only "+strings.ToLower(string(c.Only)))
	case c.Verb == stages.Supersede:
		words = append(words, c.Message)
	}
	if c.By.Name != "" {
		words = append(words, "by", c.By.Name)
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}
