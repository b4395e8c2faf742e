// Package objects is the hub's client: the objects of the Fleet API as they were last seen, and writes to them which are
// made only if the object is still the one that was seen.
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

// Client is the hub's view of its cluster: the objects of the Fleet API as they were last seen, and writes to them, each
// made only if the object is still the one that was seen. Its methods may be called concurrently.
type Client struct {
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
	Kube     kubernetes.Interface
	Recorder *Recorder
	Log      *slog.Logger

	factory dynamicinformer.DynamicSharedInformerFactory
	// objects are the caches of the kinds that people write, by resource.
	objects map[schema.GroupVersionResource]cache.SharedIndexInformer
	// mirrors are the caches of the objects that the hub makes of snapshots, decisions and overrides.
	mirrorFactory metadatainformer.SharedInformerFactory
	mirrors       map[schema.GroupVersionResource]cache.SharedIndexInformer
}

// New returns a client that watches nothing yet; see [Client.Watch], [Client.WatchMetadata] and [Client.Start].
func New(d dynamic.Interface, m metadata.Interface, k kubernetes.Interface, log *slog.Logger) *Client {
	return &Client{
		Dynamic: d, Metadata: m, Kube: k, Log: log,
		factory:       dynamicinformer.NewDynamicSharedInformerFactory(d, 0),
		objects:       map[schema.GroupVersionResource]cache.SharedIndexInformer{},
		mirrorFactory: metadatainformer.NewSharedInformerFactory(m, 0),
		mirrors:       map[schema.GroupVersionResource]cache.SharedIndexInformer{},
	}
}

// Start begins to watch. What it returns waits until the watches have ended, which they do with ctx.
func (c *Client) Start(ctx context.Context) (wait func()) {
	c.factory.Start(ctx.Done())
	c.mirrorFactory.Start(ctx.Done())
	return func() {
		c.factory.Shutdown()
		c.mirrorFactory.Shutdown()
	}
}

// byEngineName indexes placements and runs by what the engine calls them.
const byEngineName = "engine"

// Synced waits until all objects were read once: what is not known yet would
// look as if it were not there. Where a kind cannot be read it says which, after a
// time in which an API server starts.
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

// readAll waits for a while until all objects were read.
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

// unreadable says which kind cannot be read before a role or a CRD is changed.
func (c *Client) unreadable(ctx context.Context) error {
	for _, gvr := range slices.Concat(slices.Collect(maps.Keys(c.objects)), slices.Collect(maps.Keys(c.mirrors))) {
		_, err := c.Dynamic.Resource(gvr).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil && !Passes(err) {
			return fmt.Errorf("%s cannot be read: %w: install the CRDs and the roles of package hub/manifests", gvr.GroupResource(), err)
		}
	}
	return nil
}

// syncTimeout is how long reading all objects may take at the start.
const syncTimeout = time.Minute

// Watch watches a kind and is told of each object that was added, changed or
// deleted. Where nothing but the status changed, shows, which writes that, gets the object after a while. It is called before
// [Client.Start].
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

// Follow calls heard for every change of an object of a kind that is watched already, those of its status by the hub among
// them, for what shows the object elsewhere. It is called before [Client.Start].
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

// withoutManagers leaves out who manages which field: it is as long as the status of
// a large placement, and is not read here.
func withoutManagers(obj any) (any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		u.SetManagedFields(nil)
	}
	return obj, nil
}

// statusRepair is how soon after the hub wrote a status it looks whether it is as it
// should be.
const statusRepair = 10 * time.Second

// onlyOwn reports whether two versions of an object differ in nothing but the status.
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

// unwatched is told when a watch fails, which begins again by itself.
func (c *Client) unwatched(_ context.Context, r *cache.Reflector, err error) {
	if !errors.Is(err, io.EOF) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		c.Log.Warn("watching failed, will be tried again", "kind", r.TypeDescription(), "error", err)
	}
}

// Store is the cache of a kind, of which the client is told by what it watches; nil for a kind that it does not.
func (c *Client) Store(gvr schema.GroupVersionResource) cache.Store {
	for _, caches := range []map[schema.GroupVersionResource]cache.SharedIndexInformer{c.objects, c.mirrors} {
		if informer := caches[gvr]; informer != nil {
			return informer.GetStore()
		}
	}
	return nil
}

// Object returns the object of that name as it was last seen, or nil. It is the caller's, but for what is in its status, which
// may be long and is shared.
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

// Cached is [Client.Object] for those that only read: what it returns is shared.
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

// Unseen are the objects of a kind of which the watch has not told yet as they are declared now, and those that it has not told to
// be gone: a watch may tell of an object before another one tells of what was made before it.
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

// ByEngineName returns the keys of the objects of a kind that the engine calls name.
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

// All returns the objects of a kind. They are not to be changed.
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
