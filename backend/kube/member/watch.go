package member

import (
	"context"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/backend/kube/internal/api"
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

// subscription is one call of Watch: which objects it is about, and the feeds that tell of them.
type subscription struct {
	conn  *conn
	names map[schema.GroupVersionKind]map[name]struct{}
	feeds map[scope]*feed
	// signal is filled when something may have changed.
	signal chan struct{}
	// narrow tells of kinds that may not be watched in all namespaces at once.
	narrow map[served]bool
	// unserved reports whether there are kinds that the API server does not have.
	unserved bool
}

// name is an object among those of its kind.
type name struct{ namespace, name string }

// Watch watches the metadata of the objects. All calls share feeds, one for each kind, of the objects
// that carry the engine's label. What does not carry it, because it is not applied yet, or only
// compared, or somebody took the label away, has feeds of its own.
func (c *conn) Watch(ctx context.Context, ids []snapshot.ID) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		s := c.subscribe(ids)
		defer s.end()
		for {
			err := s.cover(ctx)
			if err == nil && !yield(struct{}{}, nil) {
				return
			}
			if err == nil {
				err = s.await(ctx)
			}
			if err != nil {
				yield(struct{}{}, s.ended(ctx, err))
				return
			}
		}
	}
}

func (c *conn) subscribe(ids []snapshot.ID) *subscription {
	s := &subscription{
		conn: c, names: map[schema.GroupVersionKind]map[name]struct{}{}, feeds: map[scope]*feed{},
		signal: make(chan struct{}, 1), narrow: map[served]bool{},
	}
	for _, id := range ids {
		if s.names[api.GVKOf(id)] == nil {
			s.names[api.GVKOf(id)] = map[name]struct{}{}
		}
		s.names[api.GVKOf(id)][name{id.Namespace, id.Name}] = struct{}{}
	}
	return s
}

func (s *subscription) end() {
	for _, f := range s.feeds {
		s.conn.watches.leave(f, s)
	}
}

// ended returns the error that a watch ends with.
func (s *subscription) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return api.Classify("watch", "objects", err)
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
	case <-s.conn.watches.gone:
		return errConnClosed
	case <-again:
	case <-s.signal:
	}
	for _, f := range s.feeds {
		if err := s.conn.watches.failure(f); err != nil {
			return err
		}
	}
	return nil
}

// cover joins the feeds that are needed to see every change of the objects. When it returns, all have
// begun.
func (s *subscription) cover(ctx context.Context) error {
	s.unserved = false
	for gvk, names := range s.names {
		if err := s.conn.usable(ctx); err != nil {
			return err
		}
		kind, err := s.conn.mapper.find(ctx, gvk, unservedPoll)
		if err == nil {
			err = s.conn.mapper.heed(location{served: kind}, s.coverKind(ctx, kind, names))
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

// coverKind joins the feeds for objects of one kind.
func (s *subscription) coverKind(ctx context.Context, kind served, names map[name]struct{}) error {
	bare := map[string][]name{}
	for n := range names {
		if _, joined := s.feeds[scope{kind: kind, namespace: n.namespace}]; joined {
			continue
		}
		labelled := false
		if n.namespace != ledgerNamespace {
			f, err := s.joinLabelled(ctx, kind, n.namespace)
			if err != nil {
				return err
			}
			labelled = s.conn.watches.has(f, n)
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

// coverBare joins the feeds for objects of a namespace that do not carry the label.
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

// joinLabelled joins the feed of all objects of a kind that carry the label; of those in one namespace
// where more is forbidden.
func (s *subscription) joinLabelled(ctx context.Context, kind served, namespace string) (*feed, error) {
	if !s.narrow[kind] {
		f, err := s.join(ctx, scope{kind: kind, labelled: true})
		if !api.IsForbidden(err) || namespace == "" {
			return f, err
		}
		s.narrow[kind] = true
	}
	return s.join(ctx, scope{kind: kind, namespace: namespace, labelled: true})
}

// join joins a feed and waits until it has begun.
func (s *subscription) join(ctx context.Context, at scope) (*feed, error) {
	if f := s.feeds[at]; f != nil {
		return f, nil
	}
	f, err := s.conn.watches.join(at, s)
	if err != nil {
		return nil, err
	}
	select {
	case <-f.begun:
	case <-ctx.Done():
		s.conn.watches.leave(f, s)
		return nil, ctx.Err()
	}
	if err := s.conn.watches.failure(f); err != nil {
		s.conn.watches.leave(f, s)
		return nil, err
	}
	s.feeds[at] = f
	return f, nil
}

// concerns reports whether a feed's object is one of the subscription's.
func (s *subscription) concerns(kind served, n name) bool {
	_, ok := s.names[kind.gvk][n]
	return ok
}

func (s *subscription) wake() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}
