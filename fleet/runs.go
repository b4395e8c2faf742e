package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// Status is a run as it was last saved.
type Status struct {
	Run stages.Run
	// Plan is shared: it is not to be changed.
	Plan *stages.Plan
	// Owner and Title are what the host gave with the run, or with the one that it
	// takes back.
	Owner, Title string
	// Decision is the index of the decision that picked the clusters, -1 where that
	// is not known.
	Decision int
	// Apply is the placement's strategy when the run was created, which it keeps.
	Apply ApplyStrategy
	// Holder is the engine that drives the run, "" for none.
	Holder string
	Epoch  int64
}

// runStatus is a run as it was last saved, with its plan. It is what [Status] shows.
type runStatus struct {
	Run          stages.Run
	Plan         *stages.Plan
	Owner, Title string
	Decision     int
	Apply        member.ApplyStrategy
	Holder       string
	Epoch        int64
}

// runRequest is what a run is made of. It is what [RunSpec] asks for.
type runRequest struct {
	Name, Owner, Title, Placement string
	Index                         *int
	Strategy                      stages.Strategy
	Hold                          bool
	Plan                          string
	Starter                       approval.Identity
}

func (s *RunSpec) request() runRequest {
	return runRequest{
		Name: s.Name, Owner: s.Owner, Title: s.Title, Placement: s.Placement, Index: s.Index, Strategy: s.Strategy, Hold: s.Hold, Plan: s.Plan, Starter: s.Starter,
	}
}

// PlanChangedError says that a run was to be made of a plan that was
// previewed, and something has changed since.
type PlanChangedError struct {
	Run       string
	Want, Got string
}

func (e *PlanChangedError) Error() string {
	return fmt.Sprintf("run %s: the plan is now %s, and %s was asked for: preview it again", e.Run, e.Got, e.Want)
}

// CreateRun plans a run and records it. It starts when an engine's Run drives
// it and no other run of its placement is active.
//
// The error is the planner's when the plan has problems, a *PlanChangedError
// when it is not the plan that spec names, a *lifecycle.RejectedError when the
// placement refuses a second run, and backend.ErrConflict when the name is
// taken, and a *NotFoundError where the strategy names a cap that was not declared.
// Nothing is left behind then, except that what the source holds may
// have been captured. After an error of the store the run may exist or not.
func (e *Engine) CreateRun(ctx context.Context, spec RunSpec) (Status, error) {
	if err := spec.validate(); err != nil {
		return Status{}, err
	}
	s, err := e.createRun(ctx, spec.request())
	return Status(s), err
}

// createRun plans a run and records it.
func (e *Engine) createRun(ctx context.Context, spec runRequest) (runStatus, error) {
	if err := e.nameFree(ctx, spec.Name); err != nil {
		return runStatus{}, err
	}
	if name := spec.Strategy.Cap; name != "" {
		if _, _, err := e.capAt(ctx, name); err != nil {
			return runStatus{}, fmt.Errorf("run %s: %w", spec.Name, err)
		}
	}
	d, rec, err := e.draftOf(ctx, spec)
	if err != nil {
		return runStatus{}, fmt.Errorf("run %s: %w", spec.Name, err)
	}
	return e.record(ctx, rec, spec, d)
}

// record stores a draft and the run of it. What would be refused is refused
// before anything is written.
func (e *Engine) record(ctx context.Context, rec *record.Placement, spec runRequest, d *draft) (runStatus, error) {
	if spec.Plan != "" && spec.Plan != d.plan.Digest {
		return runStatus{}, &PlanChangedError{Run: spec.Name, Want: spec.Plan, Got: d.plan.Digest}
	}
	run := stages.NewRun(d.plan, spec.Name, record.NewUID(), spec.Starter, spec.Hold, e.now())
	rr := &record.Run{Run: run, Owner: spec.Owner, Title: spec.Title, Of: rec.UID, Whole: d.whole, Decision: d.decided(), Apply: rec.Placement.ApplyStrategy, GCGeneration: d.sweeps}
	asks := lifecycle.RunRequested{Entry: d.entry(&run), Hold: spec.Hold}
	if _, err := e.outcome(ctx, rec, &transition{input: on(asks)}); err != nil {
		return runStatus{}, err
	}
	if err := e.captured(ctx, spec, d); err != nil {
		return runStatus{}, err
	}
	if err := e.storeDraft(ctx, rr, d); err != nil {
		return runStatus{}, err
	}
	defer e.admitting.begin(run.Name)()
	if err := e.putRun(ctx, rr); err != nil {
		return runStatus{}, err
	}
	e.offer(d)
	if err := e.admit(ctx, rr, d); err != nil {
		if err := e.withdraw(ctx, rr, err); err != nil {
			return runStatus{}, err
		}
	}
	return runStatus{Run: run, Plan: d.plan, Owner: spec.Owner, Title: spec.Title}, nil
}

// captured takes the snapshot that a draft was made of, if there is none yet.
func (e *Engine) captured(ctx context.Context, spec runRequest, d *draft) error {
	if !d.frozen.fresh {
		return nil
	}
	taken, err := e.captureNext(ctx, spec.Placement)
	if err != nil {
		return err
	}
	if taken.Digest != d.frozen.Digest || taken.Index != d.frozen.Index {
		return fmt.Errorf("run %s: the source changed while the run was planned: try again: %w", spec.Name, backend.ErrConflict)
	}
	return nil
}

// putRun creates the record of a run, and finds out whether it did where the
// store does not say.
func (e *Engine) putRun(ctx context.Context, rr *record.Run) error {
	_, err := e.store.Put(ctx, record.RunKey(rr.Run.Name), record.Encode(rr), "")
	if err == nil {
		return nil
	}
	if now, _, rerr := e.runAt(ctx, rr.Run.Name); rerr == nil && now.Run.UID == rr.Run.UID {
		return nil
	}
	return e.nameTaken(rr.Run.Name, err)
}

