// Package backend defines the interfaces through which the engine stores its
// state and reaches clusters.
//
// A [Store] keeps bytes under keys with compare-and-swap; an [Inventory] lists the clusters; a
// [Dialer] opens a [Conn] to one of them. Each interface has one role. A backend adds optional
// features by a second interface ([Watcher], [Batcher], [ConnWatcher], [ConnDryRunner],
// [ConnLister], [ConnMeasurer], [ConnFencer], [InventoryWatcher]). This package has a function for
// each of them, which uses the interface if the backend has it and otherwise does without it:
// [Watch], [WriteAll], [WatchConn], [DryRun], [ListNamespace], [Measure], [FencingOf],
// [WatchInventory]. An optional interface may change the cost, never the result.
//
// Package backendtest tests an implementation; package memory is the smallest
// implementation; package faulty injects faults into any implementation.
//
// An [Updater] carries out an [Assignment] of a run on a cluster and returns the
// [Proof]. The engine's own updater applies objects through a Conn. A host may supply
// another updater, which may also be an [UpdaterWatcher] and a [Preflighter].
package backend

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Revision identifies one write of a key. It is opaque and compared only for
// equality; no two writes of a key have the same one. The zero Revision means
// that the key does not exist.
type Revision string

// Record is a stored value. The caller may keep and change Value.
type Record struct {
	Key      string
	Value    []byte
	Revision Revision
}

// Store keeps records. It is linearizable for each key and promises nothing
// across keys. A write that was acknowledged is not lost.
//
// Keys are slash separated, not empty, at most 512 bytes of lower-case letters, digits, '-', '.',
// '_' and '/'. Values are at most 1 MiB. Any other key or value is ErrPermanent; [ValidateKey] and
// [ValidateValue] check them. All methods may be called concurrently. A write that returns an error
// other than ErrConflict, ErrNotFound or ErrPermanent may or may not have happened; a write whose
// ctx ends leaves the old value or the new one.
//
// The engine trusts that Get and List return the written values. If the medium of a store can
// damage a value, the store must verify it and return ErrPermanent for a damaged value.
type Store interface {
	// Get returns the record of key, or ErrNotFound.
	Get(ctx context.Context, key string) (Record, error)
	// Put writes value if the revision of key is prev, and returns the new
	// revision. If prev is zero, Put creates the key; otherwise the key must exist. Put returns
	// ErrConflict if the key is at another revision, exists already or is gone. Put does not retain
	// value.
	Put(ctx context.Context, key string, value []byte, prev Revision) (Revision, error)
	// Delete removes key if its revision is prev. It returns ErrConflict if the key is
	// at another revision, and ErrNotFound if the key does not exist.
	Delete(ctx context.Context, key string, prev Revision) error
	// List yields the records whose key begins with prefix, ascending by key.
	// A key that exists from the beginning of the call to its end is yielded
	// exactly once. A key that is written during the call may be missed or yielded
	// with either value. After an error List yields nothing more.
	List(ctx context.Context, prefix string) iter.Seq2[Record, error]
}

// Change says that a key was written or deleted. Revision is zero if it was deleted.
type Change struct {
	Key      string
	Revision Revision
	Deleted  bool
}

// Watcher is a [Store] that can announce changes. See [Watch].
type Watcher interface {
	Store
	// Watch yields a change for every key under prefix that exists when it
	// begins, then for every later write. If a key is written several times, Watch may yield only the
	// last write. It ends with ctx, yielding ctx's error, or with another error when changes may have
	// been lost; the caller then watches again.
	Watch(ctx context.Context, prefix string) iter.Seq2[Change, error]
}

// Inventory lists the clusters of the fleet. The engine limits each cluster with
// [placement.Cluster.Bounded], and skips clusters whose name is not a DNS label.
type Inventory interface {
	// Clusters yields every cluster once, in any order.
	Clusters(ctx context.Context) iter.Seq2[placement.Cluster, error]
}

// InventoryFunc makes a function an [Inventory].
type InventoryFunc func(ctx context.Context) iter.Seq2[placement.Cluster, error]

// Clusters calls f.
func (f InventoryFunc) Clusters(ctx context.Context) iter.Seq2[placement.Cluster, error] {
	return f(ctx)
}

// InventoryWatcher is an [Inventory] that can announce changes.
type InventoryWatcher interface {
	Inventory
	// WatchClusters yields once at its beginning and then after every change;
	// changes may be coalesced. It ends like [Watcher.Watch].
	WatchClusters(ctx context.Context) iter.Seq2[struct{}, error]
}

// Dialer opens connections to member clusters.
type Dialer interface {
	// Dial returns a connection to c. The engine keeps one connection to a
	// cluster, and closes it when it has not used it for some minutes.
	Dial(ctx context.Context, c placement.Cluster) (Conn, error)
}

// DialerFunc makes a function a [Dialer].
type DialerFunc func(ctx context.Context, c placement.Cluster) (Conn, error)

// Dial calls f.
func (f DialerFunc) Dial(ctx context.Context, c placement.Cluster) (Conn, error) { return f(ctx, c) }

// Precondition guards a write of an object on a member. The zero value demands
// nothing.
type Precondition struct {
	// Absent demands that the object does not exist.
	Absent bool
	// UID and ResourceVersion, if not empty, demand that the object exists
	// with exactly these values.
	UID, ResourceVersion string
}

// ApplyOptions say how an object is applied.
type ApplyOptions struct {
	// Manager owns the fields that are applied: slipway/<placement>.
	Manager string
	// RefuseConflicts has an apply that would change a field of another manager change nothing and
	// return a [*FieldConflictError]. Without it, such fields become Manager's.
	RefuseConflicts bool
	// Owners, if not empty, replaces metadata.managedFields of the object before the apply, under
	// the same precondition. A Conn ignores it if its members record no owners.
	Owners []any
	// Brief reports whether the caller reads only the ID, the uid and the resourceVersion of the
	// returned object: the rest may be missing.
	Brief bool
	Precondition
	// Fence is an additional precondition that a [ConnFencer] checks.
	Fence Fence
}

