package faulty

import (
	"context"
	"iter"
	"slices"

	"github.com/slipway-dev/slipway/backend"
)

// store is a store whose calls meet a plan.
type store struct {
	plan  *Plan
	inner backend.Store
}

// watcher is a store that can watch.
type watcher struct {
	store
	inner backend.Watcher
}

// Store returns s with the plan's faults. It is a [backend.Watcher] if s is. It is
// no [backend.Batcher]: of several writes each is a call of its own, so that
// something can happen between any two. See [Plan.BatchStore].
func (p *Plan) Store(s backend.Store) backend.Store {
	if w, ok := s.(backend.Watcher); ok {
		return &watcher{store{p, s}, w}
	}
	return &store{p, s}
}

func (s *store) Get(ctx context.Context, key string) (backend.Record, error) {
	f, err := s.plan.enter(ctx, "get", key)
	if err != nil {
		return backend.Record{}, err
	}
	r, err := s.inner.Get(ctx, key)
	if err = s.plan.leave(f, "get", key, err); err != nil {
		return backend.Record{}, err
	}
	return r, nil
}

func (s *store) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	f, err := s.plan.enter(ctx, "put", key)
	if err != nil {
		return "", err
	}
	if f.Late != nil {
		value = slices.Clone(value) // it is the caller's
		return "", s.plan.postpone(ctx, f, "put", key, func(ctx context.Context) { _, _ = s.inner.Put(ctx, key, value, prev) })
	}
	revision, err := s.inner.Put(ctx, key, value, prev)
	if err = s.plan.leave(f, "put", key, err); err != nil {
		return "", err
	}
	return revision, nil
}

func (s *store) Delete(ctx context.Context, key string, prev backend.Revision) error {
	f, err := s.plan.enter(ctx, "delete", key)
	if err != nil {
		return err
	}
	if f.Late != nil {
		return s.plan.postpone(ctx, f, "delete", key, func(ctx context.Context) { _ = s.inner.Delete(ctx, key, prev) })
	}
	return s.plan.leave(f, "delete", key, s.inner.Delete(ctx, key, prev))
}

func (s *store) List(ctx context.Context, prefix string) iter.Seq2[backend.Record, error] {
	return sequence(ctx, s.plan, "list", prefix, func(ctx context.Context) iter.Seq2[backend.Record, error] {
		return s.inner.List(ctx, prefix)
	})
}

func (w *watcher) Watch(ctx context.Context, prefix string) iter.Seq2[backend.Change, error] {
	return sequence(ctx, w.plan, "watch", prefix, func(ctx context.Context) iter.Seq2[backend.Change, error] {
		return w.inner.Watch(ctx, prefix)
	})
}

// sequence is a call that yields: its fault applies when it begins, and it ends when the process
// crashes.
func sequence[T any](ctx context.Context, p *Plan, op, key string, begin func(context.Context) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		f, err := p.enter(ctx, op, key)
		if err != nil {
			yield(zero, err)
			return
		}
		attached, release := p.attach(ctx)
		defer release()
		for v, err := range begin(attached) {
			if p.Crashed() {
				yield(zero, &backend.Error{Op: op, Object: key, Err: ErrCrashed})
				return
			}
			if !yield(v, err) || err != nil {
				return
			}
			if f.After != nil {
				break
			}
		}
		if err := p.leave(f, op, key, nil); err != nil {
			yield(zero, err)
		}
	}
}
