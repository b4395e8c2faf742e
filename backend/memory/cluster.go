package memory

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// Cluster is a member cluster in memory: an object store with the semantics of
// a Kubernetes API server as far as a [backend.Conn] shows them.
//
// An object is identified by group, kind, namespace and name, and is returned
// in whatever version is asked for. It is namespaced if it has a
// metadata.namespace; the namespace must exist, as default and kube-system do
// from the beginning. Deleting a namespace deletes what is in it. An object
// with metadata.finalizers terminates until they are removed, and so does the
// namespace around it. The uid is made of the cluster's name and a counter,
// the resourceVersion counts the writes of the cluster, and the generation
// rises when something besides metadata and status changes.
//
// Apply merges as a server-side apply without a schema: objects merge, lists
// and everything else are atomic. It ignores status and the metadata that a
// server sets. An object given to Apply is kept, not copied, so that clusters
// that hold the same object hold it once.
type Cluster struct {
	name string

	mu     sync.Mutex
	refuse func(*unstructured.Unstructured) error
	server server
	kept   *persistence // nil where only memory holds the cluster
}

// NewCluster returns a cluster with two namespaces, default and kube-system.
// Two clusters of one name have the same uids.
func NewCluster(name string) *Cluster { return newCluster(name, 0, newNamespaces()) }

// namespaces are what every cluster has from the beginning. The clusters of a
// fleet share them.
type namespaces struct {
	standard, system tree
}

func newNamespaces() namespaces {
	return namespaces{namespaceTree("default"), namespaceTree("kube-system")}
}

func namespaceTree(name string) tree {
	return tree{"apiVersion": "v1", "kind": "Namespace", "metadata": tree{"name": name}}
}

// newCluster makes the nth cluster of that name.
func newCluster(name string, nth int, ns namespaces) *Cluster {
	c := &Cluster{name: name, server: server{uidPrefix: uidPrefix(name, nth), objects: map[key]*object{}}}
	c.server.add(namespaceKey("default"), ns.standard, owner{})
	c.server.add(namespaceKey("kube-system"), ns.system, owner{})
	return c
}

func uidPrefix(name string, nth int) string {
	h := fnv.New64a()
	h.Write([]byte(name + "/" + strconv.Itoa(nth)))
	x := fmt.Sprintf("%016x", h.Sum64())
	return x[:8] + "-" + x[8:12] + "-" + x[12:] + "-8000-"
}

// Name returns the name the cluster was made with.
func (c *Cluster) Name() string { return c.name }

// UID returns the uid of the kube-system namespace, which identifies the
// cluster.
func (c *Cluster) UID() string { return c.server.uidOf(2) }

// SetClock gives the cluster the time that it writes into creationTimestamp
// and deletionTimestamp. Without a clock, which is the default, objects have no
// creationTimestamp and terminate since 1970. The clock must not call c.
func (c *Cluster) SetClock(now func() time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server.clock = now
}

// Refuse makes every apply fail for which f returns an error, as an API server
// does with a kind it does not know or an object it does not admit. The error
// becomes ErrPermanent. f may be called concurrently and must not change the
// object; nil refuses nothing.
func (c *Cluster) Refuse(f func(obj *unstructured.Unstructured) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = f
}

// React makes f the controllers of the cluster: it is called with every object
// whose generation rose, and what it returns becomes the object's status
// before the write returns. nil leaves the status as it is, but for a
// CustomResourceDefinition without any, which is established. f must not call c.
func (c *Cluster) React(f func(obj *unstructured.Unstructured) (status map[string]any)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server.react = f
}

// ManagedFields makes objects come with metadata.managedFields, which costs a
// few microseconds for each. It is off in the beginning.
func (c *Cluster) ManagedFields(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server.managedFields = on
}

// Get returns the object that id names, or ErrNotFound. The object is the
// caller's.
func (c *Cluster) Get(id snapshot.ID) (*unstructured.Unstructured, error) {
	return c.get(context.Background(), id)
}

func (c *Cluster) get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	k := keyOf(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.fresh(ctx); err != nil {
		return nil, failed("get", k.String(), err)
	}
	o := c.server.objects[k]
	if o == nil {
		return nil, failed("get", k.String(), backend.ErrNotFound)
	}
	return c.server.materialise(o, id.Version), nil
}

// List returns the objects in a namespace, or with an empty namespace all
// objects of the cluster, by namespace, group, kind and name. They are the
// caller's. After a write that failed in the store of [Fleet.Keep], and while
// that cannot be read, they are as if the write had happened, here and in Len.
func (c *Cluster) List(namespace string) []*unstructured.Unstructured {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.fresh(context.Background())
	var out []*unstructured.Unstructured
	for _, k := range c.server.keys() {
		if namespace == "" || k.namespace == namespace {
			out = append(out, c.server.materialise(c.server.objects[k], ""))
		}
	}
	return out
}

// Len returns the number of objects, namespaces included.
func (c *Cluster) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.fresh(context.Background())
	return len(c.server.objects)
}

// String names the cluster.
func (c *Cluster) String() string { return fmt.Sprintf("cluster %s", c.name) }
