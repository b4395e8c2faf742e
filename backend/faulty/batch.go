package faulty

import (
	"context"
	"errors"
	"slices"

	"github.com/slipway-dev/slipway/backend"
)

// batcher is a store with batches.
type batcher struct{ store }

// watchBatcher is a batcher that is also a watcher.
type watchBatcher struct{ watcher }

// BatchStore returns s with the plan's faults as a [backend.Batcher], and as a [backend.Watcher]
// too if s is one. Each write of a batch counts as a put or a delete, and the rules decide about
// all of them before the first is made. The batch ends at the first write with a fault: the
// writes before it take effect, and it takes effect too if the fault is After. If the fault is
// Late, it and all following writes take effect later.
//
// The caller gets the error and no revision, as from a store that lost its connection before it
// could answer. Only an error that is ErrConflict, ErrNotFound or ErrPermanent comes with the
// revisions of the completed writes.
func (p *Plan) BatchStore(s backend.Store) backend.Batcher {
	if w, ok := s.(backend.Watcher); ok {
		return &watchBatcher{watcher{store{p, s}, w}}
	}
	return &batcher{store{p, s}}
}

func (b *batcher) WriteAll(ctx context.Context, writes []backend.Write) ([]backend.Revision, error) {
	return b.writeAll(ctx, writes)
}

func (b *watchBatcher) WriteAll(ctx context.Context, writes []backend.Write) ([]backend.Revision, error) {
	return b.writeAll(ctx, writes)
}

func (s *store) writeAll(ctx context.Context, writes []backend.Write) ([]backend.Revision, error) {
	for i, w := range writes {
		f, err := s.plan.enter(ctx, op(w), w.Key)
		switch {
		case err != nil:
			return s.cut(ctx, writes[:i], func(error) error { return err })
		case f.Late != nil:
			return s.cut(ctx, writes[:i], func(error) error { return s.postponeAll(ctx, f, writes[i:]) })
		case f.After != nil || f.Crash:
			return s.cut(ctx, writes[:i+1], func(err error) error { return s.plan.leave(f, op(w), w.Key, err) })
		}
	}
	made, err := backend.WriteAll(ctx, s.inner, writes)
	if s.plan.Crashed() {
		return nil, &backend.Error{Op: "batch", Object: "of writes", Err: ErrCrashed}
	}
	return made, err
}

// cut makes the first writes of a batch and fails the batch. It ends early if one of them fails
// itself.
func (s *store) cut(ctx context.Context, first []backend.Write, fail func(error) error) ([]backend.Revision, error) {
	made, err := backend.WriteAll(context.WithoutCancel(ctx), s.inner, first)
	if err != nil && !s.plan.Crashed() {
		return made, err
	}
	if err = fail(err); !isDefinite(err) {
		made = nil
	}
	return made, err
}

// postponeAll delays the effect of the writes.
func (s *store) postponeAll(ctx context.Context, f Fault, writes []backend.Write) error {
	late := slices.Clone(writes)
	for i := range late {
		late[i].Value = slices.Clone(late[i].Value) // it is the caller's
	}
	return s.plan.postpone(ctx, f, op(late[0]), late[0].Key, func(ctx context.Context) { _, _ = backend.WriteAll(ctx, s.inner, late) })
}

func op(w backend.Write) string {
	if w.Delete {
		return "delete"
	}
	return "put"
}

// isDefinite reports whether an error determines which writes were made.
func isDefinite(err error) bool {
	return errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrNotFound) || errors.Is(err, backend.ErrPermanent)
}
