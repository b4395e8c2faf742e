package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// pruneAll gives up what is not to be there, last applied first, and what may be
// needed by objects of later phases only once these are gone. Nothing is given up
// before everything that is to be there is. An object whose deletion fails, or is
// refused, holds back what it may need, and nothing else.
func (w *work) pruneAll(ctx context.Context) error {
	if len(w.problems) > 0 || w.waiting != "" {
		return nil
	}
	phase := snapshot.Admission
	var here, later *target // deleted and not gone yet, in this phase and in later ones
	for _, t := range slices.Backward(w.targets) {
		if t.phase < phase {
			phase, later = t.phase, cmp.Or(later, here)
		}
		if t.want != nil || w.stays(t) {
			continue
		}
		if later != nil && t.live != nil && !isTerminating(t.live) {
			w.waiting = cmp.Or(w.waiting, fmt.Sprintf("%s is being deleted; what it may need goes once it is gone", later.id))
			return nil
		}
		left, err := w.leaves(ctx, t)
		if err != nil {
			return err
		}
		if left {
			here = t
		} else {
			w.served = true
		}
	}
	return nil
}

// leaves gives up one object and reports whether it is still there all the same:
// because the member takes its time, fails or refuses.
func (w *work) leaves(ctx context.Context, t *target) (bool, error) {
	if !t.unread {
		err := w.prune(ctx, t)
		switch {
		case err == nil:
			return t.lingers(w.a.Placement), nil
		case errors.Is(err, backend.ErrPermanent):
			w.refused(t, fmt.Errorf("%s: %w", t.id, err))
			return true, nil
		}
		if err := w.ofOne(ctx, err); err != nil {
			return true, err
		}
		w.failed(t, err)
	}
	w.stumble(t)
	return true, nil
}

// prune gives up one object.
func (w *work) prune(ctx context.Context, t *target) error {
	if t.live == nil && w.takeover {
		// The older leader may have created it since.
		if err := w.lookAgain(ctx, t); err != nil {
			return err
		}
	}
	for range rounds {
		if t.live == nil || isTerminating(t.live) || t.doubted && !carries(t.live, w.a.Placement) {
			return nil
		}
		err := w.giveUp(ctx, t)
		if errors.Is(err, backend.ErrNotFound) {
			t.live, err = nil, nil
		}
		if err == nil || !errors.Is(err, backend.ErrConflict) {
			return err
		}
		if err := w.lookAgain(ctx, t); err != nil {
			return err
		}
	}
	return w.busy(t)
}

// giveUp deletes what the placement created, by the ledger and by the object, and
// releases everything else: what it adopted, what another placement applies too, and
// what only the ledger says it created.
func (w *work) giveUp(ctx context.Context, t *target) error {
	if w.a.Orphan || t.adopted || len(otherPlacements(t.live, w.a.Placement)) > 0 {
		return w.release(ctx, t)
	}
	// The resourceVersion is demanded too: the uid stays when a newer leader
	// wants the object again.
	err := w.m.delete(ctx, t.id, backend.DeleteOptions{Manager: manager(w.a.Placement), Precondition: t.asLooked(), Fence: w.asLed()})
	if err != nil {
		return err
	}
	if isNamespace(t.id) {
		t.live = nil // one that is terminating counts as removed
		return nil
	}
	gone := uidOf(t.live)
	live, err := w.m.get(ctx, t.id)
	if err != nil {
		return err
	}
	if t.live = live; uidOf(live) != gone {
		t.live = nil // another one came since, which is not ours
	}
	return nil
}

// release leaves an object as it is and takes away what is ours. An object that has
// nothing of that is not written: the ledger alone says that it has.
func (w *work) release(ctx context.Context, t *target) error {
	if !bears(t.live, w.a.Placement) {
		t.live = nil
		return nil
	}
	err := w.m.delete(ctx, t.id, backend.DeleteOptions{
		Manager: manager(w.a.Placement), Release: true, Marks: marksOf(t.live, w.a.Placement), Precondition: t.asLooked(), Fence: w.asLed(),
	})
	if err == nil {
		t.live = nil
	}
	return err
}
