package main

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// host is the configuration of a host with clusters in memory and its state in a file.
func host(t *testing.T, clusters *memory.Fleet, source *memory.Source, file string) fleet.Config {
	t.Helper()
	store, err := bolt.Open(file, bolt.Options{Wait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return fleet.Config{Name: "embed", Store: store, Inventory: clusters, Dialer: clusters, Source: source}
}

func clusters() *memory.Fleet {
	return memory.NewFleet(placement.Cluster{Name: "eu-1"}, placement.Cluster{Name: "eu-2"})
}

// run goes to eu-1 first, and waits for an approval.
func run(name string) fleet.RunSpec {
	return fleet.RunSpec{Name: name, Placement: "web", Strategy: stages.Strategy{Stages: []stages.Stage{
		{Name: "canary", Clusters: []string{"eu-1"}, After: []stages.Task{{Type: stages.Approval}}},
		{Name: "others", Rest: true},
	}}}
}

func namespace() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "web"}}}
}

func has(t *testing.T, clusters *memory.Fleet, name string) bool {
	t.Helper()
	_, err := clusters.Cluster(name).Get(snapshot.ID{Version: "v1", Kind: "Namespace", Name: "web"})
	return err == nil
}

// An interrupted run continues when the host starts again, and an ended run is not created again;
// another name is another run.
func TestARunContinuesAfterARestart(t *testing.T) {
	members, source, file := clusters(), memory.NewSource(namespace()), filepath.Join(t.TempDir(), "slipway.db")
	asked := make(chan approval.Request)
	cfg := host(t, members, source, file)
	cfg.Authority = approval.Func(func(ctx context.Context, r approval.Request) (approval.Decision, error) {
		select {
		case asked <- r:
		case <-ctx.Done():
		}
		return approval.Decision{}, ctx.Err()
	})
	ctx, kill := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := rollOut(ctx, cfg, run("web-v1"))
		ended <- err
	}()
	<-asked // the canary has the change
	kill()
	if err := <-ended; err == nil || !has(t, members, "eu-1") || has(t, members, "eu-2") {
		t.Fatalf("interrupted: %v", err)
	}
	if err := cfg.Store.(*bolt.Store).Close(); err != nil {
		t.Fatal(err)
	}

	cfg = host(t, members, source, file)
	cfg.Authority = approval.Func(func(context.Context, approval.Request) (approval.Decision, error) {
		return approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: "ann"}}, nil
	})
	if _, err := rollOut(t.Context(), cfg, run("web-v1")); err != nil || !has(t, members, "eu-2") {
		t.Fatalf("after the restart: %v", err)
	}
	for _, name := range []string{"web-v1", "web-v2"} { // an ended run, and a new one
		if _, err := rollOut(t.Context(), cfg, run(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A rejection ends the run, and the error says so.
func TestARejectionIsAnError(t *testing.T) {
	cfg := host(t, clusters(), memory.NewSource(namespace()), filepath.Join(t.TempDir(), "slipway.db"))
	cfg.Authority = approval.Func(func(context.Context, approval.Request) (approval.Decision, error) {
		return approval.Decision{Verdict: approval.Reject, By: approval.Identity{Name: "ann"}}, nil
	})
	_, err := rollOut(t.Context(), cfg, run("web-v1"))
	if err == nil || !strings.Contains(err.Error(), "web-v1 is Failed") || !strings.Contains(err.Error(), "rejected by ann") {
		t.Errorf("the error is %v", err)
	}
}

// When rollOut returns, its engine has ended: the store may be closed at once, and nothing is
// logged about that.
func TestANormalEndLogsNothing(t *testing.T) {
	var log bytes.Buffer
	cfg := host(t, clusters(), memory.NewSource(namespace()), filepath.Join(t.TempDir(), "slipway.db"))
	cfg.Poll = 10 * time.Millisecond
	cfg.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg.Authority = approval.Func(func(context.Context, approval.Request) (approval.Decision, error) {
		return approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: "ann"}}, nil
	})
	if _, err := rollOut(t.Context(), cfg, run("web-v1")); err != nil {
		t.Fatal(err)
	}
	if err := cfg.Store.(*bolt.Store).Close(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond) // an engine that still runs would read the store
	if log.Len() > 0 {
		t.Errorf("after a normal end:\n%s", log.String())
	}
}

// When rollOut returns for a run that is rolled back, no cluster has the change any more.
func TestARollbackHasEndedWhenTheHostReturns(t *testing.T) {
	members := clusters()
	cfg := host(t, members, memory.NewSource(namespace()), filepath.Join(t.TempDir(), "slipway.db"))
	cfg.Authority = approval.Func(func(context.Context, approval.Request) (approval.Decision, error) {
		return approval.Decision{Verdict: approval.Reject, By: approval.Identity{Name: "ann"}}, nil
	})
	spec := run("web-v1")
	spec.Strategy.Rollback = &stages.RollbackPolicy{}
	state, err := rollOut(t.Context(), cfg, spec)
	if err == nil || state != stages.Failed || has(t, members, "eu-1") {
		t.Errorf("the run is %s, %v, and eu-1 has the change: %v", state, err, has(t, members, "eu-1"))
	}
}
