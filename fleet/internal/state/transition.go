package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// Transition is an input for the state machine of a placement, with the functions that only the
// caller can provide. All functions are called again after a conflict of the save.
type Transition struct {
	// Input returns the input for the record that was read.
	Input func(rec *record.Placement) (lifecycle.Input, error)
	// Store stores the contents and the plan of the input's run again, for the GCGeneration of the
	// record. The input is made again after it.
	Store func(ctx context.Context, rec *record.Placement) error
	// Plan returns an error if the run that rolls back the input's run cannot be planned.
	Plan func(ctx context.Context, rec *record.Placement) error
	// Picked returns the clusters of the input's selection.
	Picked func(ctx context.Context) ([]string, error)
	// LastRecord is the last record of the input's run, if that was deleted.
	LastRecord *record.Run
	// Also changes parts of the record besides the state.
	Also func(rec *record.Placement)
}

// Always returns an Input function for an input that does not depend on the record.
func Always(in lifecycle.Input) func(*record.Placement) (lifecycle.Input, error) {
	return func(*record.Placement) (lifecycle.Input, error) { return in, nil }
}

// Advance applies an input to a placement and carries out the effects after the save. It returns
// the record that it wrote, or read if nothing changed.
func (st *State) Advance(ctx context.Context, name string, t *Transition) (*record.Placement, lifecycle.Outcome, error) {
	rec, out, err := st.Decide(ctx, name, t)
	if err != nil {
		return nil, out, err
	}
	return rec, out, st.CarryOut(ctx, rec, out.After)
}

// Decide applies an input to a placement: it reads the facts that the decision needs, and writes
// the next state with the events in one compare-and-swap. The caller must carry out the effects
// after the save.
//
// It begins with the record that this engine saw last. This is safe: a write is refused if the
// record is old, and if there is nothing to write, Decide reads the record and repeats the decision
// if the record has changed.
func (st *State) Decide(ctx context.Context, name string, t *Transition) (*record.Placement, lifecycle.Outcome, error) {
	seen, known := st.seen.Get(name)
	rec, rev := seen.rec, seen.rev
	for {
		if rec == nil {
			var err error
			if rec, rev, err = st.Placement(ctx, name); err != nil {
				return nil, lifecycle.Outcome{}, err
			}
		}
		out, err := st.Outcome(ctx, rec, t)
		switch {
		case err == nil && out.Changed:
			next := *rec
			next.State = out.State
			if t.Also != nil {
				t.Also(&next)
			}
			err = st.commitOutcome(ctx, &next, rev, t, &out)
			if err == nil {
				return &next, out, nil
			}
			if !errors.Is(err, backend.ErrConflict) && !st.IsStale(ctx, name, rev, err) {
				return nil, out, err
			}
		case err == nil && known:
			now, current, err := st.Placement(ctx, name)
			switch {
			case err != nil:
				return nil, lifecycle.Outcome{}, err
			case current == rev:
				return rec, out, nil
			}
			rec, rev, known = now, current, false
			continue
		case known:
		case err == nil:
			return rec, out, nil
		case !st.IsStale(ctx, name, rev, err):
			return nil, out, err
		}
		rec, known = nil, false
	}
}

// Outcome returns the outcome of an input after it has gathered the facts that the input needs.
func (st *State) Outcome(ctx context.Context, rec *record.Placement, t *Transition) (lifecycle.Outcome, error) {
	in, err := t.Input(rec)
	if err != nil {
		return lifecycle.Outcome{}, err
	}
	f := facts{state: st, rec: rec, lastRecord: t.LastRecord, records: map[string]*record.Run{}, Facts: lifecycle.Facts{
		Spec: rec.Spec(), Now: stages.At(st.Now()), ID: record.NewUID(), Runs: map[string]lifecycle.RunFact{},
	}}
	out, err := lifecycle.Advance(rec.State, in, f.Facts)
	for err == nil && !out.Need.IsZero() {
		switch {
		case out.Need.Contents:
			if err = t.Store(ctx, rec); err == nil {
				in, err = t.Input(rec)
			}
		case out.Need.Rollback:
			next := *rec
			next.State, f.Planned = out.State, true
			err = t.Plan(ctx, &next)
		default:
			err = f.read(ctx, &out.Need)
		}
		if err != nil {
			return out, err
		}
		out, err = lifecycle.Advance(rec.State, in, f.Facts)
	}
	if errors.Is(err, lifecycle.ErrBindingsLost) {
		err = f.lost
	}
	return out, HostError(err)
}

