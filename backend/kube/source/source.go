package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/backend/kube/internal/watch"
	"github.com/slipway-dev/slipway/internal/parallel"
	"github.com/slipway-dev/slipway/snapshot"
)

// Options say how a hub is read. The zero value is useful.
type Options struct {
	// Parallel is the number of concurrent lists for the content of a namespace; default 8.
	Parallel int
	// PageSize is the number of objects in a request; default 500.
	PageSize int
	// Rules are the engine's rules. Kinds that they exclude do not belong to the content of a
	// namespace: they are neither read nor watched, and need no right.
	Rules snapshot.Rules
}

// Source is a [snapshot.Source] that reads the objects of a hub. Its methods may be called
// concurrently.
//
// Every call of Objects reads the API server, so it sees all earlier writes. The content of a
// namespace consists of the objects of all namespaced kinds that the hub lists and watches, each
// in the version that its group prefers. Kinds that are never placed (see [snapshot.Propagates]),
// such as Events and Leases, do not belong to it. The content is read kind by kind and is not
// consistent at one moment: a watch reports later changes. A kind that was just defined may be
// missing for the second that the hub takes to list it.
//
// Nothing is left out silently. If the hub denies reading kinds, whether a query names them or they
// belong to a namespace, the error is [backend.ErrPermanent] and names all these kinds and the
// missing rights. If a kind's server does not answer, the error is transient. The right is to get,
// list and watch every kind that may be selected. A kind that the rules of the engine exclude needs
// no right, see [Options].
type Source struct {
	clients  *api.HubClients
	kinds    *hubKinds
	watches  *watch.Shared[hubKind, watch.NoIndex]
	parallel int
	pageSize int64
}

var _ snapshot.Source = (*Source)(nil)

// New returns a source that reads the hub of cfg. A configuration without QPS has no rate limit.
// New makes no request.
func New(cfg *rest.Config, o Options) (*Source, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.WarningHandler = rest.NoWarnings{} // placements may select deprecated kinds
	clients, err := api.NewHubClients(cfg)
	if err != nil {
		return nil, err
	}
	s := &Source{
		clients:  clients,
		kinds:    &hubKinds{from: clients.Kinds, rules: o.Rules},
		parallel: max(cmp.Or(o.Parallel, 8), 1),
		pageSize: int64(max(cmp.Or(o.PageSize, watch.PageSize), 1)),
	}
	s.watches = &watch.Shared[hubKind, watch.NoIndex]{Open: s.open}
	return s, nil
}

var errSourceClosed = errors.New("the source was closed")

// Close ends all watches, waits for their end, and closes idle connections.
func (s *Source) Close() error {
	s.watches.Close(api.Permanent(errSourceClosed))
	s.clients.Web.CloseIdleConnections()
	return nil
}

// Objects yields the objects of the hub. See [Source].
func (s *Source) Objects(ctx context.Context, q snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		var missing []error
		for list := range s.lists(ctx, q) {
			if list.err != nil && ctx.Err() == nil && api.IsForbidden(list.err) {
				missing = append(missing, listFailed(ctx, list.of, list.err)) // the other kinds may lack rights, too
				continue
			}
			if list.err != nil {
				yield(nil, listFailed(ctx, list.of, list.err))
				return
			}
			for _, obj := range list.objects {
				if !yield(obj, nil) {
					return
				}
			}
		}
		if len(missing) > 0 {
			yield(nil, allMissing(missing))
		}
	}
}

// listed are the objects of one kind.
type listed struct {
	// of is the query, with the kind.
	of      snapshot.Query
	objects []*unstructured.Unstructured
	err     error
}

// lists yields the results of a query kind by kind.
func (s *Source) lists(ctx context.Context, q snapshot.Query) iter.Seq[listed] {
	switch {
	case ctx.Err() != nil:
		return failedList(q, ctx.Err())
	case q.Kind != "":
		return func(yield func(listed) bool) { yield(s.listOne(ctx, q)) }
	case q.Namespace == "":
		return failedList(q, api.Permanent(errors.New("neither a kind nor a namespace is asked for")))
	}
	c, err := s.kinds.get(ctx, contentAge)
	if err == nil {
		err = c.isComplete()
	}
	if err != nil {
		return failedList(q, err)
	}
	return s.listContent(ctx, q, c.content)
}

// Resource returns the resource of the kind of an object, as the hub serves it.
func (s *Source) Resource(ctx context.Context, id snapshot.ID) (schema.GroupVersionResource, error) {
	kind, err := s.kinds.find(ctx, schema.GroupVersionKind{Group: id.Group, Version: id.Version, Kind: id.Kind})
	if err != nil {
		return schema.GroupVersionResource{}, api.Classify("resource", id.String(), err)
	}
	return kind.resource, nil
}

