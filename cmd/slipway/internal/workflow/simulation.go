package workflow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/formats/oam/delivery"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/placement"
)

// documents are the documents of files.
type documents struct {
	applications []*unstructured.Unstructured
	// objects are all of them except clusters, with the namespaces of all.
	objects  []*unstructured.Unstructured
	clusters []placement.Cluster
}

// files is the file system.
type files struct{}

func (files) Open(name string) (fs.File, error) { return os.Open(name) }

// readFiles reads files and directories. An object without a namespace gets the given one.
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
			d.objects = slices.Insert(d.objects, 0, home) // before a file's own, which replaces it
		}
		if kind == "Application" && obj.GroupVersionKind().Group == "core.oam.dev" {
			d.applications = append(d.applications, obj)
		}
		d.objects = append(d.objects, obj)
	}
	if len(d.clusters) == 0 {
		for _, name := range docs.Clusters() {
			d.clusters = append(d.clusters, placement.Cluster{Name: name})
		}
	}
	return d, nil
}

// simulation delivers the applications of files to clusters in memory, whose state is in the
// store beside the engine's: a process that opens the store again continues after another one was
// killed.
type simulation struct {
	docs    documents
	members *durable.Fleet
	apps    *delivery.Applications
}

// isBroken reports whether an image fails to start on the clusters.
func isBroken(image string) bool { return strings.HasSuffix(image, ":broken") }

// poll is the interval of observations of moving workflows.
const poll = 20 * time.Millisecond

func newSimulation(ctx context.Context, store backend.Store, docs documents) (*simulation, error) {
	members := durable.NewFleet(store)
	if err := members.Open(ctx, docs.clusters...); err != nil {
		return nil, err
	}
	for _, c := range docs.clusters {
		members.Cluster(c.Name).SetClock(time.Now)
		members.Cluster(c.Name).React(memory.Deployments(isBroken))
	}
	source := memory.NewSource(docs.objects...)
	engine, err := fleet.New(fleet.Config{Name: "workflow", Store: store, Inventory: members, Dialer: members, Source: source, Poll: poll})
	apps := &delivery.Applications{Engine: engine, Store: store, Source: source, Inventory: members, Starter: approval.Identity{Name: "slipway"}}
	return &simulation{docs: docs, members: members, apps: apps}, err
}

// reconcile reconciles each application once, and reports whether a workflow moves.
func (s *simulation) reconcile(ctx context.Context) (now []delivery.Outcome, moving bool, err error) {
	for _, app := range s.docs.applications {
		moves, err := s.apps.Moves(ctx, app.GetNamespace(), app.GetName())
		var out delivery.Outcome
		if err == nil {
			out, err = s.apps.Reconcile(ctx, app, nil)
		}
		first := errors.Is(err, backend.ErrConflict) // the engine was first
		if err != nil && !first {
			return nil, false, fmt.Errorf("application %s: %w", nameOf(app), err)
		}
		now, moving = append(now, out), moving || moves || out.Begun || first
	}
	return now, moving, nil
}

func nameOf(app *unstructured.Unstructured) string { return app.GetNamespace() + "/" + app.GetName() }
