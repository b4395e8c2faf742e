package stages

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/stages/runstate"
)

// RefusedError says that a command does not fit the state of a run. Carrying
// it out would change nothing but for an event of type [CommandRefused].
type RefusedError struct {
	// Verb is what was asked.
	Verb Verb
	// State is that of the run as [Derive] shows it.
	State State
	// Reason is a sentence without its point.
	Reason string
}

// Error names the command, the state and the reason.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("command %s is refused, the run is %s: %s", e.Verb, e.State, e.Reason)
}

// Allowed returns a [*RefusedError] where [Step] would refuse the command
// because of the state of the run, or because nothing is there that it names;
// nil otherwise. Of a run that is not one of the plan the error is that of [Check]. It
// does not know what else an [Input] has: a run that waits for
// another one, a decision that its policy does not let count, or a time that
// has passed, Step may still refuse.
//
// In profile ClusterUpdate a command is refused that asks for what is so
// already, as to start a run that is Running or to stop one that is Stopped, and
// so is everything but an abort and what is decided at gates while a run is
// Stopping. In the other profiles such a command changes nothing, and in all of
// them neither does a Supersede of a run that has ended.
func Allowed(p *Plan, r *Run, c Command) error {
	if err := Check(p, r); err != nil {
		return err
	}
	s := &stepper{p: p, r: *r, now: r.Now}
	if why := s.refusal(&c); why != "" {
		return &RefusedError{Verb: c.Verb, State: runstate.StateOf(p, r), Reason: why}
	}
	return nil
}

// refusal returns why c does not fit the state of the run, or "". It changes
// nothing.
func (s *stepper) refusal(c *Command) string {
	switch {
	case s.r.Final(s.p) && c.Verb == Supersede:
		return "" // it is out of the way, which the other run did not know when it asked
	case s.r.Final(s.p):
		return s.ended(c.Verb)
	}
	switch c.Verb {
	case Start:
		return s.unstartable()
	case Stop:
		return s.unstoppable()
	case Skip:
		return s.unskippable(c)
	case Decide:
		return s.undecidable(c)
	case CompleteGate:
		return s.uncompletable(c.Name)
	case Retry:
		return cmp.Or(s.unretriable(), s.notRetried(c.Only))
	case TakeBack:
		return s.untakeable()
	case Abort, Supersede, BypassWindows:
		return ""
	default:
		return "there is no command " + string(c.Verb)
	}
}

// ended says of a run that will never do anything again what is left to do.
func (s *stepper) ended(v Verb) string {
	why := "the run has ended: it is " + string(s.r.State)
	if v == Retry {
		why += "; CatchUp plans a run for the clusters that it has not updated"
	}
	return why
}

// strictly reports whether a command is refused that asks for what is so already.
func (s *stepper) strictly() bool { return s.p.Strategy.Profile == ClusterUpdate }

func (s *stepper) unstartable() string {
	switch s.r.State {
	case Stopping:
		if s.r.Ending != Stopped {
			return "the run is ending: it will be " + string(s.r.Ending)
		}
		if s.strictly() {
			return "clusters are in flight; start it when it is Stopped"
		}
	case Running, Pending:
		if s.strictly() {
			return "it has been started already"
		}
	case Failed:
		if s.blocked != "" {
			return "run " + s.blocked + " has the placement; start this one when that has ended"
		}
	default:
	}
	return ""
}

func (s *stepper) unstoppable() string {
	switch s.r.State {
	case NotStarted:
		return "the run has not started"
	case Failed:
		return "the run has failed"
	case Stopping, Stopped:
		if s.strictly() {
			return "it has been stopped already, or is ending"
		}
	default:
	}
	return ""
}

func (s *stepper) unretriable() string {
	switch s.r.State {
	case NotStarted:
		return "the run has not started"
	case Stopping:
		return "clusters are in flight; retry when it is Stopped or Failed"
	case Failed:
		if s.blocked != "" {
			return "run " + s.blocked + " has the placement; retry when that has ended"
		}
	default:
	}
	return ""
}

// unskippable returns why there is nothing that c may skip.
func (s *stepper) unskippable(c *Command) string {
	if s.r.State == Stopping && s.strictly() {
		return "clusters are in flight; skip when it is Stopped or Failed"
	}
	switch c.Scope {
	case SkipCluster:
		pos, ok := s.p.Position(c.Name)
		if !ok {
			return "the plan has no cluster " + c.Name
		}
		if !s.skippable(pos) {
			return "cluster " + c.Name + " has ended already"
		}
	case SkipGroup:
		stage, _, why := groupOf(s.p, c.Name)
		if why == "" && stage < s.r.Stage {
			why = "group " + c.Name + " has ended already"
		}
		return why
	case SkipStage:
		switch i := s.p.StageIndex(c.Name); {
		case i < 0:
			return "the plan has no stage " + c.Name
		case i < s.r.Stage:
			return "stage " + c.Name + " has ended already"
		}
	case SkipAfterWait:
		if i := s.p.StageIndex(c.Name); i < 0 || i < s.r.Stage {
			return "there is no wait ahead after stage " + c.Name
		}
	default:
		return "cannot skip a " + string(c.Scope)
	}
	return ""
}

// skippable reports whether the cluster at pos has not ended, or has failed and may
// be tried again.
func (s *stepper) skippable(pos int) bool {
	return s.flight(pos) != nil || s.yielded(pos) >= 0 || s.passed(pos) || s.forgivable(pos) || s.ahead(pos)
}

// groupOf returns the indexes of the stage and of the group in it that a command
// names, and why there is no such group.
func groupOf(p *Plan, name string) (stage, group int, why string) {
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

// uncompletable returns why no scheduled start of that name is to be ended.
func (s *stepper) uncompletable(name string) string {
	if s.r.State == Failed || s.r.State == Stopping && s.r.Ending != Stopped {
		return "the run is ending"
	}
	if s.p.StageIndex(name) < 0 {
		if _, _, why := groupOf(s.p, name); why != "" {
			return why
		}
	}
	if _, g := s.scheduled(name); g == nil {
		return "no scheduled start is open before " + name
	}
	return ""
}
