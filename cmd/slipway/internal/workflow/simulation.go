package workflow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/oam/delivery"
	"github.com/slipway-dev/slipway/internal/durable"
)

// simulation delivers the applications of files to clusters in memory, whose state is in the store beside the
// engine's, under member/NAME: a process that opens the store again goes on where another one was killed.
type simulation struct {
	docs    documents
	members *durable.Fleet
	apps    *delivery.Applications
}

// poll is how often what moves is observed.
const poll = 20 * time.Millisecond

func newSimulation(ctx context.Context, store backend.Store, docs documents) (*simulation, error) {
	s := &simulation{docs: docs, members: durable.NewFleet(store)}
	for _, c := range docs.clusters {
		if err := s.members.Open(ctx, c); err != nil {
			return nil, err
		}
		s.members.Relabel(c.Name, c.Labels)
		s.members.Cluster(c.Name).SetClock(time.Now)
		s.members.Cluster(c.Name).React(react)
	}
	source := memory.NewSource(docs.objects...)
	engine, err := fleet.New(fleet.Config{Name: "workflow", Store: store, Inventory: s.members, Dialer: s.members, Source: source, Poll: poll})
	s.apps = &delivery.Applications{Engine: engine, Store: store, Source: source, Inventory: s.members, Starter: approval.Identity{Name: "slipway"}}
	return s, err
}

// reopen returns what a store has, without files: a workflow does not begin in it.
func reopen(ctx context.Context, store backend.Store) (*simulation, error) {
	var docs documents
	for rec, err := range store.List(ctx, "member/") {
		if err != nil {
			return nil, err
		}
		docs.add(strings.TrimPrefix(rec.Key, "member/"), nil)
	}
	return newSimulation(ctx, store, docs)
}

// settle drives the engine until no workflow moves without a person, and returns the last outcome of each application.
// Where each is not nil it is called whenever the applications were reconciled, with whether one moves, and decides
// whether to go on.
func (s *simulation) settle(ctx context.Context, each func(ctx context.Context, now []delivery.Outcome, moving bool) (goOn bool, err error)) (outcomes []delivery.Outcome, err error) {
	driven, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.apps.Engine.Run(driven) }()
	defer func() {
		stop()
		if failed := <-ended; !errors.Is(failed, context.Canceled) {
			err = errors.Join(err, failed)
		}
	}()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		outcomes, moving, err := s.reconcile(ctx)
		if err == nil && each != nil {
			moving, err = each(ctx, outcomes, moving)
		}
		if err != nil || !moving {
			return outcomes, err
		}
		select {
		case <-ctx.Done():
			return outcomes, ctx.Err()
		case <-ticker.C:
		}
	}
}

// reconcile reconciles each application once, and reports whether a workflow moves.
func (s *simulation) reconcile(ctx context.Context) (outcomes []delivery.Outcome, moving bool, err error) {
	for _, app := range s.docs.applications {
		moves, err := s.apps.Moves(ctx, app.GetNamespace(), app.GetName())
		if err != nil {
			return nil, false, fmt.Errorf("application %s: %w", nameOf(app), err)
		}
		out, err := s.apps.Reconcile(ctx, app, nil)
		if errors.Is(err, backend.ErrConflict) { // the engine was first
			outcomes, moving = append(outcomes, out), true
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("application %s: %w", nameOf(app), err)
		}
		outcomes, moving = append(outcomes, out), moving || moves || out.Begun
	}
	return outcomes, moving, nil
}

func nameOf(app *unstructured.Unstructured) string { return app.GetNamespace() + "/" + app.GetName() }

// react is the controllers of a cluster: a Deployment is what it should be at once, unless an image of it has the tag
// broken.
func react(obj *unstructured.Unstructured) map[string]any {
	if obj.GroupVersionKind().Group != "apps" || obj.GetKind() != "Deployment" {
		status, _, _ := unstructured.NestedMap(obj.Object, "status")
		return status
	}
	replicas, found, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas")
	if !found {
		replicas = 1
	}
	ready, available, progress := replicas, "True", "NewReplicaSetAvailable"
	containers, _, _ := unstructured.NestedSlice(obj.Object, "spec", "template", "spec", "containers")
	for _, c := range containers {
		if c, _ := c.(map[string]any); strings.HasSuffix(fmt.Sprint(c["image"]), ":broken") {
			ready, available, progress = 0, "False", "ReplicaSetUpdated"
		}
	}
	return map[string]any{
		"observedGeneration": obj.GetGeneration(), "replicas": replicas, "updatedReplicas": replicas,
		"readyReplicas": ready, "availableReplicas": ready,
		"conditions": []any{
			map[string]any{"type": "Available", "status": available, "reason": "Simulated"},
			map[string]any{"type": "Progressing", "status": "True", "reason": progress},
		},
	}
}
