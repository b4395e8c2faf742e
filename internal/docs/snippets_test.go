package docs

// This file has the code that documents show and that no example contains. Each block is a part of
// a function here, and a test runs the function.

import (
	"context"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

func configMap(value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings", "namespace": "shop"},
		"data": map[string]any{"greeting": value},
	}}
}

func members() *memory.Fleet {
	return memory.NewFleet(placement.Cluster{Name: "eu-1"}, placement.Cluster{Name: "eu-2"})
}

// rolledOut runs an engine with a placement whose run is completed.
func rolledOut(t *testing.T, clusters *memory.Fleet) *fleet.Engine {
	t.Helper()
	shop := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop"}}}
	source := memory.NewSource(shop, configMap("hello"))
	engine, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: clusters, Dialer: clusters, Source: source})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = engine.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	selectors := []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "shop"}}
	if err := engine.PutPlacement(ctx, fleet.Placement{Name: "shop", Selectors: selectors}); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.CreateRun(ctx, run("shop-1")); err != nil {
		t.Fatal(err)
	}
	if s, err := engine.Run("shop-1").Wait(ctx); err != nil || s.Run.State != stages.Completed {
		t.Fatalf("%s, %v", s.Run.State, err)
	}
	return engine
}

func run(name string) fleet.RunSpec {
	return fleet.RunSpec{Name: name, Placement: "shop", Strategy: stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}}
}

// docs/embedding.md: a store that survives.
func onFile(members *memory.Fleet, source snapshot.Source, then func(*fleet.Engine) error) error {
	store, err := bolt.Open("slipway.db", bolt.Options{}) // checked as a whole; in use, damaged or newer is an error that says so
	if err != nil {
		return err
	}
	defer store.Close()
	engine, err := fleet.New(fleet.Config{Store: store, Inventory: members, Dialer: members, Source: source})
	if err != nil {
		return err
	}
	return then(engine)
}

func TestAStoreInAFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for range 2 { // the second time the file is there
		err := onFile(members(), memory.NewSource(), func(e *fleet.Engine) error {
			return e.PutPlacement(t.Context(), fleet.Placement{Name: "shop", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "shop"}}})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files, err := filepath.Glob("*"); err != nil || len(files) != 1 || files[0] != "slipway.db" {
		t.Errorf("%v, %v", files, err)
	}
}

// docs/drift.md: package drift alone.
func compared(hub, member *unstructured.Unstructured) (drift.Report, error) {
	report, err := drift.Compare(hub, member, drift.Options{Comparison: drift.Full})
	return report, err
}

func TestTwoObjectsAreCompared(t *testing.T) {
	if r, err := compared(configMap("hello"), configMap("bye")); err != nil || len(r.Differences) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// docs/drift.md: an engine compares.
func driftOf(ctx context.Context, engine *fleet.Engine, spec fleet.RunSpec, out io.Writer) error {
	for c, err := range engine.Placement("shop").Drift(ctx, fleet.DriftOptions{}) {
		if err != nil {
			return err
		}
		fmt.Fprintln(out, c.Cluster, len(c.Objects)) // fleet.GroupDrift groups clusters with the same differences
	}
	preview, err := engine.Preview(ctx, spec) // before a run: the changes on each cluster
	if err != nil {
		return err
	}
	for c, err := range preview.Diff(ctx) {
		if err != nil {
			return err
		}
		fmt.Fprintln(out, c.Cluster, len(c.Objects))
	}
	return nil
}

func TestAnEngineComparesClusters(t *testing.T) {
	clusters := members()
	engine := rolledOut(t, clusters)
	if err := clusters.Cluster("eu-2").Update(configMap("bye")); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := driftOf(t.Context(), engine, run("shop-2"), &out); err != nil || !strings.Contains(out.String(), "eu-1 0\n") || !strings.Contains(out.String(), "eu-2 1\n") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

// docs/simulation.md: a run before it exists.
func forecast(ctx context.Context, engine *fleet.Engine, spec fleet.RunSpec) error {
	preview, err := engine.Preview(ctx, spec)
	if err != nil {
		return err
	}
	f, err := preview.Forecast(ctx, fleet.Assumptions{Approve: metav1.Duration{Duration: 2 * time.Hour}})
	fmt.Println(f.End.State, "at", f.Ends)
	return err
}

func TestARunIsForecast(t *testing.T) {
	clusters := members()
	if err := forecast(t.Context(), rolledOut(t, clusters), run("shop-2")); err != nil {
		t.Error(err)
	}
}

// docs/howto/write-a-store.md: the interface of a store. The two types convert to each other, so
// they have the same methods.
type Store interface {
	Get(ctx context.Context, key string) (backend.Record, error)
	Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error)
	Delete(ctx context.Context, key string, prev backend.Revision) error
	List(ctx context.Context, prefix string) iter.Seq2[backend.Record, error]
}

var (
	_ Store         = backend.Store(nil)
	_ backend.Store = Store(nil)
)
