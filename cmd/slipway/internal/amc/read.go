package amc

import (
	"context"
	"iter"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/slipway-dev/slipway/internal/parallel"
)

// query selects the objects to read.
type query struct {
	types          []string
	namespace      string
	allNamespaces  bool
	labels, fields string
	ignoreNotFound bool
	// tables requests the tables that the API server makes.
	tables bool
}

// answer is the result from a member.
type answer struct {
	query *query
	name  string
	infos []*resource.Info
	// isOne reports whether one object was requested by its name.
	isOne bool
	errs  []error
}

// atOnce is the number of members that are read concurrently, and chunk is the number of objects
// in a page of a list.
const (
	atOnce = 16
	chunk  = 500
)

// readAll reads members, and yields their answers in the order of names.
func readAll(ctx context.Context, m *members, names []string, q *query) iter.Seq[*answer] {
	return func(yield func(*answer) bool) {
		done := map[string]*answer{}
		next := 0
		for a := range parallel.Map(ctx, atOnce, names, func(ctx context.Context, name string) *answer { return read(ctx, m, name, q) }) {
			done[a.name] = a
			for ; next < len(names) && done[names[next]] != nil; next++ {
				if !yield(done[names[next]]) {
					return
				}
			}
		}
	}
}

// read reads a member.
func read(ctx context.Context, m *members, name string, q *query) *answer {
	a := &answer{name: name, query: q}
	config, err := m.reach(ctx, name)
	if err == nil {
		err = a.fetch(config)
	}
	if err != nil {
		a.errs = utilerrors.Flatten(utilerrors.NewAggregate([]error{err})).Errors()
	}
	return a
}

// fetch reads the objects like kubectl.
func (a *answer) fetch(config *rest.Config) error {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	q := a.query
	builder := resource.NewBuilder(getterOf{config, memory.NewMemCacheClient(client)}).
		Unstructured().
		NamespaceParam(q.namespace).DefaultNamespace().AllNamespaces(q.allNamespaces).
		LabelSelectorParam(q.labels).FieldSelectorParam(q.fields).
		RequestChunksOf(chunk).
		ResourceTypeOrNameArgs(true, slices.Clone(q.types)...). // it changes them
		ContinueOnError().Flatten()
	if q.tables {
		builder = builder.TransformRequests(func(r *rest.Request) {
			r.SetHeader("Accept", "application/json;as=Table;v=v1;g="+metav1.GroupName+",application/json")
		})
	}
	result := builder.Do()
	if q.ignoreNotFound {
		result.IgnoreErrors(apierrors.IsNotFound)
	}
	result.IntoSingleItemImplied(&a.isOne)
	a.infos, err = result.Infos()
	return err
}

// getterOf provides a member's clients to a resource.Builder.
type getterOf struct {
	config *rest.Config
	cached discovery.CachedDiscoveryInterface
}

func (g getterOf) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.config), nil }

func (g getterOf) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.cached, nil
}

func (g getterOf) ToRESTMapper() (meta.RESTMapper, error) {
	return restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(g.cached), g.cached, nil), nil
}
