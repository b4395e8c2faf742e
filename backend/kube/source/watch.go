package source

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/snapshot"
)

// Queries returns what to watch for a placement whose newest snapshot holds
// items: what its selectors ask for, and the content of the namespaces among the
// items. After a snapshot with other namespaces it returns something else; a
// Watch of that yields at its beginning, so that nothing is missed in between.
func Queries(selectors []snapshot.Selector, items []snapshot.Item) []snapshot.Query {
	seen := map[snapshot.Query]bool{}
	for _, s := range selectors {
		seen[snapshot.Query{Group: s.Group, Version: s.Version, Kind: s.Kind, Namespace: s.Namespace, Name: s.Name}] = true
	}
	for _, item := range items {
		if item.Group == "" && item.Kind == "Namespace" {
			seen[snapshot.Query{Namespace: item.Name}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b snapshot.Query) int { return snapshot.ID(a).Compare(snapshot.ID(b)) })
}

// Watch yields at its beginning and whenever something may have changed that a
// query asks for; changes are coalesced while the caller is busy. A query for a
// Namespace is about that object alone, and one with a namespace and no kind
// about its content: see [Queries]. A kind that the hub does not serve yet is
// waited for. An interruption is no error: afterwards it yields, since something
// may have changed. It ends with ctx, yielding ctx's error, or with the error of
// a watch that cannot begin, or may not go on; the caller then watches again.
//
// All calls share one watch for each kind, of the metadata of all namespaces,
// for which nothing is kept in memory: for a hub with 60 kinds 60 watches,
// however many placements there are. Definitions of kinds are watched too.
func (s *Source) Watch(ctx context.Context, queries []snapshot.Query) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		w := s.newWatch(queries)
		defer w.end()
		for again := true; ; {
			if err := w.cover(ctx, &again); err != nil {
				yield(struct{}{}, w.failed(ctx, err))
				return
			}
			if again && !w.tell(yield) {
				return
			}
			if err := w.await(ctx, &again); err != nil {
				yield(struct{}{}, w.failed(ctx, err))
				return
			}
		}
	}
}

// sourceWatch is one call of Watch: what it is about, and the feeds that tell of
// it.
type sourceWatch struct {
	source  *Source
	queries []snapshot.Query
	feeds   map[schema.GroupVersionResource]*sourceFeed
	// changed is filled when an object may have changed, defined when a kind was
	// defined or is no more.
	changed, defined chan struct{}
	// rest are the pauses until the kinds are looked at again.
	rest []time.Duration
}

func (s *Source) newWatch(queries []snapshot.Query) *sourceWatch {
	return &sourceWatch{
		source: s, queries: slices.Clone(queries), feeds: map[schema.GroupVersionResource]*sourceFeed{},
		changed: make(chan struct{}, 1), defined: make(chan struct{}, 1),
	}
}

// tell yields. Whatever was told to the watch before is covered by that.
func (w *sourceWatch) tell(yield func(struct{}, error) bool) bool {
	select {
	case <-w.changed:
	default:
	}
	return yield(struct{}{}, nil)
}

func (w *sourceWatch) end() {
	for _, f := range w.feeds {
		w.source.feeds.leave(f, w)
	}
}

// failed returns the error that a watch ends with.
func (w *sourceWatch) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return api.Classify("watch", "objects", err)
}

// concerns reports whether an object is asked for.
func (w *sourceWatch) concerns(id snapshot.ID) bool {
	return slices.ContainsFunc(w.queries, func(q snapshot.Query) bool {
		return (q.Kind == "" || q.Group == id.Group && q.Kind == id.Kind) &&
			(q.Namespace == "" || q.Namespace == id.Namespace) && (q.Name == "" || q.Name == id.Name)
	})
}

// heed reports that an object of a kind changed.
func (w *sourceWatch) heed(kind hubKind, id snapshot.ID) {
	if kind.gvk.GroupKind() == definitionKind() {
		wakeUp(w.defined)
	}
	if w.concerns(id) {
		wakeUp(w.changed)
	}
}

// wake reports that anything of a kind may have changed.
func (w *sourceWatch) wake(kind hubKind) {
	if kind.gvk.GroupKind() == definitionKind() {
		wakeUp(w.defined)
	}
	if w.asks(kind) {
		wakeUp(w.changed)
	}
}

