package stages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages/runstate"
)

// RefusedError says that a command does not fit the state of a run. Carrying
// it out would change nothing but for an event of type [CommandRefused].
type RefusedError struct {
	// Verb is the refused command.
	Verb Verb
	// State is that of the run as [Derive] shows it.
	State State
	// Reason is a sentence without its point.
	Reason string
}

// Error names the command, the state and the reason. It names the state once if the reason has it.
func (e *RefusedError) Error() string {
	if strings.Contains(e.Reason, string(e.State)) {
		return fmt.Sprintf("command %s is refused: %s", e.Verb, e.Reason)
	}
	return fmt.Sprintf("command %s is refused, the run is %s: %s", e.Verb, e.State, e.Reason)
}

// Allowed returns a [*RefusedError] where [Step] would refuse the command because of the state of the run, or
// because nothing is there that it names; nil otherwise. Of a run that is not one of the plan the error is
// that of [Check]. It does not know the rest of an [Input]: Step may still refuse the command because the run
// waits for another one, because a policy does not accept the decision, or because of the time.
//
// In profile ClusterUpdate a command without an effect is refused, such as a Start of a run that is Running
// or a Stop of one that is Stopped, and so is everything but an abort and the decisions at gates while a run
// is Stopping. In the other profiles such a command changes nothing, and in all of them neither does a
// Supersede of a run that has ended.
func Allowed(p *Plan, r *Run, c Command) error {
	if err := Check(p, r); err != nil {
		return err
	}
	if why := (commands{control: control{reading(p, r)}}).refusal(&c); why != "" {
		return &RefusedError{Verb: c.Verb, State: runstate.StateOf(p, r), Reason: why}
	}
	return nil
}

// refusal returns why cmd does not fit the state of the run, or "". It has no side effects.
func (c commands) refusal(cmd *Command) string {
	if c.r.Final(c.p) {
		why := "the run has ended: it is " + string(c.r.State)
		switch cmd.Verb {
		case Supersede:
			return "" // already superseded, which the other run did not know when it sent the command
		case Retry:
			why += "; CatchUp plans a run for the clusters that it has not updated"
		default:
		}
		return why
	}
	switch cmd.Verb {
	case Start:
		return c.unstartable()
	case Stop:
		return c.unstoppable()
	case Skip:
		return c.unskippable(cmd)
	case Decide:
		return c.undecidable(cmd)
	case CompleteGate:
		return c.uncompletable(cmd.Name)
	case Retry:
		return c.unretriable(cmd.Only)
	case RequestRollback:
		return c.rollbackRefusal()
	case Abort, Supersede, BypassWindows:
		return ""
	default:
		return "there is no command " + string(cmd.Verb)
	}
}

// strictly reports whether commands without an effect are refused.
func (c commands) strictly() bool { return c.p.Strategy.Profile == ClusterUpdate }

func (c commands) unstartable() string {
	switch c.r.State {
	case Stopping:
		if c.r.Ending != Stopped {
			return "the run is ending: it will be " + string(c.r.Ending)
		}
		if c.strictly() {
			return "clusters are in flight; start it when it is Stopped"
		}
	case Running, Pending:
		if c.strictly() {
			return "it has been started already"
		}
	case Failed:
		if c.blocked != "" {
			return "run " + c.blocked + " has the placement; start this one when that has ended"
		}
	default:
	}
	return ""
}

func (c commands) unstoppable() string {
	switch c.r.State {
	case NotStarted:
		return "the run has not started"
	case Failed:
		return "the run has failed"
	case Stopping, Stopped:
		if c.strictly() {
			return "it has been stopped already, or is ending"
		}
	default:
	}
	return ""
}

