package memory

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/internal/feed"
	"github.com/slipway-dev/slipway/snapshot"
)

// Cluster is a member cluster in memory: an object store with the semantics of a Kubernetes API
// server that a [backend.Conn] can observe.
//
// An object is identified by group, kind, namespace and name, and is returned in the requested
// version. It is namespaced if it has a metadata.namespace; the namespace must exist, and default
// and kube-system exist from the beginning. Deleting a namespace deletes the objects in it. An
// object with metadata.finalizers terminates until they are removed, and so does its namespace.
// The uid consists of the cluster's name and a counter, the resourceVersion is the number of the
// write on this cluster, and the generation rises with each change outside of metadata and status.
//
// Apply merges like a server-side apply without a schema: objects merge, lists and everything
// else are atomic. It ignores status and the metadata that a server sets. The cluster keeps an
// applied object without copying it, so that clusters with the same object share its memory.
type Cluster struct {
	name      string
	uidPrefix string
	shared    *contents

	mu      sync.Mutex
	objects map[key]*object
	uids    uint64 // the last one issued
	version uint64 // of the last write
	watches map[*watch]struct{}

	clock         func() time.Time
	refuse        func(*unstructured.Unstructured) error
	react         func(*unstructured.Unstructured) map[string]any
	managedFields bool
	recording     bool
	log           []Write
}

// Write is a write that changed a cluster.
type Write struct {
	// Op is create or apply (both by Apply), release, delete, update (which may create) or status.
	Op string
	ID snapshot.ID
	// Manager is the field manager of an apply or a release, empty for other writes.
	Manager string
	// ResourceVersion is the resourceVersion of the object after the write, or of the cluster after a
	// delete.
	ResourceVersion string
}

// NewCluster returns a cluster with two namespaces, default and kube-system.
// Two clusters of one name have the same uids.
func NewCluster(name string) *Cluster { return newCluster(name, "0", newContents()) }

// newCluster returns a cluster whose uids depend only on its name and seed.
func newCluster(name, seed string, shared *contents) *Cluster {
	h := fnv.New64a()
	h.Write([]byte(name + "/" + seed))
	x := fmt.Sprintf("%016x", h.Sum64())
	c := &Cluster{
		name: name, uidPrefix: x[:8] + "-" + x[8:12] + "-" + x[12:] + "-8000-",
		shared: shared, objects: map[key]*object{},
	}
	for _, ns := range []string{"default", "kube-system"} {
		live := tree{"apiVersion": "v1", "kind": "Namespace", "metadata": tree{"name": ns}}
		c.put(namespaceKey(ns), nil, &object{content: &content{live: live}}, "", "")
	}
	return c
}

// Name returns the name the cluster was made with.
func (c *Cluster) Name() string { return c.name }

// UID returns the uid of the kube-system namespace, which identifies the
// cluster.
func (c *Cluster) UID() string { return c.uidOf(2) }

// SetClock sets the clock for creationTimestamp and deletionTimestamp. Without a clock, which is
// the default, objects have no creationTimestamp, and terminating objects have a
// deletionTimestamp of 1970. The clock must not call c.
func (c *Cluster) SetClock(now func() time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock = now
}

// Refuse makes an apply fail if f returns an error for the object, as an API server does that does
// not know a kind or does not admit an object. The error becomes ErrPermanent. f may be called
// concurrently and must not change the object; nil refuses nothing.
func (c *Cluster) Refuse(f func(obj *unstructured.Unstructured) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = f
}

// React sets f as the simulated controllers of the cluster: f is called with every object whose
// generation rose, and its result becomes the object's status before the write returns. A nil
// result keeps the status, except that a CustomResourceDefinition without status becomes
// established. f must not call c.
func (c *Cluster) React(f func(obj *unstructured.Unstructured) (status map[string]any)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.react = f
}

// ManagedFields adds metadata.managedFields to returned objects, which costs a few microseconds
// for each. The default is off.
func (c *Cluster) ManagedFields(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.managedFields = on
}

// Record starts the log of effective writes, or ends it and drops its entries. The default is
// off.
func (c *Cluster) Record(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recording = on
	if !on {
		c.log = nil
	}
}

// Log returns the writes since Record was turned on, oldest first. The slice belongs to the
// caller.
func (c *Cluster) Log() []Write {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.log)
}

