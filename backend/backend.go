// Package backend answers HOW: the seams through which the engine keeps its
// state and reaches clusters.
//
// A [Store] keeps bytes under keys with compare-and-swap; an [Inventory] lists
// the clusters; a [Dialer] opens a [Conn] to one of them. Each interface has
// one role. What a backend can do beyond that is a second interface
// ([Watcher], [Batcher], [ConnWatcher], [ConnDryRunner], [ConnLister], [ConnMeasurer], [ConnFencer], [InventoryWatcher]) with a
// package function that falls back where it is missing: [Watch], [WriteAll],
// [WatchConn], [DryRun], [ListNamespace], [Measure], [FencingOf], [WatchInventory]. An upgrade may change the cost, never the
// result.
//
// Package backendtest proves an implementation; package memory is the smallest
// one; package faulty breaks any of them on purpose.
//
// An [Updater] does to a cluster what runs ask for, an [Assignment], and returns the [Proof]. The engine has one that
// applies objects through a Conn; a host may bring another, which may also be an [UpdaterWatcher] and a [Preflighter].
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

// Record is a stored value. Value is the caller's to keep and to change.
type Record struct {
	Key      string
	Value    []byte
	Revision Revision
}

// Store keeps records. It is linearizable for each key and promises nothing
// across keys. A write that was acknowledged is not lost.
//
// Keys are slash separated, not empty, at most 512 bytes of lower-case letters, digits, '-', '.', '_' and
// '/'. Values are at most 1 MiB. Any other key or value is ErrPermanent; [ValidateKey] and [ValidateValue]
// check them. All methods may be called concurrently. A write that returns an error other than ErrConflict,
// ErrNotFound or ErrPermanent may or may not have happened; a write whose ctx ends leaves the old value or
// the new one.
//
// The engine trusts that Get and List return what was written: a store whose medium can damage a value
// verifies it, and returns ErrPermanent if it is damaged.
type Store interface {
	// Get returns the record of key, or ErrNotFound.
	Get(ctx context.Context, key string) (Record, error)
	// Put writes value if the revision of key is prev, and returns the new
	// revision. A zero prev creates; otherwise the key must exist. A key that
	// is at another revision, exists already or is gone is ErrConflict.
	// Put does not keep value.
	Put(ctx context.Context, key string, value []byte, prev Revision) (Revision, error)
	// Delete removes key if its revision is prev. A key that is at another
	// revision is ErrConflict, one that does not exist ErrNotFound.
	Delete(ctx context.Context, key string, prev Revision) error
	// List yields the records whose key begins with prefix, ascending by key.
	// A key that exists from the beginning of the call to its end is yielded
	// exactly once; one that is written meanwhile may be missed or yielded
	// with either value. After an error it yields nothing more.
	List(ctx context.Context, prefix string) iter.Seq2[Record, error]
}

// Change says that a key was written, or deleted; then Revision is zero.
type Change struct {
	Key      string
	Revision Revision
	Deleted  bool
}

// Watcher is a [Store] that can say what changes. See [Watch].
type Watcher interface {
	Store
	// Watch yields a change for every key under prefix that exists when it
	// begins, then for every later write. Several writes of one key may be
	// yielded as the last of them. It ends with ctx, yielding ctx's error, or
	// with another error when changes may have been lost; the caller then
	// watches again.
	Watch(ctx context.Context, prefix string) iter.Seq2[Change, error]
}

// Inventory lists the clusters of the fleet. The engine takes each of them as
// [placement.Cluster.Bounded], and leaves out those whose names are no DNS labels.
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

// InventoryWatcher is an [Inventory] that can say that it changed.
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
	// UID and ResourceVersion, where not empty, demand that the object exists
	// with exactly these.
	UID, ResourceVersion string
}

// ApplyOptions say how an object is applied.
type ApplyOptions struct {
	// Manager owns the fields that are applied: slipway/<placement>.
	Manager string
	// RefuseConflicts has an apply that would change a field of another manager change nothing and return a
	// [*FieldConflictError]. Without it, such fields become Manager's.
	RefuseConflicts bool
	// Owners, where not empty, replaces metadata.managedFields of the object before the apply, under the same
	// precondition. A Conn whose members record no owners ignores it.
	Owners []any
	// Brief reports whether the caller reads only the ID, the uid and the resourceVersion of the returned
	// object: the rest may be missing.
	Brief bool
	Precondition
	// Fence is demanded besides, by a [ConnFencer].
	Fence Fence
}

// DeleteOptions say how an object is deleted or released.
type DeleteOptions struct {
	// Manager is whose fields are given up by Release.
	Manager string
	// Release keeps the object and its values, and takes away only Manager's
	// ownership and the annotations and labels named in Marks.
	Release bool
	// Marks are keys of metadata.annotations and metadata.labels.
	Marks []string
	Precondition
	// Fence is demanded besides, by a [ConnFencer].
	Fence Fence
}

