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
	// appliedLabel is on everything that the engine applies, and ledgerNamespace is where it keeps its
	// ledgers, which are without: see package fleet.
	appliedLabel    = "slipway.dev/applied=true"
	ledgerNamespace = "slipway-system"
	// namedMost is how many objects of a kind in a namespace without the label are watched one by one;
	// with more, everything of the kind in the namespace is.
	namedMost = 8
	// unservedPoll is how often is asked for kinds that do not exist yet, and is as long as that answer
	// is kept.
	unservedPoll = 5 * time.Second
)

// subscription is one call of Watch: which objects it is about, and the watches that tell of them.
type subscription struct {
	*watch.Subscription[scope, *names]
	conn  *conn
	names map[schema.GroupVersionKind]map[name]struct{}
	// signal is filled when something may have changed.
	signal chan struct{}
	// narrow tells of kinds that may not be watched in all namespaces at once.
	narrow map[served]bool
	// unserved reports whether there are kinds that the API server does not have.
	unserved bool
}

// Watch watches the metadata of the objects. All calls share watches, one for each kind, of the objects
// that carry the engine's label. What does not carry it, because it is not applied yet, or only
// compared, or has lost the label, has watches of its own.
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

// changed takes in that an object of a scope changed, or that any of them may have.
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

// cover joins the watches that are needed to see every change of the objects. When it returns, all have
// begun.
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
	bare := map[string][]name{}
	for n := range names {
		if s.Has(scope{kind: kind, namespace: n.namespace}) {
			continue
		}
		labelled := false
		if n.namespace != ledgerNamespace {
			those, err := s.joinLabelled(ctx, kind, n.namespace)
			if err != nil {
				return err
			}
			labelled = those.has(n)
		}
		if !labelled {
			bare[n.namespace] = append(bare[n.namespace], n)
		}
	}
	for namespace, names := range bare {
		if err := s.coverBare(ctx, kind, namespace, names); err != nil {
			return err
		}
	}
	return nil
}

// coverBare joins the watches for objects of a namespace that do not carry the label.
func (s *subscription) coverBare(ctx context.Context, kind served, namespace string, names []name) error {
	if len(names) > namedMost || namespace == ledgerNamespace {
		_, err := s.join(ctx, scope{kind: kind, namespace: namespace})
		return err
	}
	for _, n := range names {
		if _, err := s.join(ctx, scope{kind: kind, namespace: namespace, name: n.name}); err != nil {
			return err
		}
	}
	return nil
}

// joinLabelled joins the watch of all objects of a kind that carry the label; of those in one namespace
// where more is forbidden.
func (s *subscription) joinLabelled(ctx context.Context, kind served, namespace string) (*names, error) {
	if !s.narrow[kind] {
		f, err := s.join(ctx, scope{kind: kind, labelled: true})
		if !api.IsForbidden(err) || namespace == "" {
			return f, err
		}
		s.narrow[kind] = true
	}
	return s.join(ctx, scope{kind: kind, namespace: namespace, labelled: true})
}

// join joins a watch and waits until it has begun.
func (s *subscription) join(ctx context.Context, at scope) (*names, error) {
	s.Join(at)
	return s.Begun(ctx, at)
}
