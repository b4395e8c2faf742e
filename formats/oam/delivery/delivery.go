package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/snapshot"
)

// Applications delivers applications. Its methods may be called concurrently; its fields must not
// be changed after the first call.
type Applications struct {
	// Engine carries out the runs. Another process may drive it.
	Engine *fleet.Engine
	// Store is the engine's store.
	Store backend.Store
	// Source has the policies, the workflows and the objects of applications, Inventory the
	// clusters. Only [Applications.Reconcile] needs them.
	Source    snapshot.Source
	Inventory backend.Inventory
	// Starter is recorded as the identity that starts runs, because an object does not name the
	// author of a change.
	Starter approval.Identity
	// DeleteDeadline is the time that an unreachable cluster delays [Applications.Remove]; 0
	// means no limit.
	DeleteDeadline time.Duration
	// Options are the host's choices.
	Options oam.Options
}

// Outcome is the result of [Applications.Reconcile].
type Outcome struct {
	// Run is the run of the last release, "" if there is none yet. Begun reports whether this call
	// created the run. If another process created the same run at the same time, both calls report
	// it.
	Run   string
	Begun bool
	// Problem is the reason why the next workflow does not begin until the application or its
	// references change; nil for none.
	Problem error
	// Status is the status of the application.
	Status oam.AppStatus
}

// Reconcile begins a workflow of an application if one is due, and returns the status of the last
// one. The application is an object from an API server, with its previous status; it is not
// changed. An error comes from the store, the source, the inventory or confirm, and means nothing
// about the application.
//
// If confirm is not nil, it is called right before a workflow begins, which ends the last one. A
// host that has the application from a cache must read it again there, and return an error if it
// was changed.
func (a *Applications) Reconcile(ctx context.Context, app *unstructured.Unstructured, confirm func(context.Context) error) (Outcome, error) {
	last, err := a.published(ctx, app.GetNamespace(), app.GetName())
	if err != nil {
		return Outcome{}, err
	}
	var out Outcome
	var why problem
	out.Begun, err = a.publish(ctx, app, last, confirm)
	switch {
	case errors.As(err, &why):
		out.Problem = why.error
	case err != nil:
		return Outcome{}, err
	}
	rec := &oam.Record{}
	if last.exists() {
		out.Run = last.Release.Run.Name
		progress, err := a.progress(ctx, last)
		switch {
		case err == nil:
			rec = &progress
		case !errors.Is(err, backend.ErrNotFound) || out.Problem == nil: // else its run could not be made
			return Outcome{}, err
		}
	}
	out.Status = StatusOf(*rec, out.Problem, app, time.Now())
	return out, nil
}

// Remove deletes the delivered objects of an application from the clusters, and its record. It
// reports whether that is done; until then, engines carry it out and Remove must be called again.
// It does not touch a placement of another owner.
func (a *Applications) Remove(ctx context.Context, namespace, name string) (gone bool, err error) {
	last, err := a.published(ctx, namespace, name)
	if err != nil || !last.exists() {
		return err == nil, err
	}
	placement, owner := last.Release.Placement.Name, oam.PlacementOwner
	switch p, err := a.Engine.Placement(placement).Get(ctx); {
	case errors.Is(err, backend.ErrNotFound), err == nil && p.Owner != owner:
		return true, a.Store.Delete(ctx, last.key, last.revision)
	case err != nil:
		return false, err
	}
	return false, a.Engine.Placement(placement).Delete(ctx, fleet.DeleteOptions{By: a.Starter.Name, Deadline: metav1.Duration{Duration: a.DeleteDeadline}, Owner: &owner, Force: true})
}

// Last returns the last release of an application with its run and plan. If no workflow has
// begun, the error matches [backend.ErrNotFound].
func (a *Applications) Last(ctx context.Context, namespace, name string) (oam.Record, error) {
	last, err := a.published(ctx, namespace, name)
	if err == nil && !last.exists() {
		err = noWorkflow(namespace, name)
	}
	if err != nil {
		return oam.Record{}, err
	}
	return a.progress(ctx, last)
}

func noWorkflow(namespace, name string) error {
	return fmt.Errorf("application %s/%s: no workflow of it has begun: %w", namespace, name, backend.ErrNotFound)
}

// progress reads the run of a release.
func (a *Applications) progress(ctx context.Context, last *published) (oam.Record, error) {
	st, err := a.Engine.Run(last.Release.Run.Name).Status(ctx)
	if err != nil {
		return oam.Record{}, err
	}
	return oam.Record{Release: &last.Release, Plan: st.Plan, Run: &st.Run}, nil
}

// Moves reports whether a workflow of an application, or its rollback, proceeds without a person:
// it has not ended, and does not only wait for an answer. If it returns false, a status that is
// read afterwards is final until a person acts or the application changes.
func (a *Applications) Moves(ctx context.Context, namespace, name string) (bool, error) {
	last, err := a.published(ctx, namespace, name)
	if err != nil || !last.exists() {
		return false, err
	}
	runs, err := a.Engine.Placement(last.Release.Placement.Name).RunNames(ctx)
	if err != nil && !errors.Is(err, backend.ErrNotFound) {
		return false, err
	}
	// A process that crashed may have recorded the last run before the placement had it.
	for _, run := range append(runs, last.Release.Run.Name) {
		moves, err := a.Engine.Run(run).Moves(ctx)
		if moves || err != nil && !errors.Is(err, backend.ErrNotFound) {
			return moves, err
		}
	}
	return false, nil
}

// PlacementOf returns the name of the placement of an application.
func PlacementOf(namespace, name string) string { return kubefleet.ApplicationName(namespace, name) }
