package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
)

// markAll marks the objects that the leader whose intent is taken over may be about to write. An
// object whose mark the member refuses delays nothing: see work.apply. An object whose mark fails
// does, until that counts as a refusal, because the ledger must not be written before every object
// is marked that can be.
func (w *work) markAll(ctx context.Context) error {
	if !w.takeover {
		return nil
	}
	targets := w.targets
	if targets == nil { // the revision cannot be read
		targets = targetsOf(nil, w.ledger.ledger)
		if err := w.readAll(ctx, targets); err != nil && !errors.Is(err, backend.ErrPermanent) {
			return err
		}
	}
	if err := w.confirm(ctx); err != nil {
		return err
	}
	wait := false
	for _, t := range targets {
		switch err := w.markOrFail(ctx, t); {
		case err != nil:
			return err
		case t.failed.err == nil:
			w.served = w.served || t.live != nil && markOn(t.live, w.a.Placement) == w.mine()
		case w.hopeless(t):
			t.unmarked = fmt.Errorf("its mark was refused: %w", t.exhausted())
		case t.listed() || t.isSuspect():
			wait = true
		}
	}
	if !wait {
		return nil
	}
	return cmp.Or(w.reckon(), w.stumbled[0].failed.err)
}

// markOrFail marks one object. It returns only errors that concern other objects, too.
func (w *work) markOrFail(ctx context.Context, t *target) error {
	if t.unread() {
		return nil
	}
	err := w.mark(ctx, t)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, backend.ErrPermanent):
		t.unmarked = fmt.Errorf("its mark was refused: %w", err)
		return nil
	}
	if err := w.ofOne(ctx, err); err != nil {
		return err
	}
	w.failed(t, failedCall{err: err})
	return nil
}

// mark marks one object. Its precondition is the state that was read before the ledger was
// confirmed: at that time, no newer leader had released the object.
func (s *session) mark(ctx context.Context, t *target) error {
	for range rounds {
		if !s.exposed(t) {
			return nil
		}
		if err := s.recheck(ctx); err != nil {
			return err
		}
		live, err := s.write(ctx, s.mine().on(t.id, s.a.Placement), backend.ApplyOptions{Manager: marker(s.a.Placement), Precondition: t.precondition()})
		if err == nil {
			t.live = live
			return s.kept(t)
		}
		if !errors.Is(err, backend.ErrConflict) && !errors.Is(err, backend.ErrNotFound) {
			return err
		}
		if err := s.readTarget(ctx, t); err != nil {
			return err
		}
		if err := s.confirm(ctx); err != nil {
			return err
		}
	}
	return s.busy(t)
}
