package source

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/backend/kube/internal/watch"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/snapshot"
)

// Queries returns the queries to watch for a placement: the queries of its selectors, and the
// content of the namespaces among items, the items of its newest snapshot. If a later snapshot has
// other namespaces, the result differs, and the caller must watch again; the new Watch yields at
// its beginning, so that no change in between is missed.
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

// Watch yields at its beginning and after each possible change of an object that a query selects;
// changes are coalesced while the caller is busy. A query for a Namespace selects that object
// alone; a query with a namespace and no kind selects the content of the namespace: see [Queries].
// Watch waits for a kind that the hub does not serve yet. An interruption is no error: afterwards
// it yields, because changes may have been missed. It ends with ctx, yielding ctx's error, or with
// the error of a watch that cannot begin or continue; the caller must then watch again.
//
// All calls share one watch for each kind, of the metadata of all namespaces, which keeps nothing
// in memory: a hub with 60 kinds needs 60 watches for any number of placements. Definitions of
// kinds are watched too.
func (s *Source) Watch(ctx context.Context, queries []snapshot.Query) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		w := &changes{source: s, queries: slices.Clone(queries), changed: make(chan struct{}, 1), defined: make(chan struct{}, 1)}
		w.Subscription = s.watches.Subscribe(w.told)
		defer w.End()
		err := w.cover(ctx, true)
		for err == nil {
			select {
			case <-w.changed:
				if !yield(struct{}{}, nil) {
					return
				}
				continue
			default:
			}
			err = w.await(ctx)
		}
		yield(struct{}{}, api.Classify("watch", "objects", cmp.Or(ctx.Err(), err)))
	}
}

// changes is one call of Watch: its queries, and the watches that cover them.
type changes struct {
	*watch.Subscription[hubKind, watch.NoIndex]
	source  *Source
	queries []snapshot.Query
	// changed is filled if an object may have changed, defined if a kind was defined or removed.
	changed, defined chan struct{}
	// rest are the remaining pauses before the kinds are read again.
	rest []time.Duration
}

// open returns the parts of the watch of a kind.
func (s *Source) open(k hubKind) (watch.Client, metav1.ListOptions, watch.NoIndex) {
	from := s.clients.Metadata.Resource(k.resource)
	return watch.Of(from.List, from.Watch).VersionOnly(), metav1.ListOptions{}, watch.NoIndex{}
}

