// Package objects is the hub's client. It caches the objects of the Fleet API, and it writes to
// an object only if the object is still the one that was seen.
package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/reconcile"
)

// Client is the hub's view of its cluster: caches of the Fleet API's objects, and conditional
// writes to them. A write succeeds only if the object is still the one that was seen. Its methods
// may be called concurrently.
type Client struct {
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
	Kube     kubernetes.Interface
	Recorder *Recorder
	Log      *slog.Logger

	factory dynamicinformer.DynamicSharedInformerFactory
	// objects are the caches of the kinds that people write, by resource.
	objects map[schema.GroupVersionResource]cache.SharedIndexInformer
	// mirrors are the caches of the mirrors: objects that show snapshots, decisions and
	// overrides.
	mirrorFactory metadatainformer.SharedInformerFactory
	mirrors       map[schema.GroupVersionResource]cache.SharedIndexInformer
}

// New returns a client that watches nothing yet; see [Client.Watch], [Client.WatchMetadata] and
// [Client.Start].
func New(d dynamic.Interface, m metadata.Interface, k kubernetes.Interface, log *slog.Logger) *Client {
	return &Client{
		Dynamic: d, Metadata: m, Kube: k, Log: log,
		factory:       dynamicinformer.NewDynamicSharedInformerFactory(d, 0),
		objects:       map[schema.GroupVersionResource]cache.SharedIndexInformer{},
		mirrorFactory: metadatainformer.NewSharedInformerFactory(m, 0),
		mirrors:       map[schema.GroupVersionResource]cache.SharedIndexInformer{},
	}
}

// Start starts the watches. They end with ctx, and wait returns after they have ended.
func (c *Client) Start(ctx context.Context) (wait func()) {
	c.factory.Start(ctx.Done())
	c.mirrorFactory.Start(ctx.Done())
	return func() {
		c.factory.Shutdown()
		c.mirrorFactory.Shutdown()
	}
}

// byEngineName indexes placements and runs by their names in the engine.
const byEngineName = "engine"

// Synced waits until all objects were read once, because an unread object would look like a
// missing one. If a kind cannot be read, the error names it, after a time in which an API server
// starts.
func (c *Client) Synced(ctx context.Context) error {
	for !c.readAll(ctx) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := c.unreadable(ctx); err != nil {
			return err
		}
		c.Log.Warn("not all objects could be read yet, will be tried again")
	}
	return nil
}

// readAll waits up to syncTimeout until all objects were read, and reports whether they were.
func (c *Client) readAll(ctx context.Context) bool {
	brief, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	read := true
	for _, ok := range c.factory.WaitForCacheSync(brief.Done()) {
		read = read && ok
	}
	for _, ok := range c.mirrorFactory.WaitForCacheSync(brief.Done()) {
		read = read && ok
	}
	return read
}

// unreadable returns an error that names a kind that the hub can read only after a role or a CRD
// is changed.
func (c *Client) unreadable(ctx context.Context) error {
	for _, gvr := range slices.Concat(slices.Collect(maps.Keys(c.objects)), slices.Collect(maps.Keys(c.mirrors))) {
		_, err := c.Dynamic.Resource(gvr).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil && !Passes(err) {
			return fmt.Errorf("%s cannot be read: %w: install the CRDs and the roles of package hub/manifests", gvr.GroupResource(), err)
		}
	}
	return nil
}

// syncTimeout limits one wait for the first read of all objects.
const syncTimeout = time.Minute

// Watch watches a kind and calls heard for each object that was added, changed or deleted. If
// only the status of an object changed, Watch adds the object to shows, the queue that writes the
// status, after statusRepair. Watch must be called before [Client.Start].
func (c *Client) Watch(gvr schema.GroupVersionResource, shows *reconcile.Queue[api.Key], heard func(*unstructured.Unstructured)) error {
	informer := c.factory.ForResource(gvr).Informer()
	tell := func(obj any) {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			heard(u)
		}
	}
	gone := func(obj any) {
		if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = last.Obj
		}
		if u, ok := obj.(*unstructured.Unstructured); ok {
			heard(u)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell, DeleteFunc: gone, UpdateFunc: func(before, now any) {
			if k, own := onlyOwn(before, now); own && shows != nil {
				shows.AddPaced(k, statusRepair)
				return
			}
			tell(now)
		},
	})
	if err == nil {
		err = errors.Join(informer.AddIndexers(cache.Indexers{byEngineName: engineNames}),
			informer.SetTransform(withoutManagers), informer.SetWatchErrorHandlerWithContext(c.unwatched))
	}
	if err != nil {
		return fmt.Errorf("watching %s: %w", gvr.Resource, err)
	}
	c.objects[gvr] = informer
	return nil
}

