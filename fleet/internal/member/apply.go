package member

import (
	"context"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// applyAll applies what is to be there and is not, phase by phase. An object that
// the member refuses is a problem, and the others go on; where something has to
// be waited for, or an object failed, later phases wait, too. An object without a
// name is a problem as one that is refused, so that the cluster does not complete.
func (w *work) applyAll(ctx context.Context) error {
	w.problems = append(w.problems, w.rev.nameless()...)
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
		if t.unread {
			w.stumble(t)
			continue
		}
		err := w.applyDefined(ctx, t)
		switch {
		case err == nil:
			w.served = w.served || t.problem == nil && t.held == nil
		case errors.Is(err, backend.ErrNotFound):
			w.refused(t, &MissingNamespaceError{fmt.Errorf("%s: namespace %s is missing on the cluster: select it too, or create it there: %v: %w", t.id, t.id.Namespace, err, backend.ErrPermanent)})
		case errors.Is(err, backend.ErrPermanent):
			w.refused(t, fmt.Errorf("%s: %w", t.id, err))
		default:
			if err := w.ofOne(ctx, err); err != nil {
				return err
			}
			w.failed(t, err)
			w.stumble(t)
		}
	}
	return nil
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
		case t.live != nil && t.asDesired(&w.a):
			// Without a mark nothing has changed its resourceVersion.
			return t.unmarked
		}
		if err := t.refusal(&w.a); err != nil {
			return err
		}
		if t.live == nil {
			if err := w.recheck(ctx); err != nil {
				return err
			}
		}
		live, err := w.write(ctx, t.desired(&w.a), manager(w.a.Placement), t.asLooked())
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
