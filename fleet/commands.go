package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/commands"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// Command sends a command to a run. It returns once the command is stored; the engine that drives
// the run executes it. A command to a stopped run, or about a later stage, takes effect later: if
// no other event shows it, a CommandAccepted event says when.
//
// A command that does not fit the run is a [*stages.RefusedError] and is not stored: see
// [step.AllowedNext]. The earlier commands that no engine has executed yet count as executed. If
// the run changes before the command is executed, the engine may still refuse it, with a
// CommandRefused event. [RunHandle.CheckCommand] only checks.
//
// A command whose ID was used before changes nothing. If the earlier command is still stored and
// differs, the error matches backend.ErrConflict. An empty ID is replaced by a new one; any other
// ID must be a DNS subdomain. At is overwritten.
//
// A command with the verb [stages.Decide] answers the open approval request that Name names; see
// [RunHandle.Requests]. Its Decision has the Verdict, the Comment and the Binding of the request
// that the person saw: the answer is refused if the request now has another binding. Without a
// Binding it gets the binding of the request at the time of the call, which a policy may refuse. By
// and At of the Decision are overwritten. The error matches backend.ErrNotFound if no such request
// is open, and is an *approval.RefusedError if the policy does not let c.By answer. If c.ID is the
// ID of an answer that was executed before, and the request does not count that answer now, the
// error matches backend.ErrConflict. Once the request is decided, a repeated answer matches
// backend.ErrNotFound, whatever its ID: the events say who decided. The request of a stopped run
// may be answered: nothing starts before the run does.
//
// The engine does not authorize: any caller that the host admits may send a command, and c.By is
// recorded as its author.
func (h RunHandle) Command(ctx context.Context, c stages.Command) error {
	if err := problems.About("command to run "+h.name, commandProblems(c)); err != nil {
		return err
	}
	unlock, err := h.e.commands.Lock(ctx, h.name)
	if err != nil {
		return err
	}
	defer unlock()
	uid, err := h.accept(ctx, &c)
	if err != nil || uid == "" {
		return err
	}
	return h.e.commands.Send(ctx, uid, c)
}

// CheckCommand checks a command like [RunHandle.Command] and returns the same refusal. It stores
// nothing.
func (h RunHandle) CheckCommand(ctx context.Context, c stages.Command) error {
	err := problems.About("command to run "+h.name, commandProblems(c))
	if err == nil {
		_, err = h.accept(ctx, &c)
	}
	return err
}

// Recorded returns the commands to the run that no engine has executed yet, in the order in which
// they will be executed.
func (h RunHandle) Recorded(ctx context.Context) ([]stages.Command, error) {
	_, recorded, err := h.recorded(ctx)
	return recorded, err
}

// recorded returns the run and its commands that no engine has executed. It reads the commands
// first, so that a command that is executed in the meantime is not missed.
func (h RunHandle) recorded(ctx context.Context) (state.RunStatus, []stages.Command, error) {
	rr, _, err := h.e.state.Run(ctx, h.name)
	if err != nil {
		return state.RunStatus{}, nil, err
	}
	stored, _, err := h.e.commands.List(ctx, rr.Run.UID)
	if err != nil {
		return state.RunStatus{}, nil, err
	}
	s, err := h.e.state.Status(ctx, h.name)
	if err == nil && s.Run.UID != rr.Run.UID {
		err = errdef.Replaced(h.name)
	}
	return s, slices.DeleteFunc(stored, func(c stages.Command) bool { return wasSent(&s.Run, c.ID) }), err
}

