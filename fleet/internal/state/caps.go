package state

import (
	"context"
	"errors"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
)

func DecodeCap(rec backend.Record) (stages.Cap, error) {
	var r record.Cap
	if err := record.Decode(rec, &r); err != nil {
		return stages.Cap{}, err
	}
	if err := r.Cap.Validate(); err != nil {
		return stages.Cap{}, record.Damaged(rec.Key, err)
	}
	return r.Cap, record.CheckName(rec.Key, strings.TrimPrefix(rec.Key, record.CapKey("")), r.Cap.Name)
}

// CapAt returns a cap and the revision of its record.
func (st *State) CapAt(ctx context.Context, name string) (stages.Cap, backend.Revision, error) {
	rec, err := st.store.Get(ctx, record.CapKey(name))
	if IsNotFound(err) {
		return stages.Cap{}, "", &NotFoundError{Kind: "cap", Name: name, Hint: "declare it with SetCap"}
	}
	if err != nil {
		return stages.Cap{}, "", err
	}
	c, err := DecodeCap(rec)
	return c, rec.Revision, err
}

// LacksCap reports whether there is no cap of a name, or none that can be read.
func (st *State) LacksCap(ctx context.Context, name string) bool {
	_, _, err := st.CapAt(ctx, name)
	return err != nil && IsLasting(err)
}

// UpdateCap changes a cap by compare-and-swap, and calls change again on a
// conflict. Where it is to be made, one that does not exist is new; otherwise that
// is an error. After errUnchanged it returns the cap as it was read.
func (st *State) UpdateCap(ctx context.Context, name string, make bool, change func(stages.Cap) (stages.Cap, error)) (stages.Cap, error) {
	for {
		c, rev, err := st.CapAt(ctx, name)
		if missing := (*NotFoundError)(nil); make && errors.As(err, &missing) {
			c, err = stages.Cap{Name: name}, nil
		}
		if err != nil {
			return stages.Cap{}, err
		}
		next, err := change(c)
		if errors.Is(err, ErrUnchanged) {
			return c, nil
		}
		if err != nil {
			return stages.Cap{}, err
		}
		_, err = st.store.Put(ctx, record.CapKey(name), record.Encode(&record.Cap{Format: record.Format, Cap: next}), rev)
		if !errors.Is(err, backend.ErrConflict) {
			return next, err
		}
	}
}

// LeaveCap removes a run from a cap, unless an engine with a newer epoch drives it. A cap that cannot be read
// is left as it is: sweepCap removes the run once it can be.
func (st *State) LeaveCap(ctx context.Context, name, uid string, epoch int64) error {
	_, err := st.UpdateCap(ctx, name, false, func(c stages.Cap) (stages.Cap, error) {
		if s, ok := c.Share(uid); !ok || s.Epoch > epoch {
			return c, ErrUnchanged
		}
		return c.Leave(uid), nil
	})
	if IsLasting(err) {
		return nil
	}
	return err
}

// leaveCaps removes a run that was deleted from every cap. A cap that cannot be read does not prevent the
// deletion: no run can use it.
func (st *State) leaveCaps(ctx context.Context, uid string) error {
	for rec, err := range st.store.List(ctx, record.CapKey("")) {
		if err != nil {
			return err
		}
		c, unreadable := DecodeCap(rec)
		if s, ok := c.Share(uid); ok && unreadable == nil {
			if err := st.LeaveCap(ctx, c.Name, uid, s.Epoch); err != nil {
				return err
			}
		}
	}
	return nil
}

// SweepCap removes runs from a cap that have ended or were deleted and whose engine died before it did so.
// The cap is read before the runs are: a run that is started again in between makes a claim, and then the
// conditional write of the cap fails.
func (st *State) SweepCap(ctx context.Context, name string) error {
	_, err := st.UpdateCap(ctx, name, false, func(c stages.Cap) (stages.Cap, error) {
		next := c
		for _, s := range c.Shares {
			gone, err := st.isOver(ctx, s)
			if err != nil {
				return c, err
			}
			if gone {
				next = next.Leave(s.UID)
			}
		}
		if len(next.Shares) == len(c.Shares) {
			return c, ErrUnchanged
		}
		return next, nil
	})
	return err
}

// isOver reports whether the run of a share was deleted, or has ended and no engine has
// it. A run that cannot be read is not over.
func (st *State) isOver(ctx context.Context, s stages.Share) (bool, error) {
	rr, _, err := st.Run(ctx, s.Run)
	switch {
	case IsNotFound(err):
		return true, nil
	case err == nil:
		return rr.Run.UID != s.UID || rr.Run.IsEnded() && rr.Lease.Holder == "", nil
	case IsLasting(err):
		return false, nil
	default:
		return false, err
	}
}

// TellCaps sets the message of each cap that a run waits for: the runs that hold it.
func (st *State) TellCaps(ctx context.Context, waiting []stages.Awaited) error {
	for i := range waiting {
		a := &waiting[i]
		if a.Kind != stages.AwaitCap {
			continue
		}
		c, _, err := st.CapAt(ctx, a.Name)
		switch {
		case IsNotFound(err):
			a.Message = "there is no cap " + a.Name + ": declare it with SetCap"
		case IsLasting(err):
			a.Message = "cap " + a.Name + " cannot be read: " + ReasonOf(err)
		case err != nil:
			return err
		default:
			a.Message = "waits for cap " + a.Name + ", in use " + c.InUse()
		}
	}
	return nil
}
