package docs

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// docs/howto/back-up-and-restore.md: a store that was restored from an old backup is behind its
// members. The run says which ConfigMap to delete, and the next one completes.
func TestARestoredStoreIsBehindItsMembers(t *testing.T) {
	dir, clusters := t.TempDir(), memory.NewFleet(placement.Cluster{Name: "eu-1"})
	file, backup := filepath.Join(dir, "slipway.db"), filepath.Join(dir, "backup.db")
	source := memory.NewSource(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop"}}})
	roll := func(name string, then func(*bolt.Store) error) (stages.State, string) {
		t.Helper()
		store, err := bolt.Open(file, bolt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		engine, err := fleet.New(fleet.Config{Store: store, Inventory: clusters, Dialer: clusters, Source: source})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = engine.Start(ctx) }()
		defer func() { cancel(); <-ended }()
		strategy := stages.Strategy{Attempts: 1, Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(source.Put(configMap(name)))
		must(engine.PutPlacement(ctx, fleet.Placement{Name: "shop", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "shop"}}}))
		_, err = engine.CreateRun(ctx, fleet.RunSpec{Name: name, Placement: "shop", Strategy: strategy})
		must(err)
		status, err := engine.Run(name).Wait(ctx)
		must(err)
		cluster, err := engine.Run(name).Explain(ctx, "eu-1")
		must(err)
		must(then(store))
		return status.Run.State, cluster.Reason
	}
	none := func(*bolt.Store) error { return nil }
	roll("shop-1", func(s *bolt.Store) error {
		to, err := os.Create(backup)
		if err == nil {
			_, err = s.Backup(t.Context(), to)
		}
		return err
	})
	roll("shop-2", none)
	roll("shop-3", none)
	if err := os.Rename(backup, file); err != nil {
		t.Fatal(err)
	}
	state, reason := roll("shop-4", none)
	if want := "although this engine has the run: if the engine's store was restored from a backup, delete ConfigMap slipway-system/shop on the cluster"; state != stages.Failed || !strings.Contains(reason, want) {
		t.Errorf("%s, %s", state, reason)
	}
	if err := clusters.Cluster("eu-1").Delete(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "slipway-system", Name: "shop"}); err != nil {
		t.Fatal(err)
	}
	if state, reason := roll("shop-5", none); state != stages.Completed {
		t.Errorf("%s, %s", state, reason)
	}
}
