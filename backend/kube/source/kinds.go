package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/snapshot"
)

// hubKind is a kind of object that the hub serves.
type hubKind struct {
	gvk        schema.GroupVersionKind
	resource   schema.GroupVersionResource
	namespaced bool
	watchable  bool
}

// catalog has the kinds that the hub serves.
type catalog struct {
	kinds map[schema.GroupVersionKind]hubKind
	// content has the namespaced kinds that may be placed, each in the version that its group
	// prefers, sorted by name.
	content []hubKind
	// unknown are the versions of groups with unknown kinds, because their servers do not answer.
	unknown map[schema.GroupVersion]error
}

// hubKinds discovers the hub's kinds, and keeps the answer for callers that accept its age.
type hubKinds struct {
	from  discovery.DiscoveryInterface
	rules snapshot.Rules

	mu     sync.Mutex
	latest *inquiry
}

// inquiry is a discovery request that several callers share.
type inquiry struct {
	at      time.Time // when it was sent; zero while it waits for the previous one
	done    chan struct{}
	catalog *catalog
	err     error
}

const (
	// contentAge is the greatest age of the list of namespaced kinds, and missAge the greatest age
	// of the answer that a kind does not exist. The hub itself takes about as long to list a new
	// kind.
	contentAge = time.Second
	missAge    = 100 * time.Millisecond
)

// get returns a catalog that is at most as old as age.
func (k *hubKinds) get(ctx context.Context, age time.Duration) (*catalog, error) {
	q := k.inquire(age)
	select {
	case <-q.done:
		return q.catalog, q.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inquire returns a request that was sent at most age ago, or will be. The next caller repeats a
// failed request. A hub that does not answer gets one request at a time.
func (k *hubKinds) inquire(age time.Duration) *inquiry {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.latest
	if before != nil && (before.at.IsZero() || time.Since(before.at) <= age) && !before.failed() {
		return before
	}
	q := &inquiry{done: make(chan struct{})}
	k.latest = q
	go func() {
		defer close(q.done)
		k.begin(q, before)
		q.catalog, q.err = k.ask()
	}()
	return q
}

// begin waits for the previous request.
func (k *hubKinds) begin(q, before *inquiry) {
	if before != nil {
		<-before.done
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	q.at = time.Now()
}

func (q *inquiry) failed() bool {
	select {
	case <-q.done:
		return q.err != nil
	default:
		return false
	}
}

// find returns a kind. If the hub does not serve it, the error is a meta.NoKindMatchError.
func (k *hubKinds) find(ctx context.Context, gvk schema.GroupVersionKind) (hubKind, error) {
	for _, age := range []time.Duration{kindsPause, missAge} {
		c, err := k.get(ctx, age)
		if err != nil {
			return hubKind{}, err
		}
		if kind, ok := c.kinds[gvk]; ok {
			return kind, nil
		}
		if cause := c.unknown[gvk.GroupVersion()]; cause != nil {
			err = fmt.Errorf("the kinds of %s on the hub cannot be discovered now: %w", gvk.GroupVersion(), cause)
		}
		if err != nil && age == missAge {
			return hubKind{}, err
		}
	}
	return hubKind{}, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}

// forget makes the next caller send a new request.
func (k *hubKinds) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.latest = nil
}

// refresh requests the kinds of the API server, unless the last answer is younger than age.
func (k *hubKinds) refresh(age time.Duration) { k.inquire(age) }

func (k *hubKinds) ask() (*catalog, error) {
	groups, lists, err := k.from.ServerGroupsAndResources()
	c := &catalog{kinds: map[schema.GroupVersionKind]hubKind{}}
	var partial *discovery.ErrGroupDiscoveryFailed
	switch {
	case errors.As(err, &partial):
		c.unknown = partial.Groups
	case err != nil:
		return nil, err
	}
	resources := map[schema.GroupVersion][]hubKind{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("the hub lists a version that is none: %w", err)
		}
		for i := range list.APIResources {
			if kind, ok := listable(gv, &list.APIResources[i]); ok {
				resources[gv] = append(resources[gv], kind)
				c.kinds[kind.gvk] = kind
			}
		}
	}
	c.content = preferred(groups, resources, k.rules)
	return c, nil
}

// listable returns the kind of a resource, and false for subresources and resources that cannot
// be listed.
func listable(gv schema.GroupVersion, r *metav1.APIResource) (hubKind, bool) {
	if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") {
		return hubKind{}, false
	}
	return hubKind{
		gvk: gv.WithKind(r.Kind), resource: gv.WithResource(r.Name), namespaced: r.Namespaced,
		watchable: slices.Contains(r.Verbs, "watch"),
	}, true
}

// preferred returns the namespaced kinds that may be placed under rules.
func preferred(groups []*metav1.APIGroup, resources map[schema.GroupVersion][]hubKind, rules snapshot.Rules) []hubKind {
	var content []hubKind
	seen := map[schema.GroupResource]bool{}
	for _, g := range groups {
		versions := []string{g.PreferredVersion.Version}
		for _, v := range g.Versions {
			versions = append(versions, v.Version)
		}
		for _, v := range versions {
			for _, kind := range resources[schema.GroupVersion{Group: g.Name, Version: v}] {
				id := kind.resource.GroupResource()
				if kind.namespaced && kind.watchable && !seen[id] && rules.AllowsKind(kind.gvk.Group, kind.gvk.Kind) {
					content = append(content, kind)
				}
				seen[id] = true
			}
		}
	}
	slices.SortFunc(content, func(a, b hubKind) int { return strings.Compare(a.resource.String(), b.resource.String()) })
	return content
}

// isPlaced reports whether an object with this name may be placed on other clusters, apart from
// its content.
func isPlaced(id snapshot.ID) bool {
	bare := &unstructured.Unstructured{}
	bare.SetGroupVersionKind(api.GVKOf(id))
	bare.SetNamespace(id.Namespace)
	bare.SetName(id.Name)
	return snapshot.Propagates(bare)
}

// isComplete returns an error if the hub may serve further kinds that are placed, because some of
// its servers do not answer.
func (c *catalog) isComplete() error {
	for gv, err := range c.unknown {
		if (snapshot.Rules{}).AllowsKind(gv.Group, "Any") {
			return fmt.Errorf("the kinds of %s on the hub cannot be discovered now, so that objects could be left out: %w", gv, err)
		}
	}
	return nil
}

var errClusterScoped = fmt.Errorf("the kind is cluster-scoped, and a ResourcePlacement selects objects of its namespace; use a ClusterResourcePlacement: %w", backend.ErrPermanent)