// DeleteOptions say how an object is deleted or released.
type DeleteOptions struct {
	// Manager is the field manager whose ownership Release removes.
	Manager string
	// Release keeps the object and its values. It removes only Manager's
	// ownership and the annotations and labels named in Marks.
	Release bool
	// Marks are keys of metadata.annotations and metadata.labels.
	Marks []string
	Precondition
	// Fence is an additional precondition that a [ConnFencer] checks.
	Fence Fence
}

// Conn is a connection to one member cluster. Its methods may be called
// concurrently and must honor ctx. Neither the Conn nor the caller may change an
// object after it was passed in. The caller owns a returned object.
type Conn interface {
	// Get returns the live object that id names. It returns ErrNotFound if the member
	// has no such object or does not know its kind.
	Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error)
	// Apply sets the fields of obj on the live object and forces ownership of them
	// (server-side apply). Fields of other managers stay; fields that Manager
	// applied before and that obj no longer has are removed. Apply returns the new
	// live object. An apply without changes keeps the resourceVersion.
	//
	// Apply returns ErrConflict if a precondition does not hold, ErrNotFound if the
	// namespace does not exist, and ErrPermanent if the member does not know the kind
	// or refuses the object. It returns a [*SchemaError] if the member refuses only
	// repeated keys or fields that the schema does not have.
	Apply(ctx context.Context, obj *unstructured.Unstructured, o ApplyOptions) (*unstructured.Unstructured, error)
	// Delete removes the object, or releases it. It returns ErrNotFound if the object does not
	// exist, and ErrConflict if a precondition does not hold. Deletion may continue after Delete
	// returned: it is complete when Get returns ErrNotFound.
	Delete(ctx context.Context, id snapshot.ID, o DeleteOptions) error
	// Close ends the connection; calls in flight may fail.
	Close() error
}

// ConnWatcher is a [Conn] that can announce changes of objects. See [WatchConn].
type ConnWatcher interface {
	Conn
	// Watch yields once at its beginning and then after every change of an
	// object in ids; changes may be coalesced. It ends like [Watcher.Watch].
	Watch(ctx context.Context, ids []snapshot.ID) iter.Seq2[struct{}, error]
}

// ConnDryRunner is a [Conn] that can compute the result of an apply. See [DryRun].
type ConnDryRunner interface {
	Conn
	// DryRun returns the object or error that Apply would return, and writes nothing. It returns an
	// error matching errors.ErrUnsupported if the member does not support dry runs.
	DryRun(ctx context.Context, obj *unstructured.Unstructured, o ApplyOptions) (*unstructured.Unstructured, error)
}

// ConnLister is a [Conn] that can list a namespace. See [ListNamespace].
type ConnLister interface {
	Conn
	// List yields all objects of any kind in a namespace that can be deleted, each at least once
	// and with at least apiVersion, kind and metadata. An object that is created during the call
	// may be missed. If any kind cannot be listed, List ends with an error: ErrPermanent if the
	// member refuses. A namespace that does not exist has no objects.
	List(ctx context.Context, namespace string) iter.Seq2[*unstructured.Unstructured, error]
}

// ConnMeasurer is a [Conn] that can measure its cluster. See [Measure].
type ConnMeasurer interface {
	Conn
	// Measure reads the nodes, resources and namespaces of the cluster. It omits parts that the
	// connection may not read or that exceed its limits. An error concerns the whole cluster.
	Measure(ctx context.Context) (Measurement, error)
}

// Measurement holds the nodes, resources and namespaces of a cluster that could be read.
type Measurement struct {
	// Nodes is the number of nodes. Capacity and Allocatable are their sums by resource: cpu and
	// memory; they are nil if the nodes could not be read.
	Nodes                 int
	Capacity, Allocatable map[string]resource.Quantity
	// Available is Allocatable minus the requests of pods; nil if it is unknown.
	Available map[string]resource.Quantity
	// Namespaces are the names of at most 200 namespaces that are not being deleted, ascending; nil
	// if they could not be read. MoreNamespaces is set if there are more.
	Namespaces     []string
	MoreNamespaces bool
}

// Measure calls Measure of a [ConnMeasurer]. For any other connection it returns an error matching
// errors.ErrUnsupported.
func Measure(ctx context.Context, c Conn) (Measurement, error) {
	if m, ok := c.(ConnMeasurer); ok {
		return m.Measure(ctx)
	}
	return Measurement{}, fmt.Errorf("measure: %w", errors.ErrUnsupported)
}

// ListNamespace calls List of a [ConnLister]. For any other connection it yields an error matching
// errors.ErrUnsupported.
func ListNamespace(ctx context.Context, c Conn, namespace string) iter.Seq2[*unstructured.Unstructured, error] {
	if l, ok := c.(ConnLister); ok {
		return l.List(ctx, namespace)
	}
	return func(yield func(*unstructured.Unstructured, error) bool) {
		yield(nil, fmt.Errorf("list: %w", errors.ErrUnsupported))
	}
}

// DryRun calls DryRun of a [ConnDryRunner]. For any other connection it returns an error matching
// errors.ErrUnsupported.
func DryRun(ctx context.Context, c Conn, obj *unstructured.Unstructured, o ApplyOptions) (*unstructured.Unstructured, error) {
	if d, ok := c.(ConnDryRunner); ok {
		return d.DryRun(ctx, obj, o)
	}
	return nil, fmt.Errorf("dry run: %w", errors.ErrUnsupported)
}
