package fleet

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/commands"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// Command sends a command to a run. It returns once the command is stored; the engine that drives
// the run executes it, or refuses it with a CommandRefused event. A command to a stopped run, or
// about a later stage, takes effect later: if no other event shows it, a CommandAccepted event says
// when. A command whose ID was used before changes nothing. If the earlier command is still stored
// and differs, the error matches backend.ErrConflict. An empty ID is replaced by a new one; any
// other ID must be a DNS subdomain. At is overwritten.
//
// Decisions are not accepted here, use [RunHandle.Decide].
//
// The engine does not authorize: any caller that the host admits may send a command, and c.By is
// recorded as its author.
func (h RunHandle) Command(ctx context.Context, c stages.Command) error {
	if err := problems.About("command to run "+h.name, commandProblems(c)); err != nil {
		return err
	}
	rr, _, err := h.e.state.Run(ctx, h.name)
	if err != nil {
		return err
	}
	c.Decision = nil
	return h.e.commands.Send(ctx, rr.Run.UID, c)
}

func commandProblems(c stages.Command) field.ErrorList {
	verbs := []stages.Verb{stages.Start, stages.Stop, stages.Abort, stages.Skip, stages.Retry, stages.CompleteGate, stages.BypassWindows}
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

// Answer is an answer to an approval request.
type Answer struct {
	// Request is the name of the request, as in example-run-after-canary.
	Request string           `json:"request"`
	Verdict approval.Verdict `json:"verdict"`
	// By is the identity that answers, as the host authenticated it.
	By      approval.Identity `json:"by,omitzero"`
	Comment string            `json:"comment,omitempty"`
	// Binding, if not zero, is the binding of the request that the person saw. The answer is
	// refused if the request now has another binding. A policy may require a binding.
	Binding approval.Binding `json:"binding,omitzero"`
	// ID makes the answer idempotent; if it is empty, a new one is generated. It must be a DNS
	// subdomain, as the ID of a command. The error matches backend.ErrConflict if the ID was used
	// for another answer, or for an answer that was executed and does not count now.
	ID string `json:"id,omitempty"`
}

// Decide answers an open approval request of a run. The decision is bound to the run's UID, the
// stage, the attempt and the plan at the time of the call. Decide returns once the answer is
// stored. The error matches backend.ErrNotFound if no such request is open, and is an
// *approval.RefusedError if the policy does not let this person answer.
//
// The request of a stopped run may be answered: nothing starts before the run does.
func (h RunHandle) Decide(ctx context.Context, a Answer) error {
	if err := problems.About("answer to request "+a.Request, idProblems(a.ID)); err != nil {
		return err
	}
	s, err := h.e.state.Status(ctx, h.name)
	if err != nil {
		return err
	}
	open := step.Requests(s.Plan, &s.Run)
	i := slices.IndexFunc(open, func(r approval.Request) bool { return r.Name == a.Request })
	if i < 0 {
		return errdef.NotFound(errdef.Request, a.Request, openRequests(h.name, open))
	}
	if a.ID != "" && slices.Contains(s.Run.Form(runstate.Key{}).Seen, a.ID) {
		return a.repeated(&open[i])
	}
	d, err := a.decision(&open[i], commands.Later(h.e.state.Now(), s.Run.Now.Time()))
	if err != nil {
		return err
	}
	return h.e.commands.Send(ctx, s.Run.UID, stages.Command{ID: a.ID, Verb: stages.Decide, By: a.By, Decision: &d})
}

// repeated returns nil if an answer whose ID was used before equals the answer that counts already,
// and otherwise an error.
func (a *Answer) repeated(r *approval.Request) error {
	for _, d := range r.Decisions {
		if d.By.Name == a.By.Name && d.Verdict == a.Verdict {
			return nil
		}
	}
	return commands.OtherCommand(a.ID)
}

// decision returns the decision on a request. The run's clock may be ahead of this engine's; the
// caller passes the later time, so that no answer is dated before its request.
func (a *Answer) decision(r *approval.Request, now time.Time) (approval.Decision, error) {
	d := approval.Decision{Verdict: a.Verdict, By: a.By, At: now, Comment: a.Comment, Binding: a.Binding}
	if planning.ClaimsDrift(a.By) {
		return d, &approval.RefusedError{Request: r.Name, By: a.By.Name, Reason: "group " + planning.NoDriftGroup + " is the engine's own"}
	}
	if d.Binding == (approval.Binding{}) {
		if r.Policy.RequireBinding {
			return d, &approval.RefusedError{Request: r.Name, By: a.By.Name, Reason: "the policy requires the binding of the request that was shown"}
		}
		d.Binding = r.Binding
	}
	_, _, err := approval.Evaluate(*r, d, now)
	return d, err
}

func openRequests(run string, open []approval.Request) string {
	if len(open) == 0 {
		return "run " + run + " has no open request; one is made when the run reaches its gate"
	}
	var names []string
	for _, r := range open {
		names = append(names, r.Name)
	}
	return "run " + run + " has open " + strings.Join(names, ", ")
}
