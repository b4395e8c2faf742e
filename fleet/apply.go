package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// carryOut carries an assignment out, from the beginning where somebody else wrote
// the ledger meanwhile, and returns the last try of it.
func (u *snapshotUpdater) carryOut(ctx context.Context, m *memberConn, a Assignment) (w *work, sent bool, err error) {
	for i := range rounds {
		w = &work{u: u, a: a, m: m, reuses: i == 0}
		err = w.update(ctx)
		sent = sent || w.sent
		if !errors.Is(err, errLedgerMoved) {
			break
		}
	}
	if w.looked && (err == nil || errors.Is(err, backend.ErrPermanent)) {
		err = errors.Join(err, w.tell(ctx))
	}
	return w, sent, err
}

// restore puts back what a cluster's ledger proves, and tells whether anything
// had to be.
func (u *snapshotUpdater) restore(ctx context.Context, m *memberConn, a Assignment) (sent bool, err error) {
	_, sent, err = u.carryOut(ctx, m, a)
	return sent, err
}

// applyAll applies what is to be there and is not, phase by phase. An object that
// the member refuses is a problem, and the others go on; where something has to
// be waited for, later phases wait, too.
func (w *work) applyAll(ctx context.Context) error {
	w.definitions = definitionsOf(w.targets)
	var phase snapshot.Phase
	for _, t := range w.targets {
		if w.waiting != "" && t.phase > phase {
			return nil
		}
		phase = t.phase
		if t.want == nil {
			continue
		}
		err := w.applyDefined(ctx, t)
		switch {
		case errors.Is(err, backend.ErrNotFound):
			w.refused(t, fmt.Errorf("%s: %v: its namespace must be selected too, or exist: %w", t.id, err, backend.ErrPermanent))
		case errors.Is(err, backend.ErrPermanent):
			w.refused(t, fmt.Errorf("%s: %w", t.id, err))
		case err != nil:
			return err
		}
	}
	return nil
}

// refused takes down why an object could not be applied.
func (w *work) refused(t *target, err error) {
	t.problem = err
	w.problems = append(w.problems, err)
}

// await says what has to be waited for before an object can be applied.
func (w *work) await(t *target, what string) {
	t.problem = errors.New(what)
	w.waiting = what
}

// applyDefined applies one object if its kind is there.
func (w *work) applyDefined(ctx context.Context, t *target) error {
	if ok, err := w.defined(ctx, t); !ok {
		return err
	}
	return w.apply(ctx, t)
}

// apply applies one object.
func (w *work) apply(ctx context.Context, t *target) error {
	for range rounds {
		switch {
		case t.held != nil:
			return t.unmarked
		case t.live != nil && isTerminating(t.live):
			w.await(t, fmt.Sprintf("%s is being deleted; it is applied again once it is gone", t.id))
			return nil
		case t.live != nil && w.asDesired(t):
			// Without a mark nothing has changed its resourceVersion.
			return t.unmarked
		}
		if err := w.refusal(t); err != nil {
			return err
		}
		if t.live == nil {
			if err := w.recheck(ctx); err != nil {
				return err
			}
		}
		live, err := w.write(ctx, w.desired(t), manager(w.a.Placement), w.asLooked(t))
		if err == nil {
			t.applied, t.before, t.live = true, t.live, live
			return nil
		}
		if !errors.Is(err, backend.ErrConflict) {
			return err
		}
		if err := w.lookAgain(ctx, t); err != nil {
			return err
		}
		w.holdBack(ctx, t)
	}
	return w.busy(t)
}

// busy says that an object is written by others all the time.
func (w *work) busy(t *target) error {
	return fmt.Errorf("cluster %s: %s was changed %d times while it was worked on: %w", w.m.name, t.id, rounds, backend.ErrConflict)
}

// write applies an object, under the fence. A member may know of a newer leader by
// itself: then the ledger tells whether that is another engine, or another run of
// this one.
func (w *work) write(ctx context.Context, obj *unstructured.Unstructured, manager string, p backend.Precondition) (*unstructured.Unstructured, error) {
	live, err := w.m.apply(ctx, obj, backend.ApplyOptions{Manager: manager, Precondition: p, Fence: w.asLed()})
	if errors.Is(err, backend.ErrFenced) {
		err = cmp.Or(w.confirm(ctx), err)
	}
	return live, err
}

// asLed demands that the ledger still is as it was read or written last.
func (w *work) asLed() backend.Fence {
	return backend.Fence{
		Ledger: ledgerID(w.a.Placement), UID: w.ledger.uid, ResourceVersion: w.ledger.version,
		Annotation: epochMark + w.a.Placement, Mark: w.mine().String(),
	}
}

// asLooked demands that an object still is as it was looked at.
func (w *work) asLooked(t *target) backend.Precondition {
	if t.live == nil {
		return backend.Precondition{Absent: true}
	}
	return backend.Precondition{UID: string(t.live.GetUID()), ResourceVersion: t.live.GetResourceVersion()}
}

// recheck looks at the ledger before an object is created or marked, if it has
// not been for a while: a leader that was paused would write what no precondition
// refuses. From then on it does so every time: the leader may have been followed
// without knowing.
func (w *work) recheck(ctx context.Context) error {
	if w.wary = w.wary || w.pausedSince(w.confirmed); !w.wary {
		return nil
	}
	return w.confirm(ctx)
}

// pausedSince tells whether t is long ago by either clock: the monotonic one
// may stand still while the machine is suspended.
func (w *work) pausedSince(t time.Time) bool {
	now := time.Now()
	wall := now.Round(0).Sub(t.Round(0))
	return now.Sub(t) >= w.u.recheck || wall >= w.u.recheck || wall < 0
}
