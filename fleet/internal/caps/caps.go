// Package caps stores the caps that runs of several placements share. A cap limits how many
// clusters may be in flight together.
package caps

import (
	"context"
	"errors"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
)

// Caps reads and writes caps. Its methods may be called concurrently.
type Caps struct {
	store backend.Store
	state *state.State
}

// New returns the caps of a store.
func New(store backend.Store, s *state.State) *Caps { return &Caps{store, s} }

// Decode decodes the record of a cap.
func Decode(rec backend.Record) (stages.Cap, error) {
	var r record.Cap
	if err := record.Decode(rec, &r); err != nil {
		return stages.Cap{}, err
	}
	if err := r.Cap.Validate(); err != nil {
		return stages.Cap{}, record.Damaged(rec.Key, err)
	}
	return r.Cap, record.CheckName(rec.Key, strings.TrimPrefix(rec.Key, record.CapKey("")), r.Cap.Name)
}

// Get returns a cap and the revision of its record.
func (cs *Caps) Get(ctx context.Context, name string) (stages.Cap, backend.Revision, error) {
	rec, err := cs.store.Get(ctx, record.CapKey(name))
	if state.IsNotFound(err) {
		return stages.Cap{}, "", errdef.NotFound(errdef.Cap, name, "declare it first")
	}
	if err != nil {
		return stages.Cap{}, "", err
	}
	c, err := Decode(rec)
	return c, rec.Revision, err
}

// Lacks reports whether a cap is missing or cannot be read.
func (cs *Caps) Lacks(ctx context.Context, name string) bool {
	_, _, err := cs.Get(ctx, name)
	return err != nil && state.IsLasting(err)
}

// Update changes a cap by compare-and-swap, and calls change again on a conflict. If the cap does
// not exist, Update starts from an empty cap if make is set, and otherwise fails. If change returns
// [state.ErrUnchanged], Update returns the cap without writing it.
func (cs *Caps) Update(ctx context.Context, name string, make bool, change func(stages.Cap) (stages.Cap, error)) (stages.Cap, error) {
	for {
		c, rev, err := cs.Get(ctx, name)
		if make && errdef.IsMissing(err, errdef.Cap) {
			c, err = stages.Cap{Name: name}, nil
		}
		if err != nil {
			return stages.Cap{}, err
		}
		next, err := change(c)
		if errors.Is(err, state.ErrUnchanged) {
			return c, nil
		}
		if err != nil {
			return stages.Cap{}, err
		}
		_, err = cs.store.Put(ctx, record.CapKey(name), record.Encode(&record.Cap{Format: record.Format, Cap: next}), rev)
		if !errors.Is(err, backend.ErrConflict) {
			return next, err
		}
	}
}

// Leave removes a run from a cap, unless an engine with a newer epoch drives it. It ignores a cap
// that cannot be read; Sweep removes the run once the cap can be read.
func (cs *Caps) Leave(ctx context.Context, name, uid string, epoch int64) error {
	_, err := cs.Update(ctx, name, false, func(c stages.Cap) (stages.Cap, error) {
		if s, ok := c.Share(uid); !ok || s.Epoch > epoch {
			return c, state.ErrUnchanged
		}
		return c.Leave(uid), nil
	})
	if state.IsLasting(err) {
		return nil
	}
	return err
}

// LeaveAll removes a deleted run from every cap. A cap that cannot be read does not prevent the
// deletion, because no run can use it.
func (cs *Caps) LeaveAll(ctx context.Context, uid string) error {
	for rec, err := range cs.store.List(ctx, record.CapKey("")) {
		if err != nil {
			return err
		}
		c, unreadable := Decode(rec)
		if s, ok := c.Share(uid); ok && unreadable == nil {
			if err := cs.Leave(ctx, c.Name, uid, s.Epoch); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sweep removes runs from a cap that have ended or were deleted, and whose engine died before it
// removed them. It reads the cap before the runs: if a run is started again in between, its claim
// changes the cap, and the conditional write of Sweep fails.
func (cs *Caps) Sweep(ctx context.Context, name string) error {
	_, err := cs.Update(ctx, name, false, func(c stages.Cap) (stages.Cap, error) {
		next := c
		for _, s := range c.Shares {
			gone, err := cs.isOver(ctx, s)
			if err != nil {
				return c, err
			}
			if gone {
				next = next.Leave(s.UID)
			}
		}
		if len(next.Shares) == len(c.Shares) {
			return c, state.ErrUnchanged
		}
		return next, nil
	})
	return err
}

// isOver reports whether the run of a share was deleted, or has ended and no engine has its lease.
// A run that cannot be read is not over.
func (cs *Caps) isOver(ctx context.Context, s stages.Share) (bool, error) {
	rr, _, err := cs.state.Run(ctx, s.Run)
	switch {
	case state.IsNotFound(err):
		return true, nil
	case err == nil:
		return rr.Run.UID != s.UID || rr.Run.IsEnded() && rr.Lease.Holder == "", nil
	case state.IsLasting(err):
		return false, nil
	default:
		return false, err
	}
}

// Explain sets the message of each cap that a run waits for: the runs that hold shares of it.
func (cs *Caps) Explain(ctx context.Context, waiting []stages.Awaited) error {
	for i := range waiting {
		a := &waiting[i]
		if a.Kind != stages.AwaitCap {
			continue
		}
		c, _, err := cs.Get(ctx, a.Name)
		switch {
		case state.IsNotFound(err):
			a.Message = "there is no cap " + a.Name + ": declare it first"
		case state.IsLasting(err):
			a.Message = "cap " + a.Name + " cannot be read: " + guard.ReasonOf(err)
		case err != nil:
			return err
		default:
			a.Message = "waits for cap " + a.Name + ", in use " + c.InUse()
		}
	}
	return nil
}
