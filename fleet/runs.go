package fleet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// Status is a run as it was last saved.
type Status struct {
	Run stages.Run `json:"run"`
	// Plan is shared: it is not to be changed.
	Plan *stages.Plan `json:"plan,omitempty"`
	// Owner and Title are what the host gave with the run, or with the one that it
	// takes back.
	Owner string `json:"owner,omitempty"`
	Title string `json:"title,omitempty"`
	// Selection is the index of the selection that picked the clusters, -1 where that
	// is not known.
	Selection int `json:"selection"`
	// Apply is the placement's strategy when the run was created, which it keeps.
	Apply apply.Strategy `json:"apply,omitzero"`
	// AllowCoOwnership is the placement's when the run was created. A change of it reaches
	// the run when an engine takes it the next time.
	AllowCoOwnership bool `json:"allowCoOwnership,omitempty"`
	// Holder is the engine that drives the run, "" for none.
	Holder string `json:"holder,omitempty"`
	Epoch  int64  `json:"epoch"`
}

func (s *RunSpec) request() planning.Request {
	return planning.Request{
		Name: s.Name, Owner: s.Owner, Title: s.Title, Placement: s.Placement, Index: s.Index, Strategy: s.Strategy, Hold: s.Hold, Plan: s.Plan, Version: s.Version, Starter: s.Starter,
	}
}

// CreateRun plans a run and records it. It starts when an engine's Run drives
// it and no other run of its placement is active.
//
// The error is the planner's when the plan has problems, errdef.ErrPlanChanged
// when it is not the plan that spec names, a *stages.RejectedError when the
// placement refuses a second run, and backend.ErrConflict when the name is
// taken or the placement has no longer the version that spec names, and a
// errdef.ErrNotFound if the strategy names a cap that was not declared.
// Nothing is left behind then, except that what the source holds may
// have been captured. After an error of the store the run may exist or not:
// [Engine.EnsureRun] creates it or finds it.
func (e *Engine) CreateRun(ctx context.Context, spec RunSpec) (Status, error) {
	if err := spec.validate(); err != nil {
		return Status{}, err
	}
	s, err := e.admitter.CreateRun(ctx, spec.request())
	return Status(s), err
}

// EnsureRun returns the run of spec's name if it is the one that spec asks for, whatever its state, and creates it
// as [Engine.CreateRun] does if there is none: a host calls it with the same spec when it starts, when it was
// restarted and after an error, and there is one run.
//
// It is the run that spec asks for if the placement, the strategy, the owner and, where spec has them, the index
// and the digest of the plan are the same. Otherwise the error says what differs, and matches
// [backend.ErrConflict]. A spec without an index is content with the snapshot that the run was created with, even
// if the source holds something else by now: give a run a name that says what it brings, as web-v1.4.2, or name
// the index.
func (e *Engine) EnsureRun(ctx context.Context, spec RunSpec) (Status, error) {
	if err := spec.validate(); err != nil {
		return Status{}, err
	}
	s, err := e.Status(ctx, spec.Name)
	if errors.Is(err, backend.ErrNotFound) {
		created, cerr := e.CreateRun(ctx, spec)
		if !errors.Is(cerr, backend.ErrConflict) {
			return created, cerr
		}
		if s, err = e.Status(ctx, spec.Name); errors.Is(err, backend.ErrNotFound) {
			return Status{}, cerr // it was not the name that was taken
		}
	}
	if err != nil {
		return Status{}, err
	}
	if differs := spec.differs(&s); len(differs) > 0 {
		return Status{}, fmt.Errorf("run %s exists and is another one: %s: give this one another name, or delete that one: %w",
			spec.Name, strings.Join(differs, "; "), backend.ErrConflict)
	}
	return s, nil
}

// differs says in what a run is not the one that the spec asks for.
func (s *RunSpec) differs(run *Status) (out []string) {
	differ := func(what string, has, want any) {
		if has != want {
			out = append(out, fmt.Sprintf("%s is %v, and %v was asked for", what, has, want))
		}
	}
	differ("placement", strconv.Quote(run.Run.Placement), strconv.Quote(s.Placement))
	differ("owner", strconv.Quote(run.Owner), strconv.Quote(s.Owner))
	if s.Index != nil {
		differ("index", run.Plan.Index, *s.Index)
	}
	if s.Plan != "" {
		differ("plan", run.Plan.Digest, s.Plan)
	}
	if run.Plan.Rollback != nil {
		return append(out, "it takes back run "+run.Plan.Rollback.Run)
	}
	const most = 5
	fields := problems.Differences("strategy", run.Plan.Strategy, s.Strategy)
	if n := len(fields) - most; n > 0 {
		fields = append(fields[:most], fmt.Sprintf("and %d more fields", n))
	}
	return append(out, fields...)
}

