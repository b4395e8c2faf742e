package trigger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// MaxName is the maximum length of a trigger's name, and MaxRevision the maximum length of a
// revision, in characters. Names of runs contain both, and have at most 63 characters.
const (
	MaxName     = 30
	MaxRevision = 32
)

// Trigger says which runs to create.
type Trigger struct {
	// Name is a DNS label of at most [MaxName] characters, unique in the store.
	Name string
	// Placement is the name of the placement that the runs roll out.
	Placement string
	// Strategy is the strategy of new runs.
	Strategy stages.Strategy
	// Disabled creates no runs. Existing runs continue.
	Disabled bool
	// Hold leaves the runs NotStarted until a person starts them.
	Hold bool
	// Starter is recorded as the identity that requested the runs.
	Starter approval.Identity
	// Revision returns the newest revision: lower case letters, digits, hyphens and dots, at most
	// [MaxRevision] characters. If it is nil, the revision is the index of the snapshot of the
	// source's current objects. The trigger calls it before and after it takes the snapshot, and
	// creates no run if the results differ.
	Revision func(context.Context) (string, error)
}

// Validate returns all problems of t.
func (t *Trigger) Validate() error {
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Label(t.Name) {
		errs = append(errs, field.Invalid(field.NewPath("name"), t.Name, problem))
	}
	if len(t.Name) > MaxName {
		errs = append(errs, field.TooLong(field.NewPath("name"), t.Name, MaxName))
	}
	if t.Placement == "" {
		errs = append(errs, field.Required(field.NewPath("placement"), "the placement that the runs roll out"))
	}
	if err := errs.ToAggregate(); err != nil {
		return fmt.Errorf("trigger %q: %w", t.Name, err)
	}
	return nil
}

// RunName returns the name of the run that brings a revision.
func (t *Trigger) RunName(revision string) string { return t.Name + "-" + revision }

// Owner returns the Owner of the trigger's runs.
func (t *Trigger) Owner() string { return "trigger/" + t.Name }

// State is the result of firing a trigger.
type State string

// The states of an [Outcome].
const (
	// Disabled means that the trigger is disabled.
	Disabled State = "Disabled"
	// Created means that a new run was created.
	Created State = "Created"
	// Current means that the newest revision already has its run, which may have ended.
	Current State = "Current"
	// Waiting means that there is a new revision, but a run of the trigger has not ended.
	Waiting State = "Waiting"
	// Changing means that the revision changed while its snapshot was taken: the next firing uses the
	// new revision.
	Changing State = "Changing"
)

// Outcome is the result of firing a trigger.
type Outcome struct {
	State State
	// Revision is the newest revision; empty for Disabled.
	Revision string
	// Run is the run of the revision, or for Waiting the run that has not ended.
	Run string
}

// Fire creates the run that is due, if there is one. It may be called concurrently, and from
// several processes.
func Fire(ctx context.Context, e *fleet.Engine, t Trigger) (Outcome, error) {
	if err := t.Validate(); err != nil {
		return Outcome{}, err
	}
	if t.Disabled {
		return Outcome{State: Disabled}, nil
	}
	out, err := t.fire(ctx, e)
	if err != nil {
		return out, fmt.Errorf("trigger %s of placement %s: %w", t.Name, t.Placement, err)
	}
	return out, nil
}

func (t *Trigger) fire(ctx context.Context, e *fleet.Engine) (Outcome, error) {
	revision, err := t.revision(ctx)
	if err != nil {
		return Outcome{}, err
	}
	if t.Revision != nil { // without a snapshot where its run is there
		runs, err := e.Placement(t.Placement).Runs(ctx)
		if err != nil {
			return Outcome{}, err
		}
		if out := t.decide(revision, runs); out.State != Created {
			return out, nil
		}
	}
	latest, err := e.Placement(t.Placement).Capture(ctx)
	if err != nil {
		return Outcome{}, err
	}
	if t.Revision == nil {
		revision = strconv.Itoa(latest.Index)
	}
	// Runs that were created until now count, including runs that another process created while
	// the snapshot was taken.
	runs, err := e.Placement(t.Placement).Runs(ctx)
	if err != nil {
		return Outcome{}, err
	}
	out := t.decide(revision, runs)
	if out.State != Created {
		return out, nil
	}
	if after, err := t.revision(ctx); err != nil || after != revision && t.Revision != nil {
		return Outcome{State: Changing, Revision: cmp.Or(after, revision)}, err
	}
	_, err = e.EnsureRun(ctx, fleet.RunSpec{
		Name: out.Run, Owner: t.Owner(), Placement: t.Placement, Index: &latest.Index,
		Strategy: t.Strategy, Hold: t.Hold, Starter: t.Starter,
	})
	return out, err
}

// revision returns the trigger's own revision, "" if it has no Revision.
func (t *Trigger) revision(ctx context.Context) (string, error) {
	if t.Revision == nil {
		return "", nil
	}
	revision, err := t.Revision(ctx)
	if err != nil {
		return "", err
	}
	if problems := validation.IsDNS1123Subdomain(revision); len(problems) > 0 {
		return "", fmt.Errorf("revision %q: %s", revision, problems[0])
	}
	if len(revision) > MaxRevision {
		return "", fmt.Errorf("revision %q: must have no more than %d characters", revision, MaxRevision)
	}
	return revision, nil
}

// decide returns the outcome for a revision, given all runs of the placement. A run that cannot be
// read counts as not ended, because it may be the trigger's. If another owner has a run of the same
// name, the engine reports the difference.
func (t *Trigger) decide(revision string, runs []fleet.RunSummary) Outcome {
	out := Outcome{State: Created, Revision: revision, Run: t.RunName(revision)}
	if slices.ContainsFunc(runs, func(r fleet.RunSummary) bool { return r.Name == out.Run && r.Owner == t.Owner() }) {
		out.State = Current
		return out
	}
	for _, r := range runs {
		if r.Problem != "" || r.Owner == t.Owner() && r.Ended.IsZero() {
			out.State, out.Run = Waiting, r.Name
			return out
		}
	}
	return out
}
