package step

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// Allowed returns a [*stages.RefusedError] if [Step] would refuse the command because of the state
// of the run, or because the command names a stage, group, cluster or gate that the run does not
// have. It returns the error of [Run.Check] if the run is not a run of the plan. Allowed does not
// see the rest of an [stages.Input]: Step may still refuse the command because the run waits for
// another run, because a policy does not accept the decision, or because of the time.
//
// In profile ClusterUpdate, Step refuses commands without an effect, such as a Start of a run that
// is Running or a Stop of one that is Stopped. While such a run is Stopping, Step refuses
// everything except an abort and decisions at gates. In the other profiles a command without an
// effect changes nothing and is not refused. In all profiles a Supersede of a run that has ended is
// not refused.
func Allowed(p *stages.Plan, r *Run, c stages.Command) error {
	if err := r.Check(p); err != nil {
		return err
	}
	return refusedError(p, r, &c, commands{control: control{reading(p, r)}}.refusal(&c))
}

// AllowedNext returns a [*stages.RefusedError] if [Step] would refuse the command in an input with
// the Now and Blocked of in, after the Commands of in. In contrast to [Allowed] it sees that the
// run waits for another run, the policy of a decision, and the time. It returns the error of
// [Run.Check] if the run is not a run of the plan.
func AllowedNext(p *stages.Plan, r *Run, in stages.Input, c stages.Command) error {
	if err := r.Check(p); err != nil {
		return err
	}
	orders := carriedOut(p, r, in)
	after := orders.r
	why := orders.refusal(&c)
	if why == "" {
		why = orders.obey(c)
	}
	return refusedError(p, &after, &c, why)
}

// AfterCommands returns the run after the Commands of in, at its Now, and nothing else: no cluster
// starts and no gate opens. It returns r if r is not a run of the plan.
func AfterCommands(p *stages.Plan, r Run, in stages.Input) Run {
	if r.Check(p) != nil || len(in.Commands) == 0 {
		return r
	}
	return carriedOut(p, &r, in).r
}

// carriedOut returns the commands part of a step that has carried out the Commands of in.
func carriedOut(p *stages.Plan, r *Run, in stages.Input) commands {
	orders := commands{control: control{newDraft(p, *r, in.Now)}, blocked: in.Blocked}
	for _, c := range in.Commands {
		orders.command(c)
	}
	return orders
}

// refusedError returns the error of a command that is refused for a reason; nil without a reason.
func refusedError(p *stages.Plan, r *Run, c *stages.Command, why string) error {
	if why == "" {
		return nil
	}
	return &stages.RefusedError{Verb: c.Verb, State: stateOf(p, r), Reason: why}
}

// refusal returns why cmd does not fit the state of the run, or "". It has no side effects.
func (c commands) refusal(cmd *stages.Command) string {
	if c.r.Final(c.p) {
		why := "the run has ended as " + string(stateOf(c.p, &c.r))
		switch cmd.Verb {
		case stages.Supersede:
			return "" // already superseded, which the other run did not know when it sent the command
		case stages.Retry:
			why += "; a catch-up run updates the clusters that it has not updated"
		default:
		}
		return why
	}
	switch cmd.Verb {
	case stages.Start:
		return c.unstartable()
	case stages.Stop:
		return c.unstoppable()
	case stages.Skip:
		return c.unskippable(cmd)
	case stages.Decide:
		return c.undecidable(cmd)
	case stages.CompleteGate:
		return c.uncompletable(cmd.Name)
	case stages.Retry:
		return c.unretriable(cmd.Only)
	case stages.RequestRollback:
		return c.rollbackRefusal()
	case stages.Abort, stages.Supersede, stages.BypassWindows:
		return ""
	default:
		return "there is no command " + string(cmd.Verb)
	}
}

// strictly reports whether commands without an effect are refused.
func (c commands) strictly() bool { return c.p.Strategy.Profile == stages.ClusterUpdate }

func (c commands) unstartable() string {
	switch c.r.State {
	case stages.Stopping:
		if c.r.Ending != stages.Stopped {
			return "the run is ending: it will be " + string(c.r.Ending)
		}
		if c.strictly() {
			return "clusters are in flight; start it when it is Stopped"
		}
	case stages.Running, stages.Pending:
		if c.strictly() {
			return "it has been started already"
		}
	case stages.Failed:
		if c.blocked != "" {
			return "run " + c.blocked + " has the placement; start this one when that has ended"
		}
	default:
	}
	return ""
}

func (c commands) unstoppable() string {
	switch c.r.State {
	case stages.NotStarted:
		return "the run has not started"
	case stages.Failed:
		return "the run has failed"
	case stages.Stopping, stages.Stopped:
		if c.strictly() {
			return "it has been stopped already, or is ending"
		}
	default:
	}
	return ""
}

