package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// Record starts the log of the writes that change something, or ends it and
// drops what it holds. It is off in the beginning.
func (c *Cluster) Record(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server.recording = on
	if !on {
		c.server.log = nil
	}
}

// Log returns the writes since Record was turned on, oldest first. The slice
// is the caller's.
func (c *Cluster) Log() []Write {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.server.log)
}

// Update replaces the whole object by obj, as an edit by hand does: [Editor] takes over the fields that
// differ, other managers lose those. It creates an object that does not exist. A uid and a resourceVersion in
// its metadata are preconditions; status is ignored, see [Cluster.SetStatus]. obj is copied. The errors are
// those of Apply.
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
	if err := c.server.edit(k, live, want); err != nil {
		return err
	}
	if err := c.save(ctx); err != nil {
		return failed("update", k.String(), err)
	}
	return nil
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
	o := c.server.objects[k]
	if o == nil {
		return failed("status", k.String(), backend.ErrNotFound)
	}
	c.server.setStatus(k, o, status)
	if err := c.save(ctx); err != nil {
		return failed("status", k.String(), err)
	}
	return nil
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
	o := c.server.objects[k]
	if err := cmp.Or(c.server.admits(opts.Fence), c.server.check(o, opts.Precondition)); err != nil {
		return nil, failed("apply", k.String(), err)
	}
	if o == nil {
		if err := c.server.create(k, by.applied, "create", by); err != nil {
			return nil, err
		}
		o = c.server.objects[k]
	} else {
		c.server.update(k, o, by)
	}
	if err := c.save(ctx); err != nil {
		return nil, failed("apply", k.String(), err)
	}
	_, version := splitVersion(obj.GetAPIVersion())
	return c.server.materialise(o, version), nil
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

func (c *Cluster) delete(ctx context.Context, id snapshot.ID, opts backend.DeleteOptions) error {
	k := keyOf(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.fresh(ctx); err != nil {
		return failed("delete", k.String(), err)
	}
	if err := c.server.giveUp(k, opts); err != nil {
		return failed("delete", k.String(), err)
	}
	if err := c.save(ctx); err != nil {
		return failed("delete", k.String(), err)
	}
	return nil
}
