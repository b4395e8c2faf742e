package postgres_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/backend/postgres"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// A host that ends the engine, waits for it and then closes the store gets no warning.
func TestANormalEndLogsNothing(t *testing.T) {
	var log bytes.Buffer
	store := fresh(t, postgres.Options{})
	clusters := memory.NewFleet(placement.Cluster{Name: "eu-1"}, placement.Cluster{Name: "eu-2"})
	web := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "web"}}}
	engine, err := fleet.New(fleet.Config{
		Name: "host", Store: store, Inventory: clusters, Dialer: clusters, Source: memory.NewSource(web),
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- engine.Start(ctx) }()
	if err := engine.PutPlacement(ctx, fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.EnsureRun(ctx, fleet.RunSpec{Name: "web-1", Placement: "web", Strategy: stages.Strategy{Stages: []stages.Stage{{Name: "all", Rest: true}}}}); err != nil {
		t.Fatal(err)
	}
	if s, err := engine.Run("web-1").Wait(ctx); err != nil || s.Run.State != stages.Completed {
		t.Fatalf("the run is %s: %v", s.Run.State, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if log.Len() > 0 {
		t.Errorf("after a normal end:\n%s", log.String())
	}
}