// Follow calls heard for every change of an object of a kind that is watched already, also for
// the hub's own changes of its status. It serves objects that show the watched object elsewhere.
// Follow must be called before [Client.Start].
func (c *Client) Follow(gvr schema.GroupVersionResource, heard func(api.Key)) error {
	key := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if u, ok := obj.(*unstructured.Unstructured); ok {
			heard(api.KeyOf(u))
		}
	}
	_, err := c.objects[gvr].AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: key, UpdateFunc: func(_, now any) { key(now) }, DeleteFunc: key,
	})
	if err != nil {
		return fmt.Errorf("watching %s: %w", gvr.Resource, err)
	}
	return nil
}

// withoutManagers drops the managed fields, which are as long as the status of a large placement
// and are not read here.
func withoutManagers(obj any) (any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		u.SetManagedFields(nil)
	}
	return obj, nil
}

// statusRepair is the delay after which the hub checks a status that changed alone.
const statusRepair = 10 * time.Second

// onlyOwn reports whether two versions of an object differ only in the status.
func onlyOwn(before, now any) (api.Key, bool) {
	a, isA := before.(*unstructured.Unstructured)
	b, isB := now.(*unstructured.Unstructured)
	if !isA || !isB {
		return api.Key{}, false
	}
	return api.KeyOf(b), isDeclaredAs(a, b)
}

// isDeclaredAs reports whether two versions of an object declare the same.
func isDeclaredAs(a, b metav1.Object) bool {
	return a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration() && a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp()) &&
		slices.Equal(a.GetFinalizers(), b.GetFinalizers()) && maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations())
}

func engineNames(obj any) ([]string, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, nil
	}
	return []string{kubefleet.EngineName(u.GetNamespace(), u.GetName())}, nil
}

// unwatched logs the failure of a watch, which starts again by itself.
func (c *Client) unwatched(_ context.Context, r *cache.Reflector, err error) {
	if !errors.Is(err, io.EOF) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		c.Log.Warn("watching failed, will be tried again", "kind", r.TypeDescription(), "error", err)
	}
}

// Store returns the cache of a kind, or nil if the client does not watch the kind.
func (c *Client) Store(gvr schema.GroupVersionResource) cache.Store {
	for _, caches := range []map[schema.GroupVersionResource]cache.SharedIndexInformer{c.objects, c.mirrors} {
		if informer := caches[gvr]; informer != nil {
			return informer.GetStore()
		}
	}
	return nil
}

// Object returns the cached object of that name, or nil. The caller may change it, except its
// status, which may be long and is shared.
func (c *Client) Object(gvr schema.GroupVersionResource, k api.Key) *unstructured.Unstructured {
	u := c.Cached(gvr, k)
	if u == nil {
		return nil
	}
	status, has := u.Object["status"]
	rest := maps.Clone(u.Object)
	delete(rest, "status")
	out := (&unstructured.Unstructured{Object: rest}).DeepCopy()
	if has {
		out.Object["status"] = status
	}
	return out
}

// Cached returns the same object as [Client.Object] for callers that only read it, because the
// object is shared.
func (c *Client) Cached(gvr schema.GroupVersionResource, k api.Key) *unstructured.Unstructured {
	at := k.Name
	if k.Namespace != "" {
		at = k.Namespace + "/" + k.Name
	}
	obj, ok, err := c.objects[gvr].GetStore().GetByKey(at)
	if u, is := obj.(*unstructured.Unstructured); is && ok && err == nil {
		return u
	}
	return nil
}

// Unseen compares the cache of a kind with the API server. It returns the keys of objects that
// are missing or older in the cache, and the cached objects that no longer exist. It is needed
// because the watch of one kind may report an object before the watch of another kind reports an
// older one.
func (c *Client) Unseen(ctx context.Context, gvr schema.GroupVersionResource) (now []api.Key, gone []*unstructured.Unstructured, err error) {
	seen := map[types.UID]*unstructured.Unstructured{}
	for _, u := range c.All(gvr) {
		seen[u.GetUID()] = u
	}
	list, err := c.Metadata.Resource(gvr).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	for i := range list.Items {
		o := &list.Items[i]
		if u := seen[o.GetUID()]; u == nil || u.GetGeneration() < o.GetGeneration() {
			now = append(now, api.Key{Namespace: o.GetNamespace(), Name: o.GetName()})
		}
		delete(seen, o.GetUID())
	}
	return now, slices.Collect(maps.Values(seen)), nil
}

// ByEngineName returns the keys of the objects of a kind whose name in the engine is name.
func (c *Client) ByEngineName(base, name string) []api.Key {
	var out []api.Key
	for _, in := range []api.Scope{api.ClusterScope, api.NamespaceScope} {
		found, err := c.objects[in.GVR(base)].GetIndexer().ByIndex(byEngineName, name)
		if err != nil {
			continue
		}
		for _, obj := range found {
			out = append(out, api.KeyOf(obj.(*unstructured.Unstructured)))
		}
	}
	return out
}

// All returns the objects of a kind. The caller must not change them.
func (c *Client) All(gvr schema.GroupVersionResource) []*unstructured.Unstructured {
	list := c.objects[gvr].GetStore().List()
	out := make([]*unstructured.Unstructured, 0, len(list))
	for _, obj := range list {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			out = append(out, u)
		}
	}
	return out
}