// unskippable returns why cmd has nothing to skip, or "".
func (c commands) unskippable(cmd *Command) string {
	if c.r.State == Stopping && c.strictly() {
		return "clusters are in flight; skip when it is Stopped or Failed"
	}
	switch cmd.Scope {
	case SkipCluster:
		pos, ok := c.p.Position(cmd.Name)
		if !ok {
			return "the plan has no cluster " + cmd.Name
		}
		if !c.skippable(pos) {
			return "cluster " + cmd.Name + " has ended already"
		}
	case SkipGroup:
		stage, _, why := groupNamed(c.p, cmd.Name)
		if why == "" && stage < c.r.Stage {
			why = "group " + cmd.Name + " has ended already"
		}
		return why
	case SkipStage:
		switch i := c.p.StageIndex(cmd.Name); {
		case i < 0:
			return "the plan has no stage " + cmd.Name
		case i < c.r.Stage:
			return "stage " + cmd.Name + " has ended already"
		}
	case SkipAfterWait:
		switch i := c.p.StageIndex(cmd.Name); {
		case i < 0:
			return "the plan has no stage " + cmd.Name
		case !slices.ContainsFunc(c.p.Stages[i].Gates, isAfterWait):
			return "stage " + cmd.Name + " has no wait after it"
		case i < c.r.Stage || slices.ContainsFunc(c.r.Stages[i].Gates, func(g Gate) bool { return isAfterWait(PlannedGate{When: g.When, Type: g.Type}) && g.State != Pending }):
			return "the wait after stage " + cmd.Name + " has ended already"
		}
	default:
		return "cannot skip a " + string(cmd.Scope)
	}
	return ""
}

// isAfterWait reports whether a gate is a timed wait after its stage.
func isAfterWait(g PlannedGate) bool { return g.When == approval.After && g.Type == TimedWait }

// skippable reports whether the cluster at pos has not ended, or has failed and may be retried.
func (c commands) skippable(pos int) bool {
	return c.inFlightAt(pos) != nil || c.retrying(pos) >= 0 || c.r.DeferredAt(c.p, pos) != nil || c.retryable(pos) || c.ahead(pos)
}

// undecidable returns why cmd has no gate to decide, or "".
func (c commands) undecidable(cmd *Command) string {
	switch {
	case cmd.Decision == nil:
		return "the command has no decision"
	case cmd.Decision.IsMomentary():
		return "an approval that holds at a point in time only is no command, which may be read late: it is an answer of the step"
	case c.isEnding() || c.r.State == Failed:
		return "the run is ending"
	}
	b := cmd.Decision.Binding
	if _, g := c.requestFor(b); g == nil {
		what := "stage " + b.Stage
		if b.Group != "" {
			what = "group " + b.Group + " of " + what
		}
		return "there is no open request " + string(b.When) + " " + what
	}
	return ""
}

// uncompletable returns why there is no scheduled start of that name to end, or "".
func (c commands) uncompletable(name string) string {
	if c.r.State == Failed || c.isEnding() {
		return "the run is ending"
	}
	if c.p.StageIndex(name) < 0 {
		if _, _, why := groupNamed(c.p, name); why != "" {
			return why
		}
	}
	if _, g := c.scheduled(name); g == nil {
		return "no scheduled start is open before " + name
	}
	return ""
}

// rollbackRefusal returns why the run cannot be rolled back now, or "".
func (c commands) rollbackRefusal() string {
	switch {
	case c.p.Strategy.Rollback == nil:
		return noRollback
	case c.r.Started == 0:
		return "the run has not changed anything yet: abort it"
	case c.r.RollbackRequest != nil:
		return "it is being taken back already"
	case c.r.State == Stopping && c.r.Ending == Superseded:
		return "the run is ending: it will be " + string(c.r.Ending)
	case c.r.IsAborting():
		return "the run was aborted, and is in its steps that run always: take it back when it has ended"
	default:
		return ""
	}
}

// groupNamed returns the indexes of the stage and of the group in it that a command
// names, and why there is no such group.
func groupNamed(p *Plan, name string) (stage, group int, why string) {
	stage = -1
	for i := range p.Stages {
		j := slices.IndexFunc(p.Stages[i].Groups, func(g PlannedGroup) bool {
			return g.Name != "" && (g.Name == name || p.Stages[i].Name+"/"+g.Name == name)
		})
		if j >= 0 && stage >= 0 {
			return -1, -1, "several stages have a group " + name + ": name it <stage>/" + name
		}
		if j >= 0 {
			stage, group = i, j
		}
	}
	if stage < 0 {
		return -1, -1, "the plan has no group " + name
	}
	return stage, group, ""
}
