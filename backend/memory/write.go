package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// Write is a write that changed a cluster.
type Write struct {
	// Op is create or apply (both by Apply), release, delete, update (which
	// may create) or status.
	Op string
	ID snapshot.ID
	// Manager is who applied or released, empty for other writes.
	Manager string
	// ResourceVersion is the object's after the write; after a delete it is
	// the cluster's.
	ResourceVersion string
}

// Record starts the log of the writes that change something, or ends it and
// drops what it holds. It is off in the beginning.
func (c *Cluster) Record(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recording = on
	if !on {
		c.log = nil
	}
}

// Log returns the writes since Record was turned on, oldest first. The slice
// is the caller's.
func (c *Cluster) Log() []Write {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.log)
}

// Update makes obj the whole object, as a person does who edits it: [Editor]
// takes over the fields that differ, other managers lose those. It creates an
// object that does not exist. A uid and a resourceVersion in its metadata are
// preconditions; status is ignored, see [Cluster.SetStatus]. obj is copied. The
// errors are those of Apply.
func (c *Cluster) Update(obj *unstructured.Unstructured) error {
	k, err := identify(obj)
	if err != nil {
		return err
	}
	want := backend.Precondition{UID: string(obj.GetUID()), ResourceVersion: obj.GetResourceVersion()}
	live := own(copyTree(obj.Object))
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx := context.Background()
	if err := c.fresh(ctx); err != nil {
		return failed("update", k.String(), err)
	}
	if err := c.edit(k, live, want); err != nil {
		return err
	}
	if err := c.save(ctx); err != nil {
		return failed("update", k.String(), err)
	}
	return nil
}

// edit makes live the content of an object, as Editor.
func (c *Cluster) edit(k key, live tree, want backend.Precondition) error {
	o := c.objects[k]
	if err := c.check(o, want); err != nil {
		return failed("update", k.String(), err)
	}
	switch {
	case o == nil:
		return c.create(k, live, "update", owner{Editor, live})
	case !equalTrees(o.live, live):
		c.replace(k, o, live, o.edited(live), "update", "")
	}
	return nil
}

// edited returns who owns what after Editor made live the object.
func (o *object) edited(live tree) []owner {
	changed := difference(o.live, live)
	owners, found := o.owners(), false
	for i := range owners {
		owners[i].applied = intersect(owners[i].applied, live)
		if owners[i].manager == Editor {
			owners[i].applied, found = merge(owners[i].applied, changed), true
		}
	}
	if !found {
		owners = append(owners, owner{Editor, changed})
	}
	return owners
}

// SetStatus makes status the status of the object that id names, or returns
// ErrNotFound. status is copied; nil removes it.
func (c *Cluster) SetStatus(id snapshot.ID, status map[string]any) error {
	status = copyTree(status)
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ctx := keyOf(id), context.Background()
	if err := c.fresh(ctx); err != nil {
		return failed("status", k.String(), err)
	}
	o := c.objects[k]
	if o == nil {
		return failed("status", k.String(), backend.ErrNotFound)
	}
	c.setStatus(k, o, status)
	if err := c.save(ctx); err != nil {
		return failed("status", k.String(), err)
	}
	return nil
}

func (c *Cluster) setStatus(k key, o *object, status tree) {
	if (status == nil) == (o.status == nil) && equalTrees(o.status, status) {
		return
	}
	o.status = status
	c.commit(k, o, "status", "")
}

// Delete removes the object that id names, as DeleteOptions without Release
// and preconditions do.
func (c *Cluster) Delete(id snapshot.ID) error {
	return c.delete(context.Background(), id, backend.DeleteOptions{})
}