// unskippable returns why cmd has nothing to skip, or "".
func (c commands) unskippable(cmd *stages.Command) string {
	if c.r.State == stages.Stopping && c.strictly() {
		return "clusters are in flight; skip when it is Stopped or Failed"
	}
	switch cmd.Scope {
	case stages.SkipCluster:
		pos, ok := c.p.Position(cmd.Name)
		if !ok {
			return "the plan has no cluster " + cmd.Name + " (" + planned(c.p) + ")"
		}
		if !c.skippable(pos) {
			return "cluster " + cmd.Name + " has ended already"
		}
	case stages.SkipGroup:
		stage, _, why := groupNamed(c.p, cmd.Name)
		if why == "" && stage < c.r.form.Stage {
			why = "group " + cmd.Name + " has ended already"
		}
		return why
	case stages.SkipStage:
		switch i := c.p.StageIndex(cmd.Name); {
		case i < 0:
			return noStage(c.p, cmd.Name)
		case i < c.r.form.Stage:
			return "stage " + cmd.Name + " has ended already"
		}
	case stages.SkipAfterWait:
		switch i := c.p.StageIndex(cmd.Name); {
		case i < 0:
			return noStage(c.p, cmd.Name)
		case !slices.ContainsFunc(c.p.Stages[i].Gates, isAfterWait):
			return "stage " + cmd.Name + " has no wait after it"
		case i < c.r.form.Stage || slices.ContainsFunc(c.r.form.Stages[i].Gates, func(g runstate.Gate) bool {
			return isAfterWait(stages.PlannedGate{When: g.When, Type: g.Type}) && g.State != stages.Pending
		}):
			return "the wait after stage " + cmd.Name + " has ended already"
		}
	default:
		return "cannot skip a " + string(cmd.Scope)
	}
	return ""
}

// isAfterWait reports whether a gate is a timed wait after its stage.
func isAfterWait(g stages.PlannedGate) bool {
	return g.When == approval.After && g.Type == stages.TimedWait
}

// skippable reports whether the cluster at pos has not ended, or has failed and may be retried.
func (c commands) skippable(pos int) bool {
	return c.r.form.At(pos) != nil || c.retrying(pos) >= 0 || c.r.deferredAt(c.p, pos) != nil || retryable(c.p, &c.r, pos) || c.ahead(pos)
}

// undecidable returns why cmd has no gate to decide, or "".
func (c commands) undecidable(cmd *stages.Command) string {
	switch {
	case cmd.Decision == nil:
		return "the command has no decision"
	case cmd.Decision.IsMomentary():
		return "an approval that holds at a point in time only is no command, which may be read late: it is an answer of the step"
	case cmd.By.Name != "" && cmd.By.Name != cmd.Decision.By.Name:
		return fmt.Sprintf("the command is by %.64q, and its decision by %.64q: they must be the same", cmd.By.Name, cmd.Decision.By.Name)
	case c.r.isEnding() || c.r.State == stages.Failed:
		return "the run is ending"
	}
	b := cmd.Decision.Binding
	if _, g := c.requestFor(b); g == nil {
		if b == (approval.Binding{}) {
			return "decision.binding is missing: it is the Binding of the open request"
		}
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
	if c.r.State == stages.Failed || c.r.isEnding() {
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
		return values.NoRollback
	case c.r.Started == 0:
		return "the run has not changed anything yet: delete it"
	case c.r.form.RollbackRequest != nil:
		return "it is being rolled back already"
	case c.r.State == stages.Stopping && c.r.Ending == stages.Superseded:
		return "the run is ending: it will be " + string(c.r.Ending)
	case c.r.isAborting():
		return "the run was aborted, and is in its steps that run always: roll it back when it has ended"
	default:
		return ""
	}
}

// groupNamed returns the indexes of the stage and of the group in it that a command
// names, and why there is no such group.
func groupNamed(p *stages.Plan, name string) (stage, group int, why string) {
	stage = -1
	for i := range p.Stages {
		j := slices.IndexFunc(p.Stages[i].Groups, func(g stages.PlannedGroup) bool {
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
		return -1, -1, noGroup(p, name)
	}
	return stage, group, ""
}

// noStage says that the plan has no stage of a name, and which stages it has.
func noStage(p *stages.Plan, name string) string {
	var names []string
	for i := range p.Stages {
		names = append(names, p.Stages[i].Name)
	}
	return "the plan has no stage " + name + " (" + listed(names) + ")"
}

// noGroup says that the plan has no group of a name, and which groups it has.
func noGroup(p *stages.Plan, name string) string {
	var names []string
	for i := range p.Stages {
		for _, g := range p.Stages[i].Groups {
			if g.Name != "" {
				names = append(names, p.Stages[i].Name+"/"+g.Name)
			}
		}
	}
	return "the plan has no group " + name + " (" + cmp.Or(listed(names), "no stage has groups") + ")"
}