// Conn is a connection to one member cluster. Its methods may be called
// concurrently and honour ctx. An object passed in is not changed by the Conn
// and not changed by the caller afterwards; an object returned is the
// caller's.
type Conn interface {
	// Get returns the object that id names, as the member holds it, or
	// ErrNotFound, also for a kind that the member does not know.
	Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error)
	// Apply makes the object's fields those of obj, forcing ownership of them
	// (server-side apply): fields of other managers stay, fields that Manager
	// applied before and obj no longer has go. It returns the object as the
	// member now holds it. An apply that changes nothing keeps the
	// resourceVersion. A precondition that does not hold is ErrConflict; a
	// namespace that does not exist, ErrNotFound; a kind the member does not
	// know or an object it refuses, ErrPermanent; if only fields that the schema does not have or repeated keys are
	// refused, a [*SchemaError].
	Apply(ctx context.Context, obj *unstructured.Unstructured, o ApplyOptions) (*unstructured.Unstructured, error)
	// Delete removes the object, or releases it. An object that does not exist is ErrNotFound, a precondition
	// that does not hold ErrConflict. Deletion may go on after the call returned: it is done when Get returns
	// ErrNotFound.
	Delete(ctx context.Context, id snapshot.ID, o DeleteOptions) error
	// Close ends the connection; calls in flight may fail.
	Close() error
}

// ConnWatcher is a [Conn] that can say that objects change. See [WatchConn].
type ConnWatcher interface {
	Conn
	// Watch yields once at its beginning and then after every change of an
	// object in ids; changes may be coalesced. It ends like [Watcher.Watch].
	Watch(ctx context.Context, ids []snapshot.ID) iter.Seq2[struct{}, error]
}

// ConnDryRunner is a [Conn] that can compute the result of an apply. See [DryRun].
type ConnDryRunner interface {
	Conn
	// DryRun returns what Apply would return, and writes nothing. Its errors are those of Apply, and one
	// matching errors.ErrUnsupported where the member does not support it.
	DryRun(ctx context.Context, obj *unstructured.Unstructured, o ApplyOptions) (*unstructured.Unstructured, error)
}

// ConnLister is a [Conn] that can list a namespace. See [ListNamespace].
type ConnLister interface {
	Conn
	// List yields all objects in a namespace that can be deleted, of whatever kind, each at least once and with at
	// least apiVersion, kind and metadata. An object that is created meanwhile may be missed. Where any kind cannot
	// be listed, the last that is yielded is an error: ErrPermanent where the member refuses. A namespace that does
	// not exist has no objects.
	List(ctx context.Context, namespace string) iter.Seq2[*unstructured.Unstructured, error]
}

// ConnMeasurer is a [Conn] that can measure its cluster. See [Measure].
type ConnMeasurer interface {
	Conn
	// Measure reads what the cluster is made of. What the connection may not read, or what is more than it reads, is left out of the
	// result; an error is of the cluster as a whole.
	Measure(ctx context.Context) (Measurement, error)
}

// Measurement is what a cluster is made of, as far as it could be read.
type Measurement struct {
	// Nodes is how many there are, Capacity and Allocatable what they have together, by resource: cpu and memory. They are nil
	// where nodes could not be read.
	Nodes                 int
	Capacity, Allocatable map[string]resource.Quantity
	// Available is Allocatable without what pods request; nil where that is not known.
	Available map[string]resource.Quantity
	// Namespaces are the names of those that are not being deleted, ascending, and at most 200; nil where they could not be
	// read. MoreNamespaces reports whether there are more.
	Namespaces     []string
	MoreNamespaces bool
}

// Measure measures a cluster, as [ConnMeasurer] says. A connection that is none returns an error matching errors.ErrUnsupported.
func Measure(ctx context.Context, c Conn) (Measurement, error) {
	if m, ok := c.(ConnMeasurer); ok {
		return m.Measure(ctx)
	}
	return Measurement{}, fmt.Errorf("measure: %w", errors.ErrUnsupported)
}

// ListNamespace lists a namespace, as [ConnLister] says. A connection that is none yields an error matching
// errors.ErrUnsupported.
func ListNamespace(ctx context.Context, c Conn, namespace string) iter.Seq2[*unstructured.Unstructured, error] {
	if l, ok := c.(ConnLister); ok {
		return l.List(ctx, namespace)
	}
	return func(yield func(*unstructured.Unstructured, error) bool) {
		yield(nil, fmt.Errorf("list: %w", errors.ErrUnsupported))
	}
}

// DryRun returns the result that an apply would have, as [ConnDryRunner] says. A connection that is none
// returns an error matching errors.ErrUnsupported.
func DryRun(ctx context.Context, c Conn, obj *unstructured.Unstructured, o ApplyOptions) (*unstructured.Unstructured, error) {
	if d, ok := c.(ConnDryRunner); ok {
		return d.DryRun(ctx, obj, o)
	}
	return nil, fmt.Errorf("dry run: %w", errors.ErrUnsupported)
}