// Get returns the object with an ID, or ErrNotFound. The object belongs to the caller.
func (c *Cluster) Get(id snapshot.ID) (*unstructured.Unstructured, error) {
	k := keyOf(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.objects[k]
	if o == nil {
		return nil, failed("get", k.String(), backend.ErrNotFound)
	}
	return c.materialise(o, id.Version), nil
}

// List returns the objects in a namespace, or all objects of the cluster if namespace is empty,
// by namespace, group, kind and name. They belong to the caller.
func (c *Cluster) List(namespace string) []*unstructured.Unstructured {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*unstructured.Unstructured
	for _, k := range c.keys() {
		if namespace == "" || k.Value().namespace == namespace {
			out = append(out, c.materialise(c.objects[k], ""))
		}
	}
	return out
}

// Len returns the number of objects, namespaces included.
func (c *Cluster) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.objects)
}

// apply carries out [backend.Conn] Apply; if dry, it only returns the result.
func (c *Cluster) apply(obj *unstructured.Unstructured, opts backend.ApplyOptions, dry bool) (*unstructured.Unstructured, error) {
	k, err := c.admit(obj, opts.Manager)
	if err != nil {
		return nil, failed("apply", k.String(), err)
	}
	by := owner{opts.Manager, own(obj.Object)}
	_, version := splitVersion(obj.GetAPIVersion())
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.objects[k]
	if err := cmp.Or(c.checkFence(opts.Fence), c.check(before, opts.Precondition)); err != nil {
		return nil, failed("apply", k.String(), err)
	}
	if opts.RefuseConflicts && before != nil {
		if others := before.conflicts(by); len(others) > 0 {
			return nil, failed("apply", k.String(), &backend.FieldConflictError{Managers: others})
		}
	}
	var next *object
	op := "apply"
	if before != nil {
		next = before.with(before.apply(by))
	} else {
		if err := c.checkNamespace(k); err != nil {
			return nil, failed("apply", k.String(), err)
		}
		op, next = "create", &object{content: &content{by.fields, owned(by)}}
	}
	switch {
	case dry:
		c.advance(before, next)
	case next != before:
		next = c.put(k, before, next, op, by.manager)
	}
	return c.materialise(next, version), nil
}

// admit returns the key of an object, or an error if it may not be applied.
func (c *Cluster) admit(obj *unstructured.Unstructured, manager string) (key, error) {
	k, err := identify(obj)
	if err == nil && manager == "" {
		err = invalid("the manager is empty, it must be named")
	}
	c.mu.Lock()
	refuse := c.refuse
	c.mu.Unlock()
	if err != nil || refuse == nil {
		return k, err
	}
	if err = refuse(obj); err != nil && !errors.Is(err, backend.ErrPermanent) {
		err = fmt.Errorf("%w: %w", backend.ErrPermanent, err)
	}
	return k, err
}

// Update replaces the whole object by obj, like an edit by hand: [Editor] takes ownership of the
// fields that differ, and other managers lose them. It creates a missing object. A uid and a
// resourceVersion in the metadata of obj are preconditions; status is ignored, see
// [Cluster.SetStatus]. obj is copied. The errors are the same as for Apply.
func (c *Cluster) Update(obj *unstructured.Unstructured) error {
	k, err := identify(obj)
	if err != nil {
		return failed("update", k.String(), err)
	}
	live := own(copyTree(obj.Object))
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.objects[k]
	if err := c.check(before, backend.Precondition{UID: string(obj.GetUID()), ResourceVersion: obj.GetResourceVersion()}); err != nil {
		return failed("update", k.String(), err)
	}
	switch {
	case before == nil:
		if err := c.checkNamespace(k); err != nil {
			return failed("update", k.String(), err)
		}
		c.put(k, nil, &object{content: &content{live, owned(owner{Editor, live})}}, "update", "")
	case !equal(before.live, live):
		c.put(k, before, before.with(before.edit(live)), "update", "")
	}
	return nil
}

