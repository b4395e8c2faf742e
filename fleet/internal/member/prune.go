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

// pruneAll deletes or releases undesired objects, last applied first. An object that later phases
// may need is removed only once their objects are gone. Nothing is removed before all desired
// objects are there. An object whose deletion fails or is refused holds back only objects that it
// may need.
func (w *work) pruneAll(ctx context.Context) error {
	if len(w.problems) > 0 || w.waiting != "" {
		return w.unblock(ctx)
	}
	phase := snapshot.Admission
	var here, later *target // deleted and not gone yet, in this phase and in later ones
	for _, t := range slices.Backward(w.targets) {
		if t.phase < phase {
			phase, later = t.phase, cmp.Or(later, here)
		}
		if t.want != nil || w.removalPostponed(t) {
			continue
		}
		if later != nil && t.live != nil && !isTerminating(t.live) {
			w.waiting = cmp.Or(w.waiting, later.remains()+"; what it may need goes once it is gone")
			return nil
		}
		remains, err := w.deleteOrRelease(ctx, t)
		if err != nil {
			return err
		}
		if remains {
			here = t
		} else {
			w.served = true
		}
	}
	return nil
}

// unblock deletes or releases undesired admission objects if other objects wait for a server that
// these admission objects keep from starting. Otherwise admission objects are removed only after
// all desired objects are there.
func (w *work) unblock(ctx context.Context) error {
	if w.servers == nil || w.servers.earlier[snapshot.Admission] == nil {
		return nil
	}
	before := w.servers.earlier[snapshot.Admission]
	for _, t := range w.targets {
		if t.want != nil || t.phase != snapshot.Admission || w.removalPostponed(t) || !blocks(t.live, before.sick) {
			continue
		}
		if _, err := w.deleteOrRelease(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// deleteOrRelease deletes or releases one object. It reports whether the object still exists,
// because the deletion takes time, fails or is refused.
func (w *work) deleteOrRelease(ctx context.Context, t *target) (bool, error) {
	if !t.unread() {
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
		w.failed(t, failedCall{err: err})
	}
	w.stumble(t)
	return true, nil
}

// prune deletes or releases one object, and decides again after a conflict.
func (w *work) prune(ctx context.Context, t *target) error {
	if t.live == nil && w.takeover {
		// The older leader may have created it since.
		if err := w.readAgain(ctx, t); err != nil {
			return err
		}
	}
	for range rounds {
		if t.live == nil || isTerminating(t.live) || t.isSuspect() && !carries(t.live, w.a.Placement) {
			return nil
		}
		err := w.pruneOnce(ctx, t)
		if errors.Is(err, backend.ErrNotFound) {
			t.live, err = nil, nil
		}
		if err == nil || !errors.Is(err, backend.ErrConflict) {
			return err
		}
		if err := w.readAgain(ctx, t); err != nil {
			return err
		}
	}
	return w.busy(t)
}

// pruneOnce deletes an object if the placement created it, according to both the ledger and the
// object. It releases other objects, and reports each with the reason.
func (w *work) pruneOnce(ctx context.Context, t *target) error {
	if w.a.Orphan {
		return w.release(ctx, t)
	}
	reason, err := w.releaseReason(ctx, t)
	if err != nil {
		return err
	}
	if reason != "" {
		return w.releaseFor(ctx, t, reason)
	}
	// The resourceVersion is a precondition, too, because a newer leader that wants the object again
	// does not change its uid.
	err = w.m.delete(ctx, t.id, backend.DeleteOptions{Manager: manager(w.a.Placement), Precondition: t.precondition(), Fence: w.asLed()})
	if err != nil {
		return err
	}
	gone := uidOf(t.live)
	live, err := w.m.get(ctx, t.id)
	if err != nil {
		return err
	}
	if t.live = live; uidOf(live) != gone {
		t.live = nil // another object of that name, which is not ours
	}
	if isNamespace(t.id) && !t.lingers(w.a.Placement) {
		t.live = nil // its controller empties it: that counts as removed
	}
	return nil
}

// releaseFor releases an object and records the reason for the report.
func (w *work) releaseFor(ctx context.Context, t *target, reason string) error {
	err := w.release(ctx, t)
	if err == nil && t.listed() && !t.disowned {
		w.released = append(w.released, releasedObject{t.id, reason})
	}
	return err
}
