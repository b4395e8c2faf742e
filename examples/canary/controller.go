package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// hub is where applications are declared.
type hub interface {
	snapshot.Source
	// SetStatus makes status that of an application as it was read, SetFinalizers its finalizers. A writer that was
	// not first is refused with a conflict.
	SetStatus(ctx context.Context, app *unstructured.Unstructured, status map[string]any) error
	SetFinalizers(ctx context.Context, app *unstructured.Unstructured, finalizers []string) error
}

// controller makes placements and runs of the applications on a hub, and their statuses of what those have
// come to. It keeps nothing in memory: everything is decided from what there is, so that it may die at any
// moment, and several may serve one hub.
type controller struct {
	hub       hub
	inventory backend.Inventory
	engine    *fleet.Engine
	// records has what was published last of each application, beside the records of the engine.
	records backend.Store
	// tell, where it is set, is told of every application that was seen to what keeps its next workflow from
	// beginning; nil where nothing does.
	tell func(app string, problem error)
}

// finalizer holds an application that is being deleted until what it delivered is gone.
const finalizer = "slipway.dev/canary"

// reconcile sees to every application once, and reports whether something moves by itself. What is wrong with one
// does not keep it from the others.
func (c *controller) reconcile(ctx context.Context) (moving bool, err error) {
	apps, err := collect(ctx, c.hub, applications.query("", ""))
	if err != nil {
		return false, err
	}
	var errs []error
	for _, obj := range apps {
		moves, err := c.seeTo(ctx, obj)
		if isConflict(err) {
			moves, err = true, nil // another writer was quicker: it is read again
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("application %s/%s: %w", obj.GetNamespace(), obj.GetName(), err))
		}
		moving = moving || moves
	}
	return moving, errors.Join(errs...)
}

// seeTo sees to an application.
func (c *controller) seeTo(ctx context.Context, obj *unstructured.Unstructured) (moving bool, err error) {
	last, err := c.published(ctx, obj)
	switch {
	case err != nil:
		return false, err
	case obj.GetDeletionTimestamp() != nil:
		return c.clean(ctx, obj, last)
	case !slices.Contains(obj.GetFinalizers(), finalizer):
		// It is there before anything is delivered.
		return true, c.hub.SetFinalizers(ctx, obj, append(obj.GetFinalizers(), finalizer))
	}
	begun, err := c.publish(ctx, obj, &last)
	var why problem
	if begun || err != nil && !errors.As(err, &why) {
		return begun, err
	}
	return c.show(ctx, obj, last, err)
}

// show makes the status of an application what has become of its last release, and what keeps the next one
// from beginning.
func (c *controller) show(ctx context.Context, obj *unstructured.Unstructured, last record, problem error) (moving bool, err error) {
	if c.tell != nil {
		c.tell(obj.GetNamespace()+"/"+obj.GetName(), problem)
	}
	status, moving, err := c.status(ctx, obj, &last, problem)
	if err != nil {
		return false, err
	}
	if have, _, _ := unstructured.NestedMap(obj.Object, "status"); !equality.Semantic.DeepEqual(have, status) {
		err = c.hub.SetStatus(ctx, obj, status)
	}
	return moving, err
}

// clean deletes what an application delivered, and then lets it go.
func (c *controller) clean(ctx context.Context, obj *unstructured.Unstructured, last record) (moving bool, err error) {
	if !slices.Contains(obj.GetFinalizers(), finalizer) {
		return false, nil
	}
	if last.isThere() {
		gone, err := c.remove(ctx, last.Release.Placement.Name)
		if err != nil || !gone {
			return !gone, err
		}
		if err := c.forget(ctx, last); err != nil {
			return false, err
		}
	}
	rest := slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return f == finalizer })
	return false, c.hub.SetFinalizers(ctx, obj, rest)
}

// remove deletes a placement, and reports whether it is gone.
func (c *controller) remove(ctx context.Context, placement string) (gone bool, err error) {
	_, err = c.engine.Placement(ctx, placement)
	if errors.Is(err, backend.ErrNotFound) {
		return true, nil
	}
	if err == nil || errors.Is(err, fleet.ErrDeleting) {
		err = c.engine.DeletePlacement(ctx, placement, fleet.DeleteOptions{By: starter})
	}
	return false, err
}

// moves reports whether a run goes on by itself: it does not where it has ended, or waits for people.
func (c *controller) moves(ctx context.Context, rec oam.Record) (bool, error) {
	for _, err := range c.records.List(ctx, "command/"+rec.Run.UID+"/") {
		return true, err // it was told something that it has not heard yet
	}
	switch {
	case rec.Run.IsEnded():
		return false, nil
	case rec.Run.State == stages.NotStarted:
		return !rec.Run.Hold, nil
	}
	for _, a := range stages.Waiting(rec.Plan, rec.Run) {
		if a.Kind != stages.AwaitDecision && a.Kind != stages.AwaitStart {
			return true, nil
		}
	}
	return false, nil
}

// isConflict reports whether another writer came first.
func isConflict(err error) bool {
	return errors.Is(err, backend.ErrConflict) || apierrors.IsConflict(err)
}
