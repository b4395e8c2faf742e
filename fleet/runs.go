package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages"
)

// Status is a run as it was last saved.
type Status struct {
	Run stages.Run
	// Plan is shared: it is not to be changed.
	Plan *stages.Plan
	// Holder is the engine that drives the run, "" for none.
	Holder string
	Epoch  int64
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
// it and no other run of its placement is active. The error is the planner's
// when the plan has problems, a *stages.RejectedError when the placement
// refuses a second run; nothing is left behind then.
func (e *Engine) CreateRun(ctx context.Context, spec RunSpec) (Status, error) {
	if err := spec.validate(); err != nil {
		return Status{}, err
	}
	rec, _, err := e.placementAt(ctx, spec.Placement)
	if err != nil {
		return Status{}, err
	}
	if err := e.nameFree(ctx, spec.Name); err != nil {
		return Status{}, err
	}
	d, err := e.draft(ctx, rec, spec)
	if err != nil {
		return Status{}, err
	}
	return e.record(ctx, spec, d)
}

// record stores a draft and the run of it.
func (e *Engine) record(ctx context.Context, spec RunSpec, d *draft) (Status, error) {
	if spec.Plan != "" && spec.Plan != d.plan.Digest {
		return Status{}, &PlanChangedError{Run: spec.Name, Want: spec.Plan, Got: d.plan.Digest}
	}
	if d.frozen.fresh {
		taken, err := e.Capture(ctx, spec.Placement)
		if err != nil {
			return Status{}, err
		}
		if taken.Digest != d.frozen.Digest || taken.Index != d.frozen.Index {
			return Status{}, fmt.Errorf("run %s: the source changed while the run was planned: %w", spec.Name, backend.ErrConflict)
		}
	}
	run := stages.NewRun(d.plan, spec.Name, newUID(), spec.Starter, spec.Hold, e.now())
	rr := &runRecord{Format: recordFormat, Run: run, Whole: d.whole, Decision: d.decided()}
	if err := e.storeDraft(ctx, spec.Placement, d); err != nil {
		return Status{}, err
	}
	rev, err := e.store.Put(ctx, runKey(spec.Name), encodeRecord(rr), "")
	if err != nil {
		return Status{}, e.nameTaken(spec.Name, err)
	}
	if err := e.admit(ctx, rr, d); err != nil {
		_ = e.store.Delete(ctx, runKey(spec.Name), rev)
		return Status{}, err
	}
	return Status{Run: run, Plan: d.plan}, nil
}

// storeDraft writes the plan and the contents that clusters get.
func (e *Engine) storeDraft(ctx context.Context, name string, d *draft) error {
	for _, set := range d.variants {
		if err := e.contents.save(ctx, name, set, func(string) bool { return false }); err != nil {
			return err
		}
	}
	return e.writePlan(ctx, d.plan)
}

func (e *Engine) nameFree(ctx context.Context, name string) error {
	_, err := e.store.Get(ctx, runKey(name))
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

// admit puts a run into the line of its placement and enrols its clusters. It
// may be called again for the same run.
func (e *Engine) admit(ctx context.Context, rr *runRecord, d *draft) error {
	var old rosterHead
	entry := stages.Entry{UID: rr.Run.UID, Run: rr.Run.Name, Index: d.plan.Index}
	var verdict stages.Verdict
	rec, err := e.updatePlacement(ctx, rr.Run.Placement, func(rec *placementRecord) ([]stages.Event, error) {
		if rec.hasRun(rr.Run.UID) {
			return nil, errUnchanged
		}
		if len(rec.Garbage) > 0 && d.partial {
			return nil, errCollecting
		}
		if len(rec.Garbage) > 0 {
			if err := e.storeDraft(ctx, rr.Run.Placement, d); err != nil {
				return nil, err
			}
		}
		if !rr.Run.Hold {
			var err error
			if rec.Line, verdict, err = rec.Line.Enter(entry, rec.Placement.Admission); err != nil {
				return nil, err
			}
		}
		old = rec.Roster
		return e.enter(ctx, rec, rr, d)
	})
	if err != nil {
		return err
	}
	if old != rec.Roster {
		e.dropRoster(ctx, rr.Run.Placement, old)
	}
	return e.supersede(ctx, rr.Run.Name, rr.Run.UID, verdict.Supersedes)
}

// enter changes a placement's record for a run that is admitted.
func (e *Engine) enter(ctx context.Context, rec *placementRecord, rr *runRecord, d *draft) ([]stages.Event, error) {
	roster, err := e.readRoster(ctx, rec)
	if err != nil {
		return nil, err
	}
	if enrolled(roster, d.plan) {
		if rec.Roster, err = e.writeRoster(ctx, rec, roster); err != nil {
			return nil, err
		}
	}
	rec.Runs = append(rec.Runs, runEntry{Name: rr.Run.Name, UID: rr.Run.UID, Index: d.plan.Index, Plan: d.plan.Digest})
	if !slices.Contains(rec.InUse, d.plan.Index) {
		rec.InUse = append(rec.InUse, d.plan.Index)
	}
	events := rec.decide(rr.Decision)
	return append(events, stages.Event{
		Type: stages.RunCreated, Run: rr.Run.Name, Index: &d.plan.Index, Digest: d.plan.Digest,
		Count: len(d.plan.Clusters), By: rr.Run.Starter.Name,
	}), nil
}

// errCollecting puts the admission of a run off while contents that it may need
// are being deleted.
var errCollecting = errors.New("contents are being collected")

// decided is the decision of a draft as it is recorded.
func (d *draft) decided() *decisionRecord {
	return &decisionRecord{PolicyDigest: d.decision.PolicyDigest, Digest: d.decision.Digest, Clusters: len(d.decision.Clusters)}
}

// decide records a decision where it is new.
func (rec *placementRecord) decide(d *decisionRecord) []stages.Event {
	if d == nil || rec.Decision != nil && rec.Decision.Digest == d.Digest {
		return nil
	}
	now := *d
	if old := rec.Decision; old != nil {
		now.Index = old.Index
		if old.PolicyDigest != d.PolicyDigest {
			now.Index++
		}
	}
	rec.Decision = &now
	return []stages.Event{{Type: stages.DecisionTaken, Index: &now.Index, Digest: now.Digest, Count: now.Clusters}}
}

func (rec *placementRecord) hasRun(uid string) bool {
	return slices.ContainsFunc(rec.Runs, func(r runEntry) bool { return r.UID == uid })
}

// supersede asks the runs named in entries to make way.
func (e *Engine) supersede(ctx context.Context, by, uid string, entries []stages.Entry) error {
	for _, s := range entries {
		c := stages.Command{ID: "supersede-" + uid, Verb: stages.Supersede, At: e.now(), Message: by}
		if err := e.putCommand(ctx, s.UID, c); err != nil {
			return err
		}
	}
	return nil
}

// Status returns a run as it was last saved.
func (e *Engine) Status(ctx context.Context, name string) (Status, error) {
	rr, _, err := e.runAt(ctx, name)
	if err != nil {
		return Status{}, err
	}
	p, err := e.readPlan(ctx, rr.Run.Plan)
	if err != nil {
		return Status{}, err
	}
	pages := flightPages{store: e.store, uid: rr.Run.UID}
	for {
		rr.Run.Flights, err = pages.read(ctx, rr.Flights)
		if err == nil || !isNotFound(err) {
			break
		}
		seq := rr.Seq
		if rr, _, err = e.runAt(ctx, name); err != nil || rr.Seq == seq {
			break
		}
	}
	if err != nil {
		return Status{}, err
	}
	return Status{Run: rr.Run, Plan: p, Holder: rr.Lease.Holder, Epoch: rr.Lease.Epoch}, nil
}

// runAt returns the record of a run and its revision, without the clusters in
// flight.
func (e *Engine) runAt(ctx context.Context, name string) (*runRecord, backend.Revision, error) {
	rec, err := e.store.Get(ctx, runKey(name))
	if isNotFound(err) {
		return nil, "", &NotFoundError{Kind: "run", Name: name}
	}
	if err != nil {
		return nil, "", err
	}
	rr := new(runRecord)
	return rr, rec.Revision, decodeRecord(rec, rr)
}

// Runs returns the names of the runs of a placement, oldest first.
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

// Explain says what a cluster has come to in a run, and what it waits for.
func (e *Engine) Explain(ctx context.Context, run, cluster string) (stages.Explanation, error) {
	s, err := e.Status(ctx, run)
	if err != nil {
		return stages.Explanation{}, err
	}
	return stages.Explain(s.Plan, &s.Run, cluster)
}

// Requests returns the approval requests of a run that are open.
func (e *Engine) Requests(ctx context.Context, run string) ([]approval.Request, error) {
	s, err := e.Status(ctx, run)
	if err != nil {
		return nil, err
	}
	return stages.Requests(s.Plan, &s.Run), nil
}