// commitOutcome writes the next state of a placement with all data that it names.
func (st *State) commitOutcome(ctx context.Context, rec *record.Placement, rev backend.Revision, t *Transition, out *lifecycle.Outcome) error {
	var c record.Commit
	for _, effect := range out.Before {
		switch effect := effect.(type) {
		case lifecycle.StoreBindings:
			record.StoreBindings(&c, rec, effect)
		case lifecycle.StoreSelection:
			clusters, err := t.Picked(ctx)
			if err == nil {
				err = st.Selections.Write(ctx, rec.Placement.Name, &effect.Selection, clusters)
			}
			if err != nil {
				return err
			}
		}
	}
	rec.DropInline()
	return st.CommitPlacement(ctx, &c, rec, rev, st.stamped(rec.Placement.Name, out.Events))
}

// CarryOut carries out the effects of a saved state. It may be repeated.
func (st *State) CarryOut(ctx context.Context, rec *record.Placement, effects []lifecycle.Effect) error {
	collect := rec.Journal.Kept() > 2*rec.EventsKept()
	for _, effect := range effects {
		switch effect := effect.(type) {
		case lifecycle.Supersede:
			c := stages.Command{ID: record.OwnID + "supersede-" + effect.By.UID, Verb: stages.Supersede, At: st.Now(), Message: effect.By.Run}
			if err := record.PutCommand(ctx, st.store, effect.Run.UID, c); err != nil && !errors.Is(err, backend.ErrConflict) {
				return err
			}
		case lifecycle.DropBindings:
			record.DropBindings(ctx, st.store, rec)
		case lifecycle.Collect:
			collect = true
		}
	}
	if collect {
		collector{st}.collect(ctx, rec.Placement.Name)
	}
	return nil
}

// facts reads the facts that an input needs for its decision on a record.
type facts struct {
	lifecycle.Facts
	state      *State
	rec        *record.Placement
	lastRecord *record.Run
	// records are the run records that were read, by UID.
	records map[string]*record.Run
	// lost is the error that makes the bindings permanently unreadable.
	lost error
}

func (f *facts) read(ctx context.Context, need *lifecycle.Need) error {
	for _, r := range need.Runs {
		if err := f.readRun(ctx, r); err != nil {
			return err
		}
	}
	for _, r := range need.Results {
		if err := f.readResult(ctx, r); err != nil {
			return err
		}
	}
	if need.Bindings {
		if err := f.readBindings(ctx); err != nil {
			return err
		}
	}
	if need.Inventory {
		inventory, err := f.state.World.Inventory(ctx)
		f.NoInventory, f.Inventory = err != nil, names(inventory)
	}
	return nil
}

func names(inventory map[string]placement.Cluster) map[string]bool {
	out := make(map[string]bool, len(inventory))
	for name := range inventory {
		out[name] = true
	}
	return out
}

func (f *facts) readBindings(ctx context.Context) (err error) {
	f.Bindings, err = f.state.BindingsOf(ctx, f.rec)
	if errors.Is(err, backend.ErrPermanent) {
		f.BindingsLost, f.lost = true, err
		return nil
	}
	return err
}

// readRun reads the record of a run.
func (f *facts) readRun(ctx context.Context, r lifecycle.Entry) error {
	rr, _, err := f.state.Run(ctx, r.Run)
	fact := lifecycle.RunFact{Found: lifecycle.Present}
	switch {
	case IsNotFound(err) || err == nil && rr.Run.UID != r.UID:
		fact.Found = lifecycle.Absent
	case IsLasting(err):
		fact.Found = lifecycle.Unreadable
	case err != nil:
		return err
	default:
		fact.Ended, fact.Attempt, fact.Epoch = rr.Run.IsEnded(), rr.Run.Attempt, rr.Lease.Epoch
		f.records[r.UID] = rr
	}
	f.Runs[r.UID] = fact
	return nil
}