func (c *Cluster) apply(ctx context.Context, obj *unstructured.Unstructured, opts backend.ApplyOptions) (*unstructured.Unstructured, error) {
	k, err := c.admit(obj, opts.Manager)
	if err != nil {
		return nil, err
	}
	by := owner{opts.Manager, own(obj.Object)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.fresh(ctx); err != nil {
		return nil, failed("apply", k.String(), err)
	}
	o := c.objects[k]
	if err := cmp.Or(c.admits(opts.Fence), c.check(o, opts.Precondition)); err != nil {
		return nil, failed("apply", k.String(), err)
	}
	if o == nil {
		if err := c.create(k, by.applied, "create", by); err != nil {
			return nil, err
		}
		o = c.objects[k]
	} else {
		c.update(k, o, by)
	}
	if err := c.save(ctx); err != nil {
		return nil, failed("apply", k.String(), err)
	}
	_, version := splitVersion(obj.GetAPIVersion())
	return c.materialise(o, version), nil
}

// admit returns the key of an object that may be applied.
func (c *Cluster) admit(obj *unstructured.Unstructured, manager string) (key, error) {
	k, err := identify(obj)
	if err != nil {
		return k, err
	}
	if manager == "" {
		return k, failed("apply", k.String(), invalid("the manager is empty, it must be named"))
	}
	c.mu.Lock()
	refuse := c.refuse
	c.mu.Unlock()
	if refuse == nil {
		return k, nil
	}
	if err := refuse(obj); err != nil {
		return k, failed("apply", k.String(), asPermanent(err))
	}
	return k, nil
}

func asPermanent(err error) error {
	if errors.Is(err, backend.ErrPermanent) {
		return err
	}
	return fmt.Errorf("%w: %w", backend.ErrPermanent, err)
}

// errTerminating is transient: it ends when the namespace is gone.
var errTerminating = errors.New("the namespace is terminating")

// create adds an object that does not exist.
func (c *Cluster) create(k key, live tree, op string, by owner) error {
	if err := c.hasNamespace(k); err != nil {
		return err
	}
	o := c.add(k, live, by)
	manager := ""
	if op == "create" {
		manager = by.manager
	}
	c.note(k, o, op, manager)
	c.runControllers(k, o)
	return nil
}

// hasNamespace refuses an object whose namespace is not there.
func (c *Cluster) hasNamespace(k key) error {
	if k.namespace == "" {
		return nil
	}
	switch ns := c.objects[namespaceKey(k.namespace)]; {
	case ns == nil:
		return failed("apply", k.String(), fmt.Errorf("namespace %s: %w", k.namespace, backend.ErrNotFound))
	case ns.dying:
		return failed("apply", k.String(), errTerminating)
	}
	return nil
}

// add puts a new object in its place.
func (c *Cluster) add(k key, live tree, by owner) *object {
	c.lastUID++
	c.lastVersion++
	o := &object{
		live: live, owner: by, uid: c.lastUID, version: c.lastVersion,
		generation: 1, created: c.seconds(),
	}
	c.objects[k] = o
	return o
}

// update applies to an object that exists.
func (c *Cluster) update(k key, o *object, by owner) {
	before, _ := o.find(by.manager)
	if len(o.others) == 0 && before != nil && sameMap(before, o.live) {
		c.updateAlone(k, o, by)
		return
	}
	live := merge(prune(o.live, before, by.applied, o.besides(by.manager)), by.applied)
	if sameMap(live, o.live) && before != nil && equalTrees(before, by.applied) {
		return
	}
	if equalTrees(live, by.applied) {
		live = by.applied
	}
	c.replace(k, o, live, o.appliedBy(by), "apply", by.manager)
}

// updateAlone applies where the manager is the only one and nobody touched
// the object: it becomes what is applied.
func (c *Cluster) updateAlone(k key, o *object, by owner) {
	if equalTrees(o.live, by.applied) {
		return
	}
	old := o.live
	o.live, o.owner = by.applied, by
	c.finish(k, o, old, "apply", by.manager)
}

// appliedBy returns who owns what after by was applied.
func (o *object) appliedBy(by owner) []owner {
	owners, found := o.owners(), false
	for i := range owners {
		if owners[i].manager == by.manager {
			owners[i], found = by, true
		} else {
			owners[i].applied = surrender(owners[i].applied, o.live, by.applied)
		}
	}
	if !found {
		owners = append(owners, by)
	}
	return owners
}

// replace gives the object another content and other owners.
func (c *Cluster) replace(k key, o *object, live tree, owners []owner, op, manager string) {
	old := o.live
	o.live = live
	o.setOwners(owners)
	c.finish(k, o, old, op, manager)
}

// finish commits a write of the content, and what follows from it.
func (c *Cluster) finish(k key, o *object, old tree, op, manager string) {
	changed := specChanged(old, o.live)
	if changed {
		o.generation++
	}
	c.commit(k, o, op, manager)
	if o.dying && !o.finalizers() {
		c.remove(k, o)
		return
	}
	if changed {
		c.runControllers(k, o)
	}
}

// specChanged tells whether something changed besides metadata and status.
func specChanged(a, b tree) bool {
	n := 0
	for k, v := range a {
		if k == "metadata" || k == "apiVersion" {
			n++
			continue
		}
		w, ok := b[k]
		if !ok || !equal(v, w) {
			return true
		}
		n++
	}
	_, inA := a["metadata"]
	_, inB := b["metadata"]
	return n != len(b) || inA != inB
}

func (c *Cluster) runControllers(k key, o *object) {
	var status tree
	if c.react != nil {
		status = c.react(c.materialise(o, ""))
	}
	switch {
	case status != nil:
		c.setStatus(k, o, copyTree(status))
	case k.isDefinition() && o.status == nil:
		c.setStatus(k, o, establishedStatus())
	}
}

// establishedStatus is that of a CustomResourceDefinition whose kind is served, as
// every kind is here.
func establishedStatus() tree {
	return tree{"conditions": []any{
		tree{"type": "NamesAccepted", "status": "True", "reason": "NoConflicts"},
		tree{"type": "Established", "status": "True", "reason": "InitialNamesAccepted"},
	}}
}

// commit gives the object a new version and tells about it.
func (c *Cluster) commit(k key, o *object, op, manager string) {
	c.lastVersion++
	o.version = c.lastVersion
	c.note(k, o, op, manager)
}

// note logs a write that got the cluster's last version and wakes who waits.
func (c *Cluster) note(k key, o *object, op, manager string) {
	if c.recording {
		apiVersion, _ := o.live["apiVersion"].(string)
		_, version := splitVersion(apiVersion)
		c.log = append(c.log, Write{op, k.id(version), manager, strconv.FormatUint(c.lastVersion, 10)})
	}
	if c.kept != nil {
		c.kept.touched = append(c.kept.touched, touch{k, o})
	}
	c.announce(k)
}
