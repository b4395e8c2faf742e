package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

func opened(t *testing.T, dir string) *Directory {
	t.Helper()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// open returns an empty store.
func open(t *testing.T) *Directory {
	t.Helper()
	d := opened(t, t.TempDir())
	d.flush = func(string) error { return nil } // thousands of writes, and no loss of power
	return d
}

func TestStore(t *testing.T) {
	backendtest.TestStore(t, func(t *testing.T) backend.Store { return open(t) })
}

// A reopened directory contains the written records, and a changed file is an error.
func TestRecordsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	d := opened(t, dir)
	kept, err := d.Put(t.Context(), "a/b", []byte("v"), "")
	if err != nil {
		t.Fatal(err)
	}
	gone, err := d.Put(t.Context(), "c", []byte("v"), "")
	if err := errors.Join(err, d.Delete(t.Context(), "c", gone)); err != nil {
		t.Fatal(err)
	}
	d = opened(t, dir)
	if r, err := d.Get(t.Context(), "a/b"); err != nil || r.Revision != kept || string(r.Value) != "v" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := d.Get(t.Context(), "c"); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("the deleted record is %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x.json"), []byte(`{"Key":"a/b"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil {
		t.Error("a record in the file of another is no error")
	}
}

// After a write with an unknown result every call fails.
func TestAFailedWriteEndsTheStore(t *testing.T) {
	dir := t.TempDir()
	d := opened(t, dir)
	if err := os.Mkdir(d.file("a")+".next", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Put(t.Context(), "a", nil, ""); err == nil {
		t.Fatal("a write that failed was acknowledged")
	}
	if _, err := d.Get(t.Context(), "b"); err == nil || errors.Is(err, backend.ErrNotFound) {
		t.Errorf("the store answers: %v", err)
	}
}

// An engine keeps its state in the store.
func TestAnEngineRunsOnIt(t *testing.T) {
	clusters := memory.NewFleet(placement.Cluster{Name: "eu-1"})
	web := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "web"}}}
	e, err := fleet.New(fleet.Config{Store: opened(t, t.TempDir()), Inventory: clusters, Dialer: clusters, Source: memory.NewSource(web)})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	go func() { _ = e.Start(ctx) }()
	if err := e.PutPlacement(ctx, fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}}); err != nil {
		t.Fatal(err)
	}
	all := stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}
	if _, err := e.CreateRun(ctx, fleet.RunSpec{Name: "web-1", Placement: "web", Strategy: all}); err != nil {
		t.Fatal(err)
	}
	if s, err := e.Run("web-1").Wait(ctx); err != nil || s.Run.State != stages.Completed {
		t.Errorf("%s, %v", s.Run.State, err)
	}
}
