package updater

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

func object(kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func newSites(t *testing.T) Sites {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"shop-1", "shop-2"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return Sites(dir)
}

// files returns the files of a site's objects.
func (s Sites) files(t *testing.T, site string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(string(s), site, "object-*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A run writes the objects to every site, and the next run removes deleted ones.
func TestARunBringsTheSitesToTheSnapshot(t *testing.T) {
	s, store := newSites(t), memory.NewStore()
	for run, objects := range [][]*unstructured.Unstructured{
		{object("Namespace", "", "web"), object("ConfigMap", "web", "a"), object("ConfigMap", "web", "b")},
		{object("Namespace", "", "web"), object("ConfigMap", "web", "b")},
	} {
		state, err := rollOut(t.Context(), store, s, []string{"web-v1", "web-v2"}[run], objects...)
		if err != nil || state != stages.Completed {
			t.Fatalf("%s, %v", state, err)
		}
		for _, site := range []string{"shop-1", "shop-2"} {
			if got := s.files(t, site); len(got) != len(objects) {
				t.Errorf("%s has %v, want %d objects", site, got, len(objects))
			}
		}
	}
}

// An engine that was replaced changes nothing.
func TestAnOlderEngineIsRefused(t *testing.T) {
	s := newSites(t)
	a := backend.Assignment{Run: "r", RunUID: "u", Epoch: 2, Cluster: placement.Cluster{Name: "shop-1"}, Revision: ""}
	if err := s.write(a, "slipway", record{"v", "u", 3}); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Update(t.Context(), a); !errors.Is(err, backend.ErrFenced) || p.Sent {
		t.Errorf("%+v, %v", p, err)
	}
	a.Epoch = 3
	if p, err := s.Update(t.Context(), a); err != nil || !p.Current || p.Revision != "" || p.Unchanged {
		t.Errorf("%+v, %v", p, err)
	}
}

// rollOut brings objects to all sites, one site after the other.
func rollOut(ctx context.Context, store backend.Store, s Sites, run string, objects ...*unstructured.Unstructured) (stages.State, error) {
	engine, err := fleet.New(fleet.Config{Store: store, Inventory: s, Updater: s, Source: memory.NewSource(objects...)})
	if err != nil {
		return "", err
	}
	go func() { _ = engine.Start(ctx) }()
	web := fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}}
	if err := engine.PutPlacement(ctx, web); err != nil {
		return "", err
	}
	strategy := stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}
	if _, err := engine.EnsureRun(ctx, fleet.RunSpec{Name: run, Placement: "web", Strategy: strategy}); err != nil {
		return "", err
	}
	status, err := engine.Run(run).Wait(ctx)
	return status.Run.State, err
}
