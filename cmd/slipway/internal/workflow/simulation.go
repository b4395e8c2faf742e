package workflow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/formats/oam/delivery"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/placement"
)

// documents are what files declare.
type documents struct {
	applications []*unstructured.Unstructured
	// objects are all other ones, with the namespaces of all.
	objects  []*unstructured.Unstructured
	clusters []placement.Cluster
}

// files are those of the system.
type files struct{}

func (files) Open(name string) (fs.File, error) { return os.Open(name) }

// readFiles reads files and directories. What has no namespace is in this one.
func readFiles(args []string, namespace string) (d documents, err error) {
	docs, err := oam.ReadFS(files{}, args...)
	if err != nil {
		return d, err
	}
	if len(docs.Applications) == 0 {
		return d, errors.New("the files have no Application of core.oam.dev/v1beta1: nothing is delivered")
	}
	for _, obj := range docs.All {
		kind := obj.GetKind()
		if kind == "ManagedCluster" || kind == "MemberCluster" {
			d.clusters = append(d.clusters, placement.Cluster{Name: obj.GetName(), Labels: obj.GetLabels()})
			continue
		}
		if kind != "Namespace" {
			if obj.GetNamespace() == "" {
				obj.SetNamespace(namespace)
			}
			home := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": obj.GetNamespace()}}}
			d.objects = slices.Insert(d.objects, 0, home) // before one that a file declares, which takes its place
		}
		if kind == "Application" && obj.GroupVersionKind().Group == "core.oam.dev" {
			d.applications = append(d.applications, obj)
		} else {
			d.objects = append(d.objects, obj)
		}
	}
	if len(d.clusters) > 0 {
		return d, nil
	}
	named := sets.New[string]()
	for _, app := range docs.Applications {
		docs.Policies = append(docs.Policies, app.Policies...)
	}
	for _, p := range docs.Policies {
		if p.Topology != nil {
			named.Insert(p.Topology.Clusters...)
		}
	}
	for _, name := range sets.List(named) {
		d.clusters = append(d.clusters, placement.Cluster{Name: name})
	}
	return d, nil
}

// react is the controllers of a cluster: a Deployment is ready at once, unless an image of it has the tag broken.
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

// simulation delivers the applications of files to clusters in memory, whose state is in the store beside the
// engine's: a process that opens the store again goes on where another one was killed.
type simulation struct {
	docs    documents
	members *durable.Fleet
	apps    *delivery.Applications
	// file is that of the store, where other processes find the API meanwhile; "" for none.
	file string
}

// poll is how often what moves is observed.
const poll = 20 * time.Millisecond

func newSimulation(ctx context.Context, store backend.Store, docs documents) (*simulation, error) {
	members := durable.NewFleet(store)
	for _, c := range docs.clusters {
		if err := members.Open(ctx, c); err != nil {
			return nil, err
		}
		members.Cluster(c.Name).SetClock(time.Now)
		members.Cluster(c.Name).React(react)
	}
	source := memory.NewSource(docs.objects...)
	engine, err := fleet.New(fleet.Config{Name: "workflow", Store: store, Inventory: members, Dialer: members, Source: source, Poll: poll})
	apps := &delivery.Applications{Engine: engine, Store: store, Source: source, Inventory: members, Starter: approval.Identity{Name: "slipway"}}
	return &simulation{docs: docs, members: members, apps: apps}, err
}

// settle drives the engine until no workflow moves without a person, and returns the last outcome of each application.
// Whenever they were reconciled each is called with whether one moves, and decides whether to go on.
func (s *simulation) settle(ctx context.Context, each func(now []delivery.Outcome, moving bool) (goOn bool, err error)) (now []delivery.Outcome, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	var background sync.WaitGroup
	background.Go(func() { stop(s.apps.Engine.Run(ctx)) })
	if s.file != "" {
		background.Go(func() {
			if err := httpapi.Serve(ctx, s.apps.Engine, httpapi.ServeOptions{Store: s.file}); err != nil {
				stop(err)
			}
		})
	}
	defer func() {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		stop(nil)
		background.Wait()
	}()
	for {
		now, moving, err := s.reconcile(ctx)
		if err == nil {
			moving, err = each(now, moving)
		}
		if err != nil || !moving {
			return now, err
		}
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case <-time.After(poll):
		}
	}
}

// reconcile reconciles each application once, and reports whether a workflow moves.
func (s *simulation) reconcile(ctx context.Context) (now []delivery.Outcome, moving bool, err error) {
	for _, app := range s.docs.applications {
		moves, err := s.apps.Moves(ctx, app.GetNamespace(), app.GetName())
		var out delivery.Outcome
		if err == nil {
			out, err = s.apps.Reconcile(ctx, app, nil)
		}
		first := errors.Is(err, backend.ErrConflict) // the engine was
		if err != nil && !first {
			return nil, false, fmt.Errorf("application %s: %w", nameOf(app), err)
		}
		now, moving = append(now, out), moving || moves || out.Begun || first
	}
	return now, moving, nil
}

func nameOf(app *unstructured.Unstructured) string { return app.GetNamespace() + "/" + app.GetName() }
