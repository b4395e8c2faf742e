package memory

import (
	"context"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

func (c *Cluster) delete(ctx context.Context, id snapshot.ID, opts backend.DeleteOptions) error {
	k := keyOf(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.fresh(ctx); err != nil {
		return failed("delete", k.String(), err)
	}
	if err := c.giveUp(k, opts); err != nil {
		return failed("delete", k.String(), err)
	}
	if err := c.save(ctx); err != nil {
		return failed("delete", k.String(), err)
	}
	return nil
}

// giveUp removes an object or releases it.
func (c *Cluster) giveUp(k key, opts backend.DeleteOptions) error {
	if err := c.admits(opts.Fence); err != nil {
		return err
	}
	o := c.objects[k]
	if o == nil {
		return backend.ErrNotFound
	}
	if err := c.check(o, opts.Precondition); err != nil {
		return err
	}
	if opts.Release {
		c.release(k, o, opts)
		return nil
	}
	if k.isNamespace() && (k.name == "default" || k.name == "kube-system") {
		return invalid("the namespace belongs to the cluster")
	}
	c.terminate(k, o, c.seconds())
	return nil
}

// release takes the manager and the marks from an object.
func (c *Cluster) release(k key, o *object, opts backend.DeleteOptions) {
	_, owned := o.find(opts.Manager)
	live := unmark(o.live, opts.Marks)
	if !owned && sameMap(live, o.live) {
		return
	}
	var owners []owner
	for _, w := range o.owners() {
		if w.manager != opts.Manager {
			owners = append(owners, owner{w.manager, unmark(w.applied, opts.Marks)})
		}
	}
	c.replace(k, o, live, owners, "release", opts.Manager)
}

// unmark returns t without the annotations and labels that marks name. A map
// that becomes empty goes too.
func unmark(t tree, marks []string) tree {
	meta := edit{from: metadata(t)}
	for _, field := range []string{"annotations", "labels"} {
		values, _ := meta.from[field].(tree)
		kept := edit{from: values}
		for _, mark := range marks {
			if _, ok := values[mark]; ok {
				kept.delete(mark)
			}
		}
		switch {
		case kept.to == nil:
		case len(kept.to) == 0:
			meta.delete(field)
		default:
			meta.set(field, kept.to)
		}
	}
	out := edit{from: t}
	if meta.to != nil {
		out.set("metadata", meta.to)
	}
	return out.result()
}

// terminate begins the deletion of an object and, if nothing holds it, ends it.
func (c *Cluster) terminate(k key, o *object, at int64) {
	if k.isNamespace() {
		for _, inner := range c.keys() {
			if inner.in(k) {
				c.terminate(inner, c.objects[inner], at)
			}
		}
	}
	if !o.finalizers() && !c.holds(k) {
		c.remove(k, o)
		return
	}
	if !o.dying {
		o.dying, o.deleted = true, at
		c.commit(k, o, "delete", "")
	}
}

// holds tells whether a namespace still has something in it.
func (c *Cluster) holds(ns key) bool {
	if !ns.isNamespace() {
		return false
	}
	for k := range c.objects {
		if k.in(ns) {
			return true
		}
	}
	return false
}

// remove takes an object away, and the terminating namespace that it was the
// last one in.
func (c *Cluster) remove(k key, o *object) {
	if c.holds(k) {
		return
	}
	delete(c.objects, k)
	c.lastVersion++
	c.note(k, o, "delete", "")
	if k.namespace == "" {
		return
	}
	ns := namespaceKey(k.namespace)
	if outer := c.objects[ns]; outer != nil && outer.dying && !outer.finalizers() {
		c.remove(ns, outer)
	}
}

// String names the cluster.
func (c *Cluster) String() string { return fmt.Sprintf("cluster %s", c.name) }
