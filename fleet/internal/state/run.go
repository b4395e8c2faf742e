package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// RunStatus is a run as it was last saved, with its plan. fleet.Status shows it to the host.
type RunStatus struct {
	Run          step.Run
	Plan         *stages.Plan
	Owner, Title string
	Selection    int
	Apply        apply.Strategy
	// AllowCoOwnership is the placement's setting when the run was created.
	AllowCoOwnership bool
	Holder           string
	Epoch            int64
}

// NameFree returns an error if a run with this name exists.
func (st *State) NameFree(ctx context.Context, name string) error {
	_, err := st.store.Get(ctx, record.RunKey(name))
	if IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = backend.ErrConflict
	}
	return st.NameTaken(name, err)
}

// NameTaken returns the error of a write that creates a run: a conflict means that the name is
// taken.
func (st *State) NameTaken(name string, err error) error {
	if errors.Is(err, backend.ErrConflict) {
		return errdef.Exists(name)
	}
	return err
}

// Status returns a run as it was last saved.
func (st *State) Status(ctx context.Context, name string) (RunStatus, error) {
	rr, _, err := st.Run(ctx, name)
	if err != nil {
		return RunStatus{}, err
	}
	return st.StatusOf(ctx, rr)
}

// StatusOf returns the status of the run in a record.
func (st *State) StatusOf(ctx context.Context, rr *record.Run) (RunStatus, error) {
	p, err := st.Plans.Read(ctx, rr.Run.Plan)
	if err != nil {
		return RunStatus{}, fmt.Errorf("run %s: its plan: %w", rr.Run.Name, err)
	}
	if rr, err = st.withInFlight(ctx, rr); err == nil {
		err = rr.Check(p)
	}
	if err != nil {
		return RunStatus{}, err
	}
	return Recorded(rr, p), nil
}

// Recorded returns the status of the run in a record with all its pages, and its plan.
func Recorded(rr *record.Run, p *stages.Plan) RunStatus {
	selection := -1
	if rr.Selection != nil {
		selection = rr.Selection.Index
	}
	return RunStatus{
		Run: rr.Run, Plan: p, Owner: rr.Owner, Title: rr.Title, Selection: selection, Apply: rr.Apply, AllowCoOwnership: rr.AllowCoOwnership,
		Holder: rr.Lease.Holder, Epoch: rr.Lease.Epoch,
	}
}

// withInFlight reads the clusters in flight and the long lists of a run. If a page is gone because
// a newer record no longer names it, it returns the newer record.
func (st *State) withInFlight(ctx context.Context, rr *record.Run) (*record.Run, error) {
	pages := record.InFlightPages{Store: st.store, UID: rr.Run.UID}
	for {
		err := pages.Read(ctx, rr)
		if err == nil {
			return rr, nil
		}
		if !IsNotFound(err) {
			return nil, fmt.Errorf("run %s: %w", rr.Run.Name, err)
		}
		now, _, rerr := st.Run(ctx, rr.Run.Name)
		if rerr != nil {
			return nil, rerr
		}
		if now.Seq == rr.Seq {
			return nil, record.Damaged(record.RunKey(rr.Run.Name), errors.New(err.Error()))
		}
		rr = now
	}
}

// Run returns the record of a run and its revision, without the clusters in flight that are in
// pages. It returns the revision of an unreadable record too.
func (st *State) Run(ctx context.Context, name string) (*record.Run, backend.Revision, error) {
	missing := errdef.NotFound(errdef.Run, name, "")
	if len(problems.Name(nil, name)) > 0 {
		return nil, "", missing
	}
	rec, err := st.store.Get(ctx, record.RunKey(name))
	if IsNotFound(err) {
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