func wakeUp(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// definitionKind is the kind of what defines kinds.
func definitionKind() schema.GroupKind {
	return schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
}

// asks reports whether a query is about objects of a kind.
func (w *sourceWatch) asks(kind hubKind) bool {
	return slices.ContainsFunc(w.queries, func(q snapshot.Query) bool {
		return q.Kind == "" && kind.namespaced || q.Kind == kind.gvk.Kind && q.Group == kind.gvk.Group
	})
}

// definedPauses are for looking at the kinds again after a definition changed:
// the hub takes a while to serve and to list what was defined. kindsPause is for
// what no definition tells of: kinds of other servers behind the hub.
func definedPauses() []time.Duration {
	return []time.Duration{0, 300 * time.Millisecond, 700 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second}
}

const kindsPause = time.Minute

// await returns when something may have changed, and then sets again, or when
// the kinds are to be looked at.
func (w *sourceWatch) await(ctx context.Context, again *bool) error {
	pause := kindsPause
	if len(w.rest) > 0 {
		pause = w.rest[0]
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	*again = false
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.changed:
		*again = true
	case <-w.defined:
		w.rest = definedPauses()
	case <-t.C:
		w.rest = w.rest[min(1, len(w.rest)):]
		w.source.kinds.refresh()
	}
	return nil
}

// cover joins the feeds that are needed to see every change of what is asked
// for, and leaves the others. Where they are other kinds than before it sets
// again. When it returns, all have begun.
func (w *sourceWatch) cover(ctx context.Context, again *bool) error {
	wanted, err := w.wanted(ctx)
	switch {
	case err == nil:
	case len(w.feeds) > 0 && api.KindOf("watch", err) == nil: // what is watched goes on
		w.rest = definedPauses()[3:]
		return nil
	default:
		return err
	}
	var fresh []*sourceFeed
	for resource, kind := range wanted {
		if w.feeds[resource] != nil {
			continue
		}
		f, err := w.source.feeds.join(kind, w)
		if err != nil {
			return err
		}
		w.feeds[resource] = f
		fresh = append(fresh, f)
	}
	for _, f := range fresh {
		select {
		case <-f.begun:
		case <-ctx.Done():
			return ctx.Err()
		}
		*again = *again || w.asks(f.kind)
	}
	return w.check(wanted, again)
}

// check leaves feeds of kinds that are no longer served, and returns the error of
// the others.
func (w *sourceWatch) check(wanted map[schema.GroupVersionResource]hubKind, again *bool) error {
	for resource, f := range w.feeds {
		err := w.source.feeds.failure(f)
		_, asked := wanted[resource]
		if err == nil && asked {
			continue
		}
		w.source.feeds.leave(f, w)
		delete(w.feeds, resource)
		*again = true
		switch {
		case err == nil:
		case api.IsUnserved(err):
			w.source.kinds.forget()
			w.rest = definedPauses()[1:]
		case api.IsForbidden(err):
			q := snapshot.Query{Group: f.kind.gvk.Group, Version: f.kind.gvk.Version, Kind: f.kind.gvk.Kind}
			return api.Classify("watch", q.String(), missingRight(q, err))
		default:
			return api.Classify("watch", f.kind.resource.Resource, err)
		}
	}
	return nil
}

// wanted returns the kinds that the queries are about.
func (w *sourceWatch) wanted(ctx context.Context) (map[schema.GroupVersionResource]hubKind, error) {
	definition := schema.GroupVersionKind{Group: definitionKind().Group, Version: "v1", Kind: definitionKind().Kind}
	out := map[schema.GroupVersionResource]hubKind{}
	gvks := []schema.GroupVersionKind{definition}
	for _, q := range w.queries {
		if q.Kind != "" {
			gvks = append(gvks, schema.GroupVersionKind{Group: q.Group, Version: q.Version, Kind: q.Kind})
		}
	}
	for _, gvk := range gvks {
		kind, err := w.source.kinds.find(ctx, gvk)
		switch {
		case meta.IsNoMatchError(err):
		case err != nil:
			return nil, err
		case !kind.watchable:
			return nil, fmt.Errorf("the hub cannot watch %s: %w", kind.resource, backend.ErrPermanent)
		default:
			out[kind.resource] = kind
		}
	}
	return out, w.addContent(ctx, out)
}

// addContent adds the kinds that may be in a namespace, where one is asked for.
func (w *sourceWatch) addContent(ctx context.Context, out map[schema.GroupVersionResource]hubKind) error {
	if !slices.ContainsFunc(w.queries, func(q snapshot.Query) bool { return q.Kind == "" }) {
		return nil
	}
	c, err := w.source.kinds.get(ctx, kindsPause)
	if err == nil {
		err = c.isComplete()
	}
	if err != nil {
		return err
	}
	for _, kind := range c.content {
		out[kind.resource] = kind
	}
	return nil
}
