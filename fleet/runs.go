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
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// Status is the last saved state of a run.
type Status struct {
	Run step.Run `json:"run"`
	// Plan is shared: the caller must not change it.
	Plan *stages.Plan `json:"plan,omitempty"`
	// Owner and Title are the host's values for this run, or for the run that it rolls back.
	Owner string `json:"owner,omitempty"`
	Title string `json:"title,omitempty"`
	// Selection is the index of the selection that picked the clusters, -1 if unknown.
	Selection int `json:"selection"`
	// Apply is the placement's strategy at the creation of the run. Later changes do not affect
	// the run.
	Apply apply.Strategy `json:"apply,omitzero"`
	// AllowCoOwnership is the placement's value at the creation of the run. A later change reaches
	// the run the next time an engine takes it.
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

// CreateRun plans a run and records it. The run starts when an engine in [Engine.Start] drives it
// and no other run of its placement is active.
//
// CreateRun returns the planner's error if the plan has problems, errdef.ErrPlanChanged if the plan
// is not the one that spec names, and a *stages.RejectedError if the placement refuses a second
// run. The error matches backend.ErrConflict if the name is taken or the placement no longer has
// the version that spec names, and errdef.ErrNotFound if the strategy names an undeclared cap. If
// CreateRun returns one of these errors, it has recorded nothing, except possibly a snapshot of the
// source. After an error of the store the run may or may not exist: [Engine.EnsureRun] creates it
// or finds it.
func (e *Engine) CreateRun(ctx context.Context, spec RunSpec) (Status, error) {
	if err := e.withStrategy(ctx, &spec); err != nil {
		return Status{}, err
	}
	if err := spec.validate(); err != nil {
		return Status{}, err
	}
	s, err := e.admitter.CreateRun(ctx, spec.request())
	return Status(s), err
}

// EnsureRun returns the run with the name in spec, whatever its state, if the run matches spec. If
// there is no such run, EnsureRun creates it as [Engine.CreateRun] does. A host calls it with the
// same spec when it starts, after a restart and after an error, and gets one run.
//
// A run that was deleted, also because of its placement's RunHistory, no longer exists: EnsureRun
// creates it again, with the current objects of the source unless spec has an index. A host that
// starts with an old spec first looks for a newer run in [PlacementHandle.RunNames].
//
// The run matches if the placement, the strategy and the owner are the same, and also the index and
// the digest of the plan if spec has them. If the strategy of spec consists of a name only, it is
// the same if the run's strategy has that name, even if the declared strategy has changed since. If
// the run does not match, the error says how it differs from spec, and matches
// [backend.ErrConflict]. A spec without an index accepts the snapshot that the run was created
// with, even if the source has changed since: give a run a name that identifies the change, such as
// web-v1.4.2, or name the index.
func (e *Engine) EnsureRun(ctx context.Context, spec RunSpec) (Status, error) {
	s, err := e.Run(spec.Name).Status(ctx)
	if err == nil && spec.namesStrategy() && s.Plan.Strategy.Name == spec.Strategy.Name {
		spec.Strategy = s.Plan.Strategy
	} else if err := e.withStrategy(ctx, &spec); err != nil {
		return Status{}, err
	}
	if err := spec.validate(); err != nil {
		return Status{}, err
	}
	if errors.Is(err, backend.ErrNotFound) {
		created, cerr := e.CreateRun(ctx, spec)
		if !errors.Is(cerr, backend.ErrConflict) {
			return created, cerr
		}
		if s, err = e.Run(spec.Name).Status(ctx); errors.Is(err, backend.ErrNotFound) {
			return Status{}, cerr // it was not the name that was taken
		}
	}
	if err != nil {
		return Status{}, err
	}
	if differs := spec.Differences(&s); len(differs) > 0 {
		return Status{}, fmt.Errorf("another run %s exists: %s: choose another name, or delete that run: %w",
			spec.Name, strings.Join(differs, "; "), backend.ErrConflict)
	}
	return s, nil
}

// Differences returns the differences between a run and the spec, each as a field with both values,
// or none if the run matches as at [Engine.EnsureRun].
func (s *RunSpec) Differences(run *Status) (out []string) {
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
		return append(out, "it rolls back run "+run.Plan.Rollback.Run)
	}
	const most = 5
	fields := problems.Differences("strategy", run.Plan.Strategy, s.Strategy)
	if n := len(fields) - most; n > 0 {
		fields = append(fields[:most], fmt.Sprintf("and %d more fields", n))
	}
	return append(out, fields...)
}

