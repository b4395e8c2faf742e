package memory

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
)

// dryRun returns what apply would make of an object, which stays as it is.
func (c *Cluster) dryRun(ctx context.Context, obj *unstructured.Unstructured, opts backend.ApplyOptions) (*unstructured.Unstructured, error) {
	k, err := c.admit(obj, opts.Manager)
	if err != nil {
		return nil, err
	}
	by := owner{opts.Manager, own(obj.Object)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.fresh(ctx); err != nil {
		return nil, failed("dry run", k.String(), err)
	}
	o := c.server.objects[k]
	if err := cmp.Or(c.server.admits(opts.Fence), c.server.check(o, opts.Precondition)); err != nil {
		return nil, failed("dry run", k.String(), err)
	}
	_, version := splitVersion(obj.GetAPIVersion())
	if o == nil {
		if err := c.server.hasNamespace(k); err != nil {
			return nil, err
		}
		return c.server.materialise(&object{live: by.applied, owner: by, generation: 1, created: c.server.seconds()}, version), nil
	}
	return c.server.materialise(o.as(by), version), nil
}

// as returns the object as it would be after an apply by the given owner.
func (o *object) as(by owner) *object {
	next := *o
	before, _ := o.find(by.manager)
	owners := o.appliedBy(by)
	next.live = merge(prune(o.live, before, by.applied, o.besides(by.manager)), by.applied)
	if specChanged(o.live, next.live) {
		next.generation++
	}
	next.setOwners(owners)
	return &next
}