// readResult derives the result of a run from its record, or from its last record if it was
// deleted. Without a record, it derives the result from the plan, as if the run had begun with
// every cluster.
func (f *facts) readResult(ctx context.Context, r lifecycle.Entry) error {
	fact, rr := f.Runs[r.UID], f.records[r.UID]
	if rr == nil && f.lastRecord != nil && f.lastRecord.Run.UID == r.UID {
		rr = f.lastRecord
	}
	result, err := f.resultOf(ctx, r, rr)
	switch {
	case err == nil:
		fact.Result = result
	case IsLasting(err):
		fact.Lost = true
	default:
		return err
	}
	f.Runs[r.UID] = fact
	return nil
}

func (f *facts) resultOf(ctx context.Context, r lifecycle.Entry, rr *record.Run) (*lifecycle.Result, error) {
	known, _ := f.rec.Run(r.UID)
	digest := known.Plan
	if rr != nil {
		digest = rr.Run.Plan
	}
	p, err := f.state.Plans.Read(ctx, digest)
	if err != nil {
		return nil, err
	}
	if rr == nil {
		result := lifecycle.ResultOf(p, nil)
		return &result, nil
	}
	whole, err := f.state.withInFlight(ctx, rr)
	if err == nil {
		err = whole.Check(p)
	}
	if rr == f.lastRecord && IsLasting(err) {
		result := lifecycle.ResultOf(p, nil)
		return &result, nil
	}
	if err != nil {
		return nil, err
	}
	return f.state.ResultOf(whole, p), nil
}

// ResultOf returns the result of a run. All pages of its record must have been read.
func (st *State) ResultOf(rr *record.Run, p *stages.Plan) *lifecycle.Result {
	r := lifecycle.ResultOf(p, &rr.Run)
	r.Whole, r.Final = rr.Whole, rr.Final != "" || rr.Apply.ReportsOnly()
	r.RollbackName = st.RollbackNames.Of(rr.Run.Name, rr.Title, 1)
	if rr.Selection != nil {
		r.Policy = rr.Selection.Index + 1
	}
	return &r
}

// HostError wraps an error of the state machine with the matching error kind of package backend.
func HostError(err error) error {
	if deleting := (*lifecycle.DeletingError)(nil); errors.As(err, &deleting) {
		return errdef.Deleting(deleting.Placement, deleting.Since.Time())
	}
	for _, kind := range []struct{ is, means error }{
		{lifecycle.ErrStale, backend.ErrConflict},
		{lifecycle.ErrOutdated, fmt.Errorf("%w: %w", ErrOutdated, backend.ErrConflict)},
		{lifecycle.ErrNotFound, backend.ErrNotFound},
		{lifecycle.ErrFenced, backend.ErrFenced},
		{lifecycle.ErrRefused, backend.ErrPermanent},
		{lifecycle.ErrIncomplete, fmt.Errorf("%w: %w", ErrIncomplete, backend.ErrPermanent)},
		{lifecycle.ErrDeleted, errdef.ErrDeleting},
	} {
		if errors.Is(err, kind.is) {
			return &hostError{err.Error(), kind.means}
		}
	}
	return err
}

// hostError has the text of an error of package lifecycle. It matches an error of package backend,
// whose text it does not contain.
type hostError struct {
	text string
	kind error
}

func (e *hostError) Error() string { return e.text }

// Unwrap returns the kind.
func (e *hostError) Unwrap() error { return e.kind }

// BindingsOf returns the current bindings of a placement.
func (st *State) BindingsOf(ctx context.Context, rec *record.Placement) (lifecycle.Bindings, error) {
	return st.Bindings(ctx, rec, rec.Bindings)
}

// Bindings returns the bindings of a placement at a generation.
func (st *State) Bindings(ctx context.Context, rec *record.Placement, at lifecycle.Generation) (lifecycle.Bindings, error) {
	return record.ReadBindings(ctx, st.store, rec, at)
}
