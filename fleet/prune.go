package fleet

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
// before everything that is to be there is.
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
			w.waiting = fmt.Sprintf("%s is being deleted; what it may need goes once it is gone", later.id)
			return nil
		}
		if err := w.prune(ctx, t); err != nil {
			return err
		}
		if w.lingers(t) {
			here = t
		}
	}
	return nil
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

// giveUp deletes what the placement created and releases everything else: what
// it adopted, and what another placement applies too.
func (w *work) giveUp(ctx context.Context, t *target) error {
	if w.a.Orphan || t.adopted || len(otherPlacements(t.live, w.a.Placement)) > 0 {
		return w.release(ctx, t)
	}
	// The resourceVersion is demanded too: the uid stays when a newer leader
	// wants the object again.
	err := w.m.delete(ctx, t.id, backend.DeleteOptions{Manager: manager(w.a.Placement), Precondition: w.asLooked(t), Fence: w.asLed()})
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

// release leaves an object as it is and takes away what is ours.
func (w *work) release(ctx context.Context, t *target) error {
	err := w.m.delete(ctx, t.id, backend.DeleteOptions{
		Manager: manager(w.a.Placement), Release: true, Marks: marksOf(t.live, w.a.Placement), Precondition: w.asLooked(t), Fence: w.asLed(),
	})
	if err == nil {
		t.live = nil
	}
	return err
}