// storeDraft writes the plan and the contents that clusters get.
func (e *Engine) storeDraft(ctx context.Context, rr *record.Run, d *draft) error {
	if err := d.variants.save(ctx, e.contents, rr.Run.Placement); err != nil {
		return err
	}
	if rr.Decision != nil && rr.Decision.Pages > 0 {
		if err := e.writePicked(ctx, rr.Run.Placement, rr.Decision, d.decision.Clusters); err != nil {
			return err
		}
	}
	return e.writePlan(ctx, d.plan, record.WriteIntent(&rr.Run))
}

func (e *Engine) nameFree(ctx context.Context, name string) error {
	_, err := e.store.Get(ctx, record.RunKey(name))
	if isNotFound(err) {
		return nil
	}
	if err == nil {
		err = backend.ErrConflict
	}
	return e.nameTaken(name, err)
}

func (e *Engine) nameTaken(name string, err error) error {
	if errors.Is(err, backend.ErrConflict) {
		return fmt.Errorf("run %s exists already: choose another name, or delete it first: %w", name, backend.ErrConflict)
	}
	return err
}

// Status returns a run as it was last saved, and the plan that it carries out.
// It is a moment of the run: all of it belongs together.
func (e *Engine) Status(ctx context.Context, name string) (Status, error) {
	s, err := e.status(ctx, name)
	return Status(s), err
}

// status returns a run as it was last saved.
func (e *Engine) status(ctx context.Context, name string) (runStatus, error) {
	rr, _, err := e.runAt(ctx, name)
	if err != nil {
		return runStatus{}, err
	}
	return e.statusOf(ctx, rr)
}

// statusOf returns the run of a record.
func (e *Engine) statusOf(ctx context.Context, rr *record.Run) (runStatus, error) {
	p, err := e.readPlan(ctx, rr.Run.Plan)
	if err != nil {
		return runStatus{}, fmt.Errorf("run %s: its plan: %w", rr.Run.Name, err)
	}
	if rr, err = e.withFlights(ctx, rr); err == nil {
		err = rr.Check(p)
	}
	if err != nil {
		return runStatus{}, err
	}
	decision := -1
	if rr.Decision != nil {
		decision = rr.Decision.Index
	}
	return runStatus{
		Run: rr.Run, Plan: p, Owner: rr.Owner, Title: rr.Title, Decision: decision, Apply: rr.Apply,
		Holder: rr.Lease.Holder, Epoch: rr.Lease.Epoch,
	}, nil
}

// withFlights reads the clusters in flight and the long lists of a run, or of its
// newer record where a page is gone because that does not name it any more.
func (e *Engine) withFlights(ctx context.Context, rr *record.Run) (*record.Run, error) {
	pages := record.FlightPages{Store: e.store, UID: rr.Run.UID}
	for {
		err := pages.Read(ctx, rr)
		if err == nil {
			return rr, nil
		}
		if !isNotFound(err) {
			return nil, fmt.Errorf("run %s: %w", rr.Run.Name, err)
		}
		now, _, rerr := e.runAt(ctx, rr.Run.Name)
		if rerr != nil {
			return nil, rerr
		}
		if now.Seq == rr.Seq {
			return nil, record.Damaged(record.RunKey(rr.Run.Name), errors.New(err.Error()))
		}
		rr = now
	}
}

// runAt returns the record of a run and its revision, without the clusters in
// flight. A record that cannot be read has a revision nevertheless.
func (e *Engine) runAt(ctx context.Context, name string) (*record.Run, backend.Revision, error) {
	missing := &NotFoundError{Kind: "run", Name: name, Hint: "Runs lists those of a placement"}
	if len(nameProblems(nil, name)) > 0 {
		return nil, "", missing
	}
	rec, err := e.store.Get(ctx, record.RunKey(name))
	if isNotFound(err) {
		return nil, "", missing
	}
	if err != nil {
		return nil, "", err
	}
	rr := new(record.Run)
	if err = record.Decode(rec, rr); err == nil {
		err = record.CheckName(rec.Key, name, rr.Run.Name)
	}
	return rr, rec.Revision, err
}

// Runs returns the names of the runs of a placement in the order in which they
// were created. Runs that were deleted, or forgotten because of the
// placement's RunHistory, are not among them.
func (e *Engine) Runs(ctx context.Context, placement string) ([]string, error) {
	rec, _, err := e.placementAt(ctx, placement)
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
// [stages.Waiting] of its [Status].
// It works in every state of the run, without an engine that drives it, and
// fails for a cluster that is not in the plan.
func (e *Engine) Explain(ctx context.Context, run, cluster string) (stages.Explanation, error) {
	s, err := e.status(ctx, run)
	if err != nil {
		return stages.Explanation{}, err
	}
	x, err := stages.Explain(s.Plan, &s.Run, cluster)
	if err != nil {
		return x, err
	}
	if s.Run.Undo != nil {
		x.Reason += e.undone(ctx, &s.Run)
	}
	return x, e.tellCaps(ctx, x.Waiting)
}

// Requests returns the approval requests of a run that are open, none once it
// has ended. The names of requests tell those of one run apart, not those of
// different runs: name both the run and the request, as [Engine.Decide] does.
func (e *Engine) Requests(ctx context.Context, run string) ([]approval.Request, error) {
	s, err := e.status(ctx, run)
	if err != nil {
		return nil, err
	}
	return stages.Requests(s.Plan, &s.Run), nil
}