// Status returns the last saved state of a run, and its plan. Run and plan are consistent with each
// other.
func (h RunHandle) Status(ctx context.Context) (Status, error) {
	s, err := h.e.state.Status(ctx, h.name)
	return Status(s), err
}

// RunNames returns the names of the placement's runs in the order of their creation. It omits runs
// that were deleted, or forgotten because of the placement's RunHistory.
func (h PlacementHandle) RunNames(ctx context.Context) ([]string, error) {
	rec, _, err := h.e.state.Placement(ctx, h.name)
	if err != nil {
		return nil, err
	}
	return runNames(rec), nil
}

func runNames(rec *record.Placement) (names []string) {
	for i := range rec.Runs {
		names = append(names, rec.Runs[i].Name)
	}
	return names
}

// Explain returns the state of a cluster in a run, the reason, and the conditions that it waits
// for; if it waits for a cap, also the runs that use the cap. [step.Waiting] of the [Status]
// returns the conditions that the run as a whole waits for. Explain works in every state of the
// run, without an engine that drives it, and fails for a cluster that is not in the plan.
func (h RunHandle) Explain(ctx context.Context, cluster string) (stages.Explanation, error) {
	s, err := h.e.state.Status(ctx, h.name)
	if err != nil {
		return stages.Explanation{}, err
	}
	x, err := step.Explain(s.Plan, &s.Run, cluster)
	if err != nil {
		return x, err
	}
	if s.Run.Form(runstate.Key{}).RollbackRequest != nil {
		if r, err := h.RollbackStatus(ctx); err == nil {
			x.Reason += r.explain()
		}
	}
	return x, h.e.caps.Explain(ctx, x.Waiting)
}

// Requests returns the open approval requests of a run, none once it has ended. The name of a
// request is unique within its run only: name both the run and the request, as [RunHandle.Command]
// does.
func (h RunHandle) Requests(ctx context.Context) ([]approval.Request, error) {
	s, err := h.e.state.Status(ctx, h.name)
	if err != nil {
		return nil, err
	}
	return step.Requests(s.Plan, &s.Run), nil
}

// CatchUp creates a run that follows an ended run. The new run brings the same frozen target, by
// the same strategy, to the clusters that failed or were skipped, and to clusters of the placement
// that were not in the ended run.
//
// It fails if the run has not ended, or if there are no such clusters.
func (h RunHandle) CatchUp(ctx context.Context, name string, starter approval.Identity) (Status, error) {
	s, err := h.e.state.Status(ctx, h.name)
	if err != nil {
		return Status{}, err
	}
	if !s.Run.IsEnded() {
		return Status{}, fmt.Errorf("run %s has not ended: it is %s; catch up after its end", h.name, s.Run.State)
	}
	spec := RunSpec{Name: name, Placement: s.Run.Placement, Index: &s.Plan.Index, Strategy: s.Plan.Strategy, Starter: starter}
	if err := spec.validate(); err != nil {
		return Status{}, err
	}
	created, err := h.e.admitter.CatchUp(ctx, spec.request(), &s)
	return Status(created), err
}

// Delete deletes the run with its events and releases its placement. It cannot be undone. A run
// that is Running or Stopping is refused with a [*stages.RefusedError] unless force is set: stop or
// abort it first.
//
// With force, the run is not stopped first. No more clusters are started, and the engine that
// drives the run is fenced: the store refuses its next write, and so do the members once the next
// run has written its epoch. An update in flight is not undone: objects sent to a cluster stay, and
// objects under way may still arrive. [PlacedCluster].Tried names the snapshot that such a cluster
// may have in part, and the next run of the placement brings the cluster to its own target. Runs
// that wait for shared caps continue.
//
// A run whose record is damaged can always be deleted; a run that a newer version wrote cannot.
// After an error Delete may be called again, and completes the deletion.
func (h RunHandle) Delete(ctx context.Context, force bool) error {
	return h.e.admitter.DeleteRun(ctx, h.name, force)
}
