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

// catalog is what kinds the hub serves.
type catalog struct {
	kinds map[schema.GroupVersionKind]hubKind
	// content are the kinds that may be in a namespace and be placed, each in
	// the version that its group prefers, in the order of their names.
	content []hubKind
	// unknown are the versions of groups of which the hub does not know, as
	// their servers do not answer.
	unknown map[schema.GroupVersion]error
}

// hubKinds asks the hub what kinds it serves, and keeps the answer for those who
// are content with it.
type hubKinds struct {
	from  discovery.DiscoveryInterface
	rules snapshot.Rules

	mu     sync.Mutex
	latest *inquiry
}

// inquiry is a question to the hub that several callers share.
type inquiry struct {
	at      time.Time // when it was asked; zero while it waits for the one before
	done    chan struct{}
	catalog *catalog
	err     error
}

const (
	// contentAge is how old the answer may be what kinds can be in a namespace,
	// and missAge that there is no such kind. The hub itself takes about as long
	// to list a new kind.
	contentAge = time.Second
	missAge    = 100 * time.Millisecond
)

// get returns the catalog as the hub told it at most age ago.
func (k *hubKinds) get(ctx context.Context, age time.Duration) (*catalog, error) {
	q := k.inquire(age)
	select {
	case <-q.done:
		return q.catalog, q.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inquire returns a question that was asked at most age ago, or will be. One that
// failed is asked again by the next caller. A hub that does not answer
// is asked one question at a time.
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

// begin waits for the question before this one.
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

// find returns a kind. One that the hub does not serve is a
// meta.NoKindMatchError.
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
			err = fmt.Errorf("what the hub serves of %s is not known at present: %w", gvk.GroupVersion(), cause)
		}
		if err != nil && age == missAge {
			return hubKind{}, err
		}
	}
	return hubKind{}, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}

// forget makes the next question a new one.
func (k *hubKinds) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.latest = nil
}

// refresh asks the API server for its kinds, unless the last answer is younger than age.
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

// listable returns the kind of a resource that is no part of another and can be
// listed.
func listable(gv schema.GroupVersion, r *metav1.APIResource) (hubKind, bool) {
	if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") {
		return hubKind{}, false
	}
	return hubKind{
		gvk: gv.WithKind(r.Kind), resource: gv.WithResource(r.Name), namespaced: r.Namespaced,
		watchable: slices.Contains(r.Verbs, "watch"),
	}, true
}

// preferred returns the kinds that may be in a namespace and be placed under rules.
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

// isPlaced reports whether an object of this name may be placed on other clusters,
// whatever else it holds.
func isPlaced(id snapshot.ID) bool {
	bare := &unstructured.Unstructured{}
	bare.SetGroupVersionKind(api.GVKOf(id))
	bare.SetNamespace(id.Namespace)
	bare.SetName(id.Name)
	return snapshot.Propagates(bare)
}

// isComplete returns an error where the hub may serve kinds that are placed and
// that it does not tell of.
func (c *catalog) isComplete() error {
	for gv, err := range c.unknown {
		if (snapshot.Rules{}).AllowsKind(gv.Group, "Any") {
			return fmt.Errorf("what the hub serves of %s is not known at present, so that something could be left out: %w", gv, err)
		}
	}
	return nil
}

var errClusterScoped = fmt.Errorf("the kind is cluster-scoped, and only what is in a namespace is asked for; use a ClusterResourcePlacement: %w", backend.ErrPermanent)