// accept completes a decision, and returns the UID of the run if the command must be stored.
func (h RunHandle) accept(ctx context.Context, c *stages.Command) (uid string, err error) {
	s, recorded, err := h.recorded(ctx)
	if err != nil {
		return "", err
	}
	again := slices.IndexFunc(recorded, func(r stages.Command) bool { return c.ID != "" && r.ID == c.ID })
	if again >= 0 {
		recorded = recorded[:again]
	}
	in := stages.Input{Now: h.e.state.Now(), Commands: recorded}
	if c.Verb == stages.Decide {
		repeats, err := h.decide(&s, in, c)
		if repeats || err != nil {
			return "", err
		}
		return s.Run.UID, nil
	}
	c.Decision = nil
	if again >= 0 || wasSent(&s.Run, c.ID) {
		return s.Run.UID, nil
	}
	in.Blocked = h.e.state.Ahead(ctx, &s)
	if err := step.AllowedNext(s.Plan, &s.Run, in, *c); err != nil {
		after := ""
		if in.Commands = nil; len(recorded) > 0 && step.AllowedNext(s.Plan, &s.Run, in, *c) == nil {
			after = " (after the recorded commands " + recordedText(recorded) + ")"
		}
		is := ":"
		if c.Verb == stages.RequestRollback {
			is = "" // run NAME cannot be rolled back
		}
		return "", fmt.Errorf("run %s%s %w%s", h.name, is, err, after)
	}
	return s.Run.UID, nil
}

// wasSent reports whether the run has processed a command with this ID.
func wasSent(run *step.Run, id string) bool {
	return id != "" && slices.Contains(run.Form(runstate.Key{}).Seen, id)
}

func commandProblems(c stages.Command) field.ErrorList {
	verbs := []stages.Verb{stages.Start, stages.Stop, stages.Abort, stages.Skip, stages.Retry, stages.CompleteGate, stages.BypassWindows, stages.Decide}
	errs := append(idProblems(c.ID), sizeProblems(c)...)
	switch c.Verb {
	case stages.Start, stages.Stop, stages.Abort:
	case stages.Skip:
		errs = append(errs, skipProblems(c)...)
	case stages.Retry:
		if only := []stages.Only{stages.OnlyFailed, stages.OnlySkipped}; c.Only != "" && !slices.Contains(only, c.Only) {
			errs = append(errs, field.NotSupported(field.NewPath("only"), c.Only, only))
		}
	case stages.CompleteGate:
		if c.Name == "" {
			errs = append(errs, field.Required(field.NewPath("name"), "the stage or the group before which the gate is"))
		}
	case stages.BypassWindows:
		if c.Until.IsZero() {
			errs = append(errs, field.Required(field.NewPath("until"), "when the bypass ends, at most 7 days from now"))
		}
		if c.Message == "" {
			errs = append(errs, field.Required(field.NewPath("message"), "the reason for starting clusters outside their windows"))
		}
	case stages.Decide:
		if c.Decision == nil {
			errs = append(errs, field.Required(field.NewPath("decision"), "the verdict on the request"))
		}
	default:
		errs = append(errs, field.NotSupported(field.NewPath("verb"), c.Verb, verbs))
	}
	return errs
}

func skipProblems(c stages.Command) (errs field.ErrorList) {
	scopes := []stages.SkipScope{stages.SkipCluster, stages.SkipGroup, stages.SkipStage, stages.SkipAfterWait}
	if !slices.Contains(scopes, c.Scope) {
		errs = append(errs, field.NotSupported(field.NewPath("scope"), c.Scope, scopes))
	}
	if c.Name == "" {
		errs = append(errs, field.Required(field.NewPath("name"), "what is to be skipped: a cluster, a group or a stage"))
	}
	return errs
}

// The longest texts of a command, in bytes: they come back in events.
const (
	mostName    = 512
	mostMessage = 1024
	mostGroups  = 16 << 10
)

func sizeProblems(c stages.Command) field.ErrorList {
	var errs field.ErrorList
	for _, text := range []struct {
		at   string
		size int
		most int
	}{
		{"name", len(c.Name), mostName},
		{"message", len(c.Message), mostMessage},
		{"by.name", len(c.By.Name), mostName},
		{"by.groups", len(strings.Join(c.By.Groups, ",")), mostGroups},
	} {
		if text.size > text.most {
			errs = append(errs, field.TooLong(field.NewPath(text.at), "", text.most))
		}
	}
	return errs
}

