package member

import (
	"cmp"
	"context"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/backend/kube/internal/watch"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/snapshot"
)

const (
	// namedMost is the maximum number of objects of a cluster-scoped kind that are watched one by
	// one, and namespacesMost is the maximum number of namespaces in which a kind is watched, by
	// all calls together. Beyond that, one watch covers all objects of the kind.
	namedMost      = 8
	namespacesMost = 32
	// unservedPoll is the interval of checks for kinds that do not exist yet, and how long that
	// answer is kept.
	unservedPoll = 5 * time.Second
)

// subscription is one call of Watch: its objects, and the watches that cover them.
type subscription struct {
	*watch.Subscription[scope, watch.NoIndex]
	conn  *conn
	names map[schema.GroupVersionKind]map[name]struct{}
	// signal is filled when something may have changed.
	signal chan struct{}
	// narrow has the kinds for which the right to watch all objects is missing.
	narrow map[served]bool
	// unserved reports whether there are kinds that the API server does not have.
	unserved bool
}

// Watch watches the metadata of the objects. All calls share watches: one for each kind in each
// namespace, or for each cluster-scoped object, as long as there are few, see namespacesMost. The
// objects need not exist yet. A watch selects no labels, because watched objects have only their
// own labels.
func (c *conn) Watch(ctx context.Context, ids []snapshot.ID) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		s := &subscription{
			conn: c, names: map[schema.GroupVersionKind]map[name]struct{}{}, signal: make(chan struct{}, 1), narrow: map[served]bool{},
		}
		for _, id := range ids {
			if s.names[api.GVKOf(id)] == nil {
				s.names[api.GVKOf(id)] = map[name]struct{}{}
			}
			s.names[api.GVKOf(id)][name{id.Namespace, id.Name}] = struct{}{}
		}
		s.Subscription = c.watches.Subscribe(s.changed)
		defer s.End()
		for {
			err := s.cover(ctx)
			if err == nil && !yield(struct{}{}, nil) {
				return
			}
			if err == nil {
				err = s.await(ctx)
			}
			if err != nil {
				yield(struct{}{}, api.Classify("watch", "objects", cmp.Or(ctx.Err(), err)))
				return
			}
		}
	}
}

// changed handles a change of an object in a scope; nil means that any object in the scope may
// have changed.
func (s *subscription) changed(at scope, obj metav1.Object) {
	if obj != nil {
		if _, ok := s.names[at.kind.gvk][nameOf(obj)]; !ok {
			return
		}
	}
	backoff.Wake(s.signal)
}

// await returns when something may have changed.
func (s *subscription) await(ctx context.Context) error {
	var again <-chan time.Time
	if s.unserved {
		t := time.NewTimer(unservedPoll)
		defer t.Stop()
		again = t.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.conn.closed:
		return errConnClosed
	case <-again:
	case <-s.signal:
	}
	for _, at := range s.Keys() {
		if err := s.Failure(at); err != nil {
			return err
		}
	}
	return nil
}

// cover joins the watches for all objects. When it returns, all have begun.
func (s *subscription) cover(ctx context.Context) error {
	s.unserved = false
	for gvk, names := range s.names {
		if err := s.conn.usable(ctx); err != nil {
			return err
		}
		kind, err := s.conn.mapper.find(ctx, gvk, unservedPoll)
		if err == nil {
			err = s.conn.mapper.forgetUnserved(location{served: kind}, s.coverKind(ctx, kind, names))
		}
		switch {
		case meta.IsNoMatchError(err):
			s.unserved = true
		case err != nil:
			return err
		}
	}
	return nil
}

// coverKind joins the watches for objects of one kind.
func (s *subscription) coverKind(ctx context.Context, kind served, names map[name]struct{}) error {
	if s.Has(scope{kind: kind}) {
		return nil
	}
	parts := map[scope]struct{}{}
	for n := range names {
		part := scope{kind: kind, namespace: n.namespace}
		if n.namespace == "" {
			part.name = n.name
		}
		if !s.Has(part) {
			parts[part] = struct{}{}
		}
	}
	if !s.narrow[kind] && s.tooMany(kind, parts) {
		err := s.join(ctx, scope{kind: kind})
		if !api.IsForbidden(err) {
			return err
		}
		s.narrow[kind] = true
	}
	for part := range parts {
		if err := s.join(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// tooMany reports whether adding parts would exceed the limits for a kind: more single objects
// than namedMost, or more namespaces than namespacesMost.
func (s *subscription) tooMany(kind served, parts map[scope]struct{}) bool {
	named, namespaces := 0, 0
	count := func(at scope) {
		switch {
		case at.name != "":
			named++
		case at.namespace != "":
			namespaces++
		}
	}
	for at := range parts {
		count(at)
	}
	if named+namespaces == 0 {
		return false
	}
	for _, at := range s.conn.watches.Keys() {
		if _, counted := parts[at]; at.kind == kind && !counted {
			count(at)
		}
	}
	return named > namedMost || namespaces > namespacesMost
}

// join joins a watch and waits until it has begun.
func (s *subscription) join(ctx context.Context, at scope) error {
	s.Join(at)
	_, err := s.Begun(ctx, at)
	return err
}
