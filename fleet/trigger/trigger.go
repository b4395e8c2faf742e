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
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// MaxName is how long the name of a trigger may be, and MaxRevision how long a revision: both are in the names of runs,
// which have at most 63 characters.
const (
	MaxName     = 30
	MaxRevision = 32
)

// Engine is what of an engine a trigger uses; a [fleet.Engine] is one.
type Engine interface {
	Capture(ctx context.Context, placement string) (snapshot.Snapshot, error)
	RunSummaries(ctx context.Context, placement string) ([]fleet.RunSummary, error)
	EnsureRun(ctx context.Context, spec fleet.RunSpec) (fleet.Status, error)
}

// Trigger says which runs are created.
type Trigger struct {
	// Name is a DNS label of at most [MaxName] characters, unique in the store.
	Name string
	// Placement is what the runs roll out.
	Placement string
	// Strategy is that of the runs which are created from now on.
	Strategy stages.Strategy
	// Disabled creates no runs. Those that are there go on.
	Disabled bool
	// Hold leaves the runs NotStarted until a person starts them.
	Hold bool
	// Starter is recorded as the identity that asked for the runs.
	Starter approval.Identity
	// Revision says in a word what a run would bring now: lower case letters, digits, hyphens and dots, at most
	// [MaxRevision]. Nil is the index of the snapshot of what the source holds. The trigger asks before and after it
	// takes the snapshot, and creates nothing where the two differ.
	Revision func(context.Context) (string, error)
}

// Validate returns everything that is wrong with t.
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

// Owner is what the runs of the trigger have as their Owner.
func (t *Trigger) Owner() string { return "trigger/" + t.Name }

// State is what firing a trigger came to.
type State string

// The states of an [Outcome].
const (
	// Disabled is a trigger that creates nothing.
	Disabled State = "Disabled"
	// Created is a new run.
	Created State = "Created"
	// Current is a trigger whose newest revision has its run, be it on its way or ended.
	Current State = "Current"
	// Waiting is a trigger with a new revision while a run of it has not ended.
	Waiting State = "Waiting"
	// Changing is a revision that changed while its snapshot was taken: the next time shows what it has become.
	Changing State = "Changing"
)

// Outcome is what firing a trigger came to.
type Outcome struct {
	State State
	// Revision is what is newest; empty for Disabled.
	Revision string
	// Run is the run of the revision, or under Waiting the one that has not ended.
	Run string
}

// Fire creates the run that is due, if there is one. It may be called concurrently, and from several processes.
func Fire(ctx context.Context, e Engine, t Trigger) (Outcome, error) {
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

func (t *Trigger) fire(ctx context.Context, e Engine) (Outcome, error) {
	revision, err := t.revision(ctx)
	if err != nil {
		return Outcome{}, err
	}
	if t.Revision != nil { // without a snapshot where its run is there
		runs, err := e.RunSummaries(ctx, t.Placement)
		if err != nil {
			return Outcome{}, err
		}
		if out := t.decide(revision, runs); out.State != Created {
			return out, nil
		}
	}
	latest, err := e.Capture(ctx, t.Placement)
	if err != nil {
		return Outcome{}, err
	}
	if t.Revision == nil {
		revision = strconv.Itoa(latest.Index)
	}
	// What has been created until now counts, also by another process while the snapshot was taken.
	runs, err := e.RunSummaries(ctx, t.Placement)
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

// revision returns the trigger's own revision, "" for one that has none.
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

// decide says what is to be done about a revision, given all runs of the placement. A run that cannot be read counts
// as one that has not ended: it may be the trigger's. One of the same name that is not the trigger's is left to
// the engine, which says what differs.
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
