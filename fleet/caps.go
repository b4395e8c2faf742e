package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/caps"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
)

// SetCap declares a cap: how many clusters may be updated at the same time, over all runs whose
// strategies name the cap, of all placements. If limit is 0, no more clusters start. The name is a
// DNS subdomain. A lower limit stops no update: a run that has too many slots releases them as its
// clusters end. After a change, waiting runs continue at once.
func (e *Engine) SetCap(ctx context.Context, name string, limit int) error {
	if err := (stages.Cap{Name: name, Limit: limit}).Validate(); err != nil {
		return fmt.Errorf("%w: %w", backend.ErrPermanent, err)
	}
	_, err := e.caps.Update(ctx, name, true, func(c stages.Cap) (stages.Cap, error) { return c.Resize(limit), nil })
	return err
}

// DeleteCap deletes a cap. It refuses while a run holds slots of the cap or waits for it. A run
// that names the cap later waits until the cap is declared again.
func (e *Engine) DeleteCap(ctx context.Context, name string) error {
	if err := e.caps.Sweep(ctx, name); err != nil {
		return err
	}
	for {
		c, rev, err := e.caps.Get(ctx, name)
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
		c, err := caps.Decode(rec)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}