func failedList(q snapshot.Query, err error) iter.Seq[listed] {
	return func(yield func(listed) bool) { yield(listed{of: q, err: err}) }
}

// listContent reads the kinds at the same time, and yields them in their order.
func (s *Source) listContent(ctx context.Context, q snapshot.Query, kinds []hubKind) iter.Seq[listed] {
	type answer struct {
		at int
		listed
	}
	positions := make([]int, len(kinds))
	for i := range positions {
		positions[i] = i
	}
	return func(yield func(listed) bool) {
		early, next := map[int]listed{}, 0
		for a := range parallel.Map(ctx, s.parallel, positions, func(ctx context.Context, i int) answer {
			return answer{i, s.listKind(ctx, kinds[i], q)}
		}) {
			early[a.at] = a.listed
			for l, ok := early[next]; ok; l, ok = early[next] {
				delete(early, next)
				if next++; !yield(l) {
					return
				}
			}
		}
		if next < len(kinds) {
			yield(listed{of: q, err: ctx.Err()})
		}
	}
}

// listKind reads the objects of a kind in the content of a namespace. A kind that is no longer
// served has none.
func (s *Source) listKind(ctx context.Context, kind hubKind, q snapshot.Query) listed {
	of := q
	of.Group, of.Version, of.Kind = kind.gvk.Group, kind.gvk.Version, kind.gvk.Kind
	if err := ctx.Err(); err != nil {
		return listed{of: of, err: err}
	}
	objs, err := s.read(ctx, kind, of)
	if api.IsUnserved(err) {
		s.kinds.forget()
		return listed{of: of}
	}
	return listed{of, objs, err}
}

// listOne reads the objects of a requested kind.
func (s *Source) listOne(ctx context.Context, q snapshot.Query) listed {
	gvk := schema.GroupVersionKind{Group: q.Group, Version: q.Version, Kind: q.Kind}
	kind, err := s.kinds.find(ctx, gvk)
	if err != nil {
		return listed{of: q, err: err}
	}
	objs, err := s.read(ctx, kind, q)
	if api.IsUnserved(err) { // the cached kind is outdated
		s.kinds.forget()
		if kind, err = s.kinds.find(ctx, gvk); err == nil {
			objs, err = s.read(ctx, kind, q)
		}
	}
	return listed{q, objs, err}
}

// read reads the objects of a kind, or a single object if the query has a name.
func (s *Source) read(ctx context.Context, kind hubKind, q snapshot.Query) ([]*unstructured.Unstructured, error) {
	if !kind.namespaced && q.Namespace != "" {
		return nil, errClusterScoped
	}
	from := dynamic.ResourceInterface(s.clients.Objects.Resource(kind.resource))
	if q.Namespace != "" {
		from = s.clients.Objects.Resource(kind.resource).Namespace(q.Namespace)
	}
	o := metav1.ListOptions{Limit: s.pageSize}
	switch {
	case q.Name == "":
	case kind.namespaced && q.Namespace == "":
		o.FieldSelector = "metadata.name=" + q.Name
	default:
		return readOne(ctx, from, q.Name)
	}
	var out []*unstructured.Unstructured
	_, err := watch.Of(from.List, from.Watch).List(ctx, o, func() { out = nil }, func(obj metav1.Object) error {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			out = append(out, u)
		}
		return nil
	})
	return out, err
}

// readOne reads an object by its name. It returns nothing for a missing object.
func readOne(ctx context.Context, from dynamic.ResourceInterface, name string) ([]*unstructured.Unstructured, error) {
	obj, err := from.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && !api.IsUnserved(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []*unstructured.Unstructured{obj}, nil
}

// listFailed returns the error of a source.
func listFailed(ctx context.Context, q snapshot.Query, err error) error {
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case api.IsForbidden(err):
		err = missingRight(q, err)
	case meta.IsNoMatchError(err):
		err = api.Permanent(fmt.Errorf("the hub serves no kind %s in %s", q.Kind, schema.GroupVersion{Group: q.Group, Version: q.Version}))
	}
	return api.Classify("list", q.String(), err)
}

// allMissing joins the errors of missing rights, and counts those beyond the first.
func allMissing(errs []error) error {
	const most = 5
	if more := len(errs) - most; more > 0 {
		errs = append(errs[:most:most], fmt.Errorf("and %d more kinds that the hub may not be read of: %w", more, backend.ErrPermanent))
	}
	return errors.Join(errs...)
}

// missingRight names the right to grant.
func missingRight(q snapshot.Query, err error) error {
	return fmt.Errorf("%s; grant this user get, list and watch on the kind %s of group %q, or exclude the kind by Rules.Never, since what is selected must not be left out silently: %w",
		api.Describe(q.Kind == "Secret" && q.Group == "", err), q.Kind, q.Group, backend.ErrPermanent)
}