// told handles a change of an object of a kind; nil means that any object of the kind may have
// changed.
func (w *changes) told(k hubKind, obj metav1.Object) {
	if k.gvk.GroupKind() == definitionKind() {
		backoff.Wake(w.defined)
	}
	if obj == nil && w.asks(k) {
		backoff.Wake(w.changed)
	}
	if obj == nil {
		return
	}
	id := snapshot.ID{Group: k.gvk.Group, Version: k.gvk.Version, Kind: k.gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if w.concerns(id) && (k.gvk.GroupKind() == definitionKind() || isPlaced(id)) {
		backoff.Wake(w.changed)
	}
}

// concerns reports whether a query selects an object.
func (w *changes) concerns(id snapshot.ID) bool {
	return slices.ContainsFunc(w.queries, func(q snapshot.Query) bool {
		return (q.Kind == "" || q.Group == id.Group && q.Kind == id.Kind) &&
			(q.Namespace == "" || q.Namespace == id.Namespace) && (q.Name == "" || q.Name == id.Name)
	})
}

// definitionKind is the kind of the objects that define kinds.
func definitionKind() schema.GroupKind {
	return schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
}

// asks reports whether a query is about objects of a kind.
func (w *changes) asks(k hubKind) bool {
	return slices.ContainsFunc(w.queries, func(q snapshot.Query) bool {
		return q.Kind == "" && k.namespaced || q.Kind == k.gvk.Kind && q.Group == k.gvk.Group
	})
}

// definedPauses are the pauses between discoveries after a definition changed, because the hub
// takes a while to serve and to list a new kind. kindsPause is for changes without a definition:
// kinds of aggregated API servers. Watches check every lookPause with an answer of at most that
// age, so that one request serves all of them.
func definedPauses() []time.Duration {
	return []time.Duration{0, 300 * time.Millisecond, 700 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second}
}

const (
	kindsPause = time.Minute
	lookPause  = kindsPause / 2
)

// await returns when something may have changed. If the kinds may have changed, it covers the
// queries again.
func (w *changes) await(ctx context.Context) error {
	pause, age := lookPause, lookPause
	if len(w.rest) > 0 {
		pause, age = w.rest[0], missAge
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.changed:
		backoff.Wake(w.changed)
		return w.check()
	case <-w.defined:
		w.rest = definedPauses()
		return w.check()
	case <-t.C:
		w.rest = w.rest[min(1, len(w.rest)):]
		w.source.kinds.refresh(age)
		return w.cover(ctx, false)
	}
}

// cover joins the watches for the queries, and leaves the others. When it returns, all have
// begun. If the kinds differ from before, objects may have changed.
func (w *changes) cover(ctx context.Context, first bool) error {
	wanted, err := w.wanted(ctx)
	switch {
	case err == nil:
	case !first && api.KindOf("watch", err) == nil: // the running watches continue
		w.rest = definedPauses()[3:]
		return w.check()
	default:
		return err
	}
	if first {
		backoff.Wake(w.changed)
	}
	var added []hubKind
	for k := range wanted {
		if w.Join(k) {
			added = append(added, k)
		}
	}
	for _, k := range added {
		if _, err := w.Begun(ctx, k); err != nil {
			if err := w.explain(k, err); err != nil || ctx.Err() != nil {
				return cmp.Or(ctx.Err(), err)
			}
			continue
		}
		if w.asks(k) {
			backoff.Wake(w.changed)
		}
	}
	for _, k := range w.Keys() {
		if !wanted[k] {
			w.Leave(k)
			backoff.Wake(w.changed)
		}
	}
	return w.check()
}

// check leaves watches of kinds that are no longer served, and returns the error of the others
// that have ended.
func (w *changes) check() error {
	for _, k := range w.Keys() {
		if err := w.Failure(k); err != nil {
			w.Leave(k)
			if err := w.explain(k, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// explain returns the error of a watch that ended, nil if the kind is no longer served.
func (w *changes) explain(k hubKind, err error) error {
	backoff.Wake(w.changed)
	switch {
	case api.IsUnserved(err):
		w.source.kinds.forget()
		w.rest = definedPauses()[1:]
		return nil
	case api.IsForbidden(err):
		q := snapshot.Query{Group: k.gvk.Group, Version: k.gvk.Version, Kind: k.gvk.Kind}
		return api.Classify("watch", q.String(), missingRight(q, err))
	}
	return api.Classify("watch", k.resource.Resource, err)
}

// wanted returns the kinds of the queries.
func (w *changes) wanted(ctx context.Context) (map[hubKind]bool, error) {
	definition := schema.GroupVersionKind{Group: definitionKind().Group, Version: "v1", Kind: definitionKind().Kind}
	out := map[hubKind]bool{}
	gvks := []schema.GroupVersionKind{definition}
	for _, q := range w.queries {
		if q.Kind != "" {
			gvks = append(gvks, schema.GroupVersionKind{Group: q.Group, Version: q.Version, Kind: q.Kind})
		}
	}
	for _, gvk := range gvks {
		k, err := w.source.kinds.find(ctx, gvk)
		switch {
		case meta.IsNoMatchError(err):
		case err != nil:
			return nil, err
		case !k.watchable:
			return nil, fmt.Errorf("the hub cannot watch %s: %w", k.resource, backend.ErrPermanent)
		default:
			out[k] = true
		}
	}
	return out, w.addContent(ctx, out)
}

// addContent adds the namespaced kinds, if a query is about the content of a namespace.
func (w *changes) addContent(ctx context.Context, out map[hubKind]bool) error {
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
	for _, k := range c.content {
		out[k] = true
	}
	return nil
}