// Status returns a run as it was last saved, and the plan that it carries out.
// It is a moment of the run: all of it belongs together.
func (e *Engine) Status(ctx context.Context, name string) (Status, error) {
	s, err := e.state.Status(ctx, name)
	return Status(s), err
}

// Runs returns the names of the runs of a placement in the order in which they
// were created. Runs that were deleted, or forgotten because of the
// placement's RunHistory, are not among them.
func (e *Engine) Runs(ctx context.Context, placement string) ([]string, error) {
	rec, _, err := e.state.Placement(ctx, placement)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, r := range rec.Runs {
		out = append(out, r.Name)
	}
	return out, nil
}

// Explain says what a cluster has come to in a run, why, and what it waits for, and
// which runs use a cap where it waits for that. What the run as a whole waits for is
// [step.Waiting] of its [Status].
// It works in every state of the run, without an engine that drives it, and
// fails for a cluster that is not in the plan.
func (e *Engine) Explain(ctx context.Context, run, cluster string) (stages.Explanation, error) {
	s, err := e.state.Status(ctx, run)
	if err != nil {
		return stages.Explanation{}, err
	}
	x, err := step.Explain(s.Plan, &s.Run, cluster)
	if err != nil {
		return x, err
	}
	if s.Run.RollbackRequest != nil {
		if r, err := e.RollbackOf(ctx, run); err == nil {
			x.Reason += r.explain()
		}
	}
	return x, e.caps.Explain(ctx, x.Waiting)
}

// Requests returns the approval requests of a run that are open, none once it
// has ended. The names of requests tell those of one run apart, not those of
// different runs: name both the run and the request, as [Engine.Decide] does.
func (e *Engine) Requests(ctx context.Context, run string) ([]approval.Request, error) {
	s, err := e.state.Status(ctx, run)
	if err != nil {
		return nil, err
	}
	return step.Requests(s.Plan, &s.Run), nil
}

// Preview returns the plan that CreateRun would record for spec, with the
// digest that it would have. Nothing is written, not even a snapshot, and the
// spec needs no name yet. The plan stays what it is; the next one may differ
// when something has changed: name its digest in RunSpec.Plan to be sure.
func (e *Engine) Preview(ctx context.Context, spec RunSpec) (*stages.Plan, error) {
	if err := problems.About("preview of a run", spec.problems()); err != nil {
		return nil, err
	}
	d, _, err := e.planner.Plan(ctx, spec.request())
	if err != nil {
		return nil, err
	}
	return d.Plan, nil
}

// CatchUp creates a run that follows one that has ended: it takes the clusters
// that failed or were skipped, and those that the placement picks and the run
// did not know, to the same frozen target by the same strategy.
//
// It fails when the run has not ended, and when there is nothing to catch up.
func (e *Engine) CatchUp(ctx context.Context, run, name string, starter approval.Identity) (Status, error) {
	s, err := e.state.Status(ctx, run)
	if err != nil {
		return Status{}, err
	}
	if !s.Run.IsEnded() {
		return Status{}, fmt.Errorf("run %s has not ended: it is %s; catch up when it has", run, s.Run.State)
	}
	spec := RunSpec{Name: name, Placement: s.Run.Placement, Index: &s.Plan.Index, Strategy: s.Plan.Strategy, Starter: starter}
	if err := spec.validate(); err != nil {
		return Status{}, err
	}
	created, err := e.admitter.CatchUp(ctx, spec.request(), &s)
	return Status(created), err
}

// DeleteRun deletes a run with its events and gives its placement free. It cannot be undone. A run that is Running or
// Stopping is refused with a [*stages.RefusedError] unless force is set: stop or abort it first.
//
// Forced, it is not stopped first. No cluster is started any more, and the engine that drives the run is fenced: its next
// write is refused, by the store and, with the epoch of the next run, by the members. An update that is in flight is left
// as it is: what was sent to a cluster stays, and what is being sent may still arrive. Such a cluster counts as tried, see
// [PlacedCluster], and the next run of the placement brings it to its own target. What waits for shared caps goes on.
//
// A run whose record is damaged is deleted whatever it was; one that a newer version wrote cannot be deleted. After an
// error DeleteRun may be called again, and ends what it had begun.
func (e *Engine) DeleteRun(ctx context.Context, name string, force bool) error {
	return e.admitter.DeleteRun(ctx, name, force)
}
