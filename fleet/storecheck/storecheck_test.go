package storecheck_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/storecheck"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// rolledOut returns a store in which one run has ended.
func rolledOut(t *testing.T) (*memory.Store, *fleet.Engine) {
	t.Helper()
	store, clusters := memory.NewStore(), memory.NewFleet()
	clusters.Add(placement.Cluster{Name: "eu-1"})
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Setting", "metadata": map[string]any{"name": "app"}, "spec": map[string]any{"value": "v1"},
	}}
	e, err := fleet.New(fleet.Config{Store: store, Inventory: clusters, Dialer: clusters, Source: memory.NewSource(object), Name: "one"})
	must(t, err)
	must(t, e.PutPlacement(t.Context(), fleet.Placement{
		Name: "web", Selectors: []snapshot.Selector{{Group: "example.com", Version: "v1", Kind: "Setting", Name: "app"}},
	}))
	strategy := stages.Strategy{Name: "all", Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}
	must(t, e.PutStrategy(t.Context(), strategy))
	_, err = e.CreateRun(t.Context(), fleet.RunSpec{Name: "web-v1", Placement: "web", Strategy: strategy})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- e.Start(ctx) }()
	_, err = e.Run("web-v1").Wait(ctx)
	must(t, err)
	stop()
	must(t, <-done)
	return store, e
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func checked(t *testing.T, store backend.Store) []storecheck.Problem {
	t.Helper()
	found, err := storecheck.Check(t.Context(), store)
	must(t, err)
	return found
}

// The check reads a whole store that an engine has written. For a damaged record it names the
// record that refers to it.
func TestCheckNamesDamagedRecords(t *testing.T) {
	store, e := rolledOut(t)
	if found := checked(t, store); len(found) != 0 {
		t.Errorf("nothing is damaged: %v", found)
	}
	tried := 0
	for record, err := range store.List(t.Context(), "") {
		must(t, err)
		kind, _, _ := strings.Cut(record.Key, "/")
		want, is := map[string]string{"placement": "placement/web", "run": "run/web-v1", "plan": "run/web-v1", "content": "placement/web", "strategy": "strategy/"}[kind]
		if !is {
			continue
		}
		tried++
		damaged, err := store.Put(t.Context(), record.Key, []byte("{"), record.Revision)
		must(t, err)
		if found := checked(t, store); !slices.ContainsFunc(found, func(p storecheck.Problem) bool { return p.Record == want }) {
			t.Errorf("with %s damaged: %v", record.Key, found)
		}
		_, err = store.Put(t.Context(), record.Key, record.Value, damaged)
		must(t, err)
	}
	if tried < 5 {
		t.Errorf("%d records were damaged", tried)
	}
	must(t, e.Run("web-v1").Delete(t.Context(), false))
	if found := checked(t, store); len(found) != 0 {
		t.Errorf("after a run was deleted: %v", found)
	}
}

func TestCheckReturnsTheErrorOfTheStore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := storecheck.Check(ctx, memory.NewStore()); err == nil {
		t.Errorf("%v after the end of its context", found)
	}
}

func ExampleCheck() {
	store := memory.NewStore() // a host opens its own
	problems, err := storecheck.Check(context.Background(), store)
	if err != nil {
		fmt.Println("the store cannot be read:", err)
	}
	for _, p := range problems {
		fmt.Println(p.Record, p.Err)
	}
	fmt.Println("records that cannot be read:", len(problems))
	// Output: records that cannot be read: 0
}