// SetStatus sets the status of the object with an ID, or returns ErrNotFound. status is copied;
// nil removes it.
func (c *Cluster) SetStatus(id snapshot.ID, status map[string]any) error {
	k := keyOf(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.objects[k]
	if o == nil {
		return failed("status", k.String(), backend.ErrNotFound)
	}
	c.setStatus(k, o, status)
	return nil
}

// Delete removes the object with an ID, without Release and without preconditions.
func (c *Cluster) Delete(id snapshot.ID) error { return c.delete(id, backend.DeleteOptions{}) }

func (c *Cluster) delete(id snapshot.ID, opts backend.DeleteOptions) error {
	k := keyOf(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.objects[k]
	err := c.checkFence(opts.Fence)
	if err == nil && o == nil {
		err = backend.ErrNotFound
	}
	if err == nil {
		err = c.check(o, opts.Precondition)
	}
	if err == nil && !opts.Release && (k == namespaceKey("default") || k == namespaceKey("kube-system")) {
		err = invalid("the namespace belongs to the cluster")
	}
	if err != nil {
		return failed("delete", k.String(), err)
	}
	if !opts.Release {
		c.terminate(k, o, c.seconds())
	} else if next := o.with(o.release(opts.Manager, opts.Marks)); next != o {
		c.put(k, o, next, "release", opts.Manager)
	}
	return nil
}

// check checks a precondition on an object, which is nil if it does not exist.
func (c *Cluster) check(o *object, p backend.Precondition) error {
	switch {
	case o == nil && (p.UID != "" || p.ResourceVersion != ""):
		return fmt.Errorf("%w: the object does not exist", backend.ErrConflict)
	case o == nil:
		return nil
	case p.Absent:
		return fmt.Errorf("%w: the object exists", backend.ErrConflict)
	case p.UID != "" && p.UID != c.uidOf(o.uid):
		return fmt.Errorf("%w: uid is %s, not %s", backend.ErrConflict, c.uidOf(o.uid), p.UID)
	case p.ResourceVersion != "" && p.ResourceVersion != strconv.FormatUint(o.version, 10):
		return fmt.Errorf("%w: resourceVersion is %d, not %s", backend.ErrConflict, o.version, p.ResourceVersion)
	}
	return nil
}

// checkFence compares the ledger in a fence with the current ledger, under the same lock as the
// write.
func (c *Cluster) checkFence(f backend.Fence) error {
	if !f.Demands() {
		return nil
	}
	if err := c.check(c.objects[keyOf(f.Ledger)], backend.Precondition{UID: f.UID, ResourceVersion: f.ResourceVersion}); err != nil {
		return fmt.Errorf("its fence, %s: %w", f.Ledger, err)
	}
	return nil
}

// checkNamespace refuses a new object if its namespace is missing or terminating. A terminating
// namespace is a transient error, because it ends when the namespace is gone.
func (c *Cluster) checkNamespace(k key) error {
	namespace := k.Value().namespace
	if namespace == "" {
		return nil
	}
	switch ns := c.objects[namespaceKey(namespace)]; {
	case ns == nil:
		return fmt.Errorf("namespace %s: %w", namespace, backend.ErrNotFound)
	case ns.dying:
		return errors.New("the namespace is terminating")
	}
	return nil
}

// put stores the next state of an object and does the work of a server after a write. before is
// the current state, nil for a new object. put returns the resulting object. Callers must not
// have shared next yet.
func (c *Cluster) put(k key, before, next *object, op, manager string) *object {
	c.advance(before, next)
	if before == nil {
		c.uids++
		next.uid = c.uids
	}
	next.content = c.shared.share(k, next.content)
	c.version++
	next.version = c.version
	c.objects[k] = next
	c.note(k, next, op, manager)
	switch {
	case next.dying && !next.hasFinalizers():
		c.remove(k, next)
	case before == nil || before.generation != next.generation:
		next = c.runControllers(k, next)
	}
	return next
}

// advance sets the generation of next.
func (c *Cluster) advance(before, next *object) {
	switch {
	case before == nil:
		next.generation, next.created = 1, c.seconds()
	case next != before && specChanged(before.live, next.live):
		next.generation++
	}
}

// runControllers gives an object of a new generation its status.
func (c *Cluster) runControllers(k key, o *object) *object {
	var status tree
	if c.react != nil {
		status = c.react(c.materialise(o, ""))
	}
	if status == nil && o.status == nil && k.Value().kind == "CustomResourceDefinition" && k.Value().group == "apiextensions.k8s.io" {
		// The cluster serves every kind.
		status = tree{"conditions": []any{
			tree{"type": "NamesAccepted", "status": "True", "reason": "NoConflicts"},
			tree{"type": "Established", "status": "True", "reason": "InitialNamesAccepted"},
		}}
	}
	if status == nil {
		return o
	}
	return c.setStatus(k, o, status)
}

// setStatus gives the object a copy of status.
func (c *Cluster) setStatus(k key, o *object, status tree) *object {
	if (status == nil) == (o.status == nil) && equal(o.status, status) {
		return o
	}
	next := *o
	next.status = copyTree(status)
	return c.put(k, o, &next, "status", "")
}

// terminate begins the deletion of an object, and ends it if nothing blocks it. The objects in a
// namespace block its deletion.
func (c *Cluster) terminate(k key, o *object, at int64) {
	if id := k.Value(); id.isNamespace() {
		for _, inner := range c.keys() {
			if o := c.objects[inner]; o != nil && inner.Value().namespace == id.name {
				c.terminate(inner, o, at)
			}
		}
	}
	switch {
	case !o.hasFinalizers() && !c.holds(k):
		c.remove(k, o)
	case !o.dying:
		next := *o
		next.dying, next.deleted = true, at
		c.version++
		next.version = c.version
		c.objects[k] = &next
		c.note(k, &next, "delete", "")
	}
}

// holds reports whether k is a namespace with objects in it.
func (c *Cluster) holds(k key) bool {
	if id := k.Value(); id.isNamespace() {
		for inner := range c.objects {
			if inner.Value().namespace == id.name {
				return true
			}
		}
	}
	return false
}

// remove deletes an object that nothing blocks, and then its terminating namespace if it was the
// last object there.
func (c *Cluster) remove(k key, o *object) {
	if c.objects[k] == nil || c.holds(k) {
		return
	}
	delete(c.objects, k)
	c.version++
	c.note(k, o, "delete", "")
	ns := namespaceKey(k.Value().namespace)
	if outer := c.objects[ns]; outer != nil && outer.dying && !outer.hasFinalizers() {
		c.remove(ns, outer)
	}
}

// note logs a write that got the cluster's last version, and wakes the watches of the object.
func (c *Cluster) note(k key, o *object, op, manager string) {
	if c.recording {
		apiVersion, _ := o.live["apiVersion"].(string)
		_, version := splitVersion(apiVersion)
		of := k.Value()
		id := snapshot.ID{Group: of.group, Version: version, Kind: of.kind, Namespace: of.namespace, Name: of.name}
		c.log = append(c.log, Write{op, id, manager, strconv.FormatUint(c.version, 10)})
	}
	for w := range c.watches {
		if _, ok := w.keys[k]; ok {
			feed.Wake(w.signal)
		}
	}
}

// keys returns the keys of all objects in order.
func (c *Cluster) keys() []key {
	keys := make([]key, 0, len(c.objects))
	for k := range c.objects {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}

// seconds returns the time in Unix seconds, 0 without a clock.
func (c *Cluster) seconds() int64 {
	if c.clock == nil {
		return 0
	}
	return c.clock().Unix()
}

// uidOf formats a counter as a uid that is unique among clusters.
func (c *Cluster) uidOf(n uint64) string {
	digits := strconv.FormatUint(n, 16)
	return c.uidPrefix + "000000000000"[len(digits):] + digits
}

// materialise returns the object as a server would, in the requested version. The caller owns it.
func (c *Cluster) materialise(o *object, version string) *unstructured.Unstructured {
	out := make(tree, len(o.live)+1)
	for k, v := range o.live {
		if k != "metadata" {
			out[k] = deepCopy(v)
		}
	}
	if o.status != nil {
		out["status"] = copyTree(o.status)
	}
	if version != "" {
		apiVersion, _ := o.live["apiVersion"].(string)
		if group, _ := splitVersion(apiVersion); group != "" {
			version = group + "/" + version
		}
		out["apiVersion"] = version
	}
	from := metadata(o.live)
	meta := make(tree, len(from)+5)
	for k, v := range from {
		meta[k] = deepCopy(v)
	}
	meta["uid"] = c.uidOf(o.uid)
	meta["resourceVersion"] = strconv.FormatUint(o.version, 10)
	meta["generation"] = o.generation
	if o.created != 0 {
		meta["creationTimestamp"] = timestamp(o.created)
	}
	if o.dying {
		meta["deletionTimestamp"] = timestamp(o.deleted)
	}
	if c.managedFields {
		meta["managedFields"] = o.managedFields()
	}
	out["metadata"] = meta
	return &unstructured.Unstructured{Object: out}
}

func timestamp(unix int64) string { return time.Unix(unix, 0).UTC().Format(time.RFC3339) }
