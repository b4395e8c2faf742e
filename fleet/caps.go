package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
)

// SetCap declares how many clusters may be in flight together of all runs whose
// strategies name the cap, over all placements; 0 lets nothing more start. The
// name is a DNS subdomain. A limit that is lowered ends nothing: runs that hold
// more give back as their clusters end. Runs that wait go on at once.
func (e *Engine) SetCap(ctx context.Context, name string, limit int) error {
	if err := (stages.Cap{Name: name, Limit: limit}).Validate(); err != nil {
		return fmt.Errorf("%w: %w", backend.ErrPermanent, err)
	}
	_, err := e.updateCap(ctx, name, true, func(c stages.Cap) (stages.Cap, error) { return c.Resize(limit), nil })
	return err
}

// DeleteCap deletes a cap. It refuses while a run holds some of it or waits for
// it; one that names it later waits until it is there again.
func (e *Engine) DeleteCap(ctx context.Context, name string) error {
	if err := e.sweepCap(ctx, name); err != nil {
		return err
	}
	for {
		c, rev, err := e.capAt(ctx, name)
		if err != nil {
			return err
		}
		if len(c.Shares) > 0 {
			return fmt.Errorf("cap %s is in use (%s), and run %s is one of %d that it is for: delete it when they have ended: %w",
				name, c.InUse(), c.Shares[0].Run, len(c.Shares), backend.ErrPermanent)
		}
		if err = e.store.Delete(ctx, record.CapKey(name), rev); !errors.Is(err, backend.ErrConflict) {
			return err
		}
	}
}

// Caps returns all caps, ascending by name, each with the shares that runs hold.
func (e *Engine) Caps(ctx context.Context) (out []stages.Cap, err error) {
	for rec, err := range e.store.List(ctx, record.CapKey("")) {
		if err != nil {
			return nil, err
		}
		c, err := decodeCap(rec)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func decodeCap(rec backend.Record) (stages.Cap, error) {
	var r record.Cap
	if err := record.Decode(rec, &r); err != nil {
		return stages.Cap{}, err
	}
	if err := r.Cap.Validate(); err != nil {
		return stages.Cap{}, record.Damaged(rec.Key, err)
	}
	return r.Cap, record.CheckName(rec.Key, strings.TrimPrefix(rec.Key, record.CapKey("")), r.Cap.Name)
}

// capAt returns a cap and the revision of its record.
func (e *Engine) capAt(ctx context.Context, name string) (stages.Cap, backend.Revision, error) {
	rec, err := e.store.Get(ctx, record.CapKey(name))
	if isNotFound(err) {
		return stages.Cap{}, "", &NotFoundError{Kind: "cap", Name: name, Hint: "declare it with SetCap"}
	}
	if err != nil {
		return stages.Cap{}, "", err
	}
	c, err := decodeCap(rec)
	return c, rec.Revision, err
}

// lacksCap reports whether there is no cap of a name, or none that can be read.
func (e *Engine) lacksCap(ctx context.Context, name string) bool {
	_, _, err := e.capAt(ctx, name)
	return err != nil && isLasting(err)
}

// updateCap changes a cap by compare-and-swap, and calls change again on a
// conflict. Where it is to be made, one that does not exist is new; otherwise that
// is an error. After errUnchanged it returns the cap as it was read.
func (e *Engine) updateCap(ctx context.Context, name string, make bool, change func(stages.Cap) (stages.Cap, error)) (stages.Cap, error) {
	for {
		c, rev, err := e.capAt(ctx, name)
		if missing := (*NotFoundError)(nil); make && errors.As(err, &missing) {
			c, err = stages.Cap{Name: name}, nil
		}
		if err != nil {
			return stages.Cap{}, err
		}
		next, err := change(c)
		if errors.Is(err, errUnchanged) {
			return c, nil
		}
		if err != nil {
			return stages.Cap{}, err
		}
		_, err = e.store.Put(ctx, record.CapKey(name), record.Encode(&record.Cap{Format: record.Format, Cap: next}), rev)
		if !errors.Is(err, backend.ErrConflict) {
			return next, err
		}
	}
}

// leaveCap removes a run from a cap, unless an engine with a newer epoch drives it. A cap that cannot be read
// is left as it is: sweepCap removes the run once it can be.
func (e *Engine) leaveCap(ctx context.Context, name, uid string, epoch int64) error {
	_, err := e.updateCap(ctx, name, false, func(c stages.Cap) (stages.Cap, error) {
		if s, ok := c.Share(uid); !ok || s.Epoch > epoch {
			return c, errUnchanged
		}
		return c.Leave(uid), nil
	})
	if isLasting(err) {
		return nil
	}
	return err
}

// leaveCaps removes a run that was deleted from every cap. A cap that cannot be read does not prevent the
// deletion: no run can use it.
func (e *Engine) leaveCaps(ctx context.Context, uid string) error {
	for rec, err := range e.store.List(ctx, record.CapKey("")) {
		if err != nil {
			return err
		}
		c, unreadable := decodeCap(rec)
		if s, ok := c.Share(uid); ok && unreadable == nil {
			if err := e.leaveCap(ctx, c.Name, uid, s.Epoch); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweepCap removes runs from a cap that have ended or were deleted and whose engine died before it did so.
// The cap is read before the runs are: a run that is started again in between makes a claim, and then the
// conditional write of the cap fails.
func (e *Engine) sweepCap(ctx context.Context, name string) error {
	_, err := e.updateCap(ctx, name, false, func(c stages.Cap) (stages.Cap, error) {
		next := c
		for _, s := range c.Shares {
			gone, err := e.isOver(ctx, s)
			if err != nil {
				return c, err
			}
			if gone {
				next = next.Leave(s.UID)
			}
		}
		if len(next.Shares) == len(c.Shares) {
			return c, errUnchanged
		}
		return next, nil
	})
	return err
}

// isOver reports whether the run of a share was deleted, or has ended and no engine has
// it. A run that cannot be read is not over.
func (e *Engine) isOver(ctx context.Context, s stages.Share) (bool, error) {
	rr, _, err := e.runAt(ctx, s.Run)
	switch {
	case isNotFound(err):
		return true, nil
	case err == nil:
		return rr.Run.UID != s.UID || rr.Run.IsEnded() && rr.Lease.Holder == "", nil
	case isLasting(err):
		return false, nil
	default:
		return false, err
	}
}

// tellCaps sets the message of each cap that a run waits for: the runs that hold it.
func (e *Engine) tellCaps(ctx context.Context, waiting []stages.Awaited) error {
	for i := range waiting {
		a := &waiting[i]
		if a.Kind != stages.AwaitCap {
			continue
		}
		c, _, err := e.capAt(ctx, a.Name)
		switch {
		case isNotFound(err):
			a.Message = "there is no cap " + a.Name + ": declare it with SetCap"
		case isLasting(err):
			a.Message = "cap " + a.Name + " cannot be read: " + reasonOf(err)
		case err != nil:
			return err
		default:
			a.Message = "waits for cap " + a.Name + ", in use " + c.InUse()
		}
	}
	return nil
}