// idProblems returns the reasons why an ID cannot be part of a key.
func idProblems(id string) field.ErrorList {
	if id == "" {
		return nil
	}
	var errs field.ErrorList
	for _, m := range validation.IsDNS1123Subdomain(id) {
		errs = append(errs, field.Invalid(field.NewPath("id"), id, m))
	}
	return errs
}

// decide completes the answer to an open approval request, or refuses it. It reports whether the
// answer repeats one that the run has processed. The decision is bound to the run's UID, the stage,
// the attempt and the plan at the time of the call.
func (h RunHandle) decide(s *state.RunStatus, in stages.Input, c *stages.Command) (repeats bool, err error) {
	named := func(r approval.Request) bool { return r.Name == c.Name }
	now := step.Requests(s.Plan, &s.Run)
	shown := slices.IndexFunc(now, named)
	if wasSent(&s.Run, c.ID) && shown >= 0 {
		return true, repeated(c, &now[shown])
	}
	after := step.AfterCommands(s.Plan, s.Run, in)
	open := step.Requests(s.Plan, &after)
	i := slices.IndexFunc(open, named)
	switch {
	case i < 0 && shown >= 0:
		return false, &errdef.Error{
			Op: errdef.Change, Kind: errdef.Request, Name: c.Name, Err: backend.ErrNotFound,
			Problem: "is closed by recorded commands, which an engine carries out next: " + recordedText(in.Commands),
		}
	case i < 0 || wasSent(&s.Run, c.ID):
		return false, errdef.NotFound(errdef.Request, c.Name, openRequests(h.name, now))
	}
	d, err := decision(c, &open[i], commands.Later(in.Now, s.Run.Now.Time()))
	*c = stages.Command{ID: c.ID, Verb: stages.Decide, By: c.By, Decision: &d}
	return false, err
}

// recordedText lists commands: the verb or the verdict, and the author.
func recordedText(recorded []stages.Command) string {
	var all []string
	for i := range recorded {
		all = append(all, step.CommandText(&recorded[i]))
	}
	return strings.Join(all, ", ")
}

// repeated returns nil if an answer whose ID was used before equals the answer that counts already,
// and otherwise an error.
func repeated(c *stages.Command, r *approval.Request) error {
	for _, d := range r.Decisions {
		if d.By.Name == c.By.Name && d.Verdict == c.Decision.Verdict {
			return nil
		}
	}
	return commands.OtherCommand(c.ID)
}

// decision returns the decision on a request. The run's clock may be ahead of this engine's; the
// caller passes the later time, so that no answer is dated before its request.
func decision(c *stages.Command, r *approval.Request, now time.Time) (approval.Decision, error) {
	d := approval.Decision{Verdict: c.Decision.Verdict, By: c.By, At: now, Comment: c.Decision.Comment, Binding: c.Decision.Binding}
	if planning.ClaimsDrift(c.By) {
		return d, &approval.RefusedError{Request: r.Name, By: c.By.Name, Reason: "group " + planning.NoDriftGroup + " is the engine's own"}
	}
	if d.Binding == (approval.Binding{}) {
		if r.Policy.RequireBinding {
			return d, &approval.RefusedError{Request: r.Name, By: c.By.Name, Reason: "the policy requires the binding of the request that was shown"}
		}
		d.Binding = r.Binding
	}
	_, _, err := approval.Evaluate(*r, d, now)
	return d, err
}

func openRequests(run string, open []approval.Request) string {
	if len(open) == 0 {
		return "run " + run + " has no open request: it was decided, or the run has not reached its gate"
	}
	var names []string
	for _, r := range open {
		names = append(names, r.Name)
	}
	return "run " + run + " has open " + strings.Join(names, ", ")
}
