package state

import (
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/content"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
	"github.com/slipway-dev/slipway/stages/step"
)

// kit is the state of an engine, called me, on a store whose calls are counted and may have faults.
type kit struct {
	*State
	t     *testing.T
	calls *faulty.Plan
	// under is the store without faults.
	under *memory.Store
}

// on returns the state of an engine on a store with these faults.
func on(t *testing.T, store *memory.Store, rules ...faulty.Rule) *kit {
	calls := faulty.NewPlan(rules...)
	s := calls.Store(store)
	return &kit{t: t, calls: calls, under: store, State: New(Options{
		Store: s, Contents: content.New(s), Inventory: memory.NewFleet(placement.Cluster{Name: "c"}), Name: "me",
		Lease: 15 * time.Second, Poll: time.Second, CallTimeout: time.Minute, Clock: time.Now, Log: slog.New(slog.DiscardHandler),
	})}
}

// put stores a record, whatever was there.
func (k *kit) put(key string, value []byte) backend.Revision {
	k.t.Helper()
	old, err := k.under.Get(k.t.Context(), key)
	if err != nil && !IsNotFound(err) {
		k.t.Fatal(err)
	}
	rev, err := k.under.Put(k.t.Context(), key, value, old.Revision)
	if err != nil {
		k.t.Fatal(err)
	}
	return rev
}

func (k *kit) has(key string) bool {
	k.t.Helper()
	_, err := k.under.Get(k.t.Context(), key)
	if err != nil && !IsNotFound(err) {
		k.t.Fatal(err)
	}
	return err == nil
}

// placed stores the record of placement p at epoch 5, and returns it.
func (k *kit) placed(runs ...lifecycle.Run) *record.Placement {
	p := &record.Placement{Format: record.Format, Placement: record.Declaration{Name: "p"}, Key: record.NewKey(), State: lifecycle.State{UID: "uid-p", Epoch: 5, Runs: runs}}
	k.put(record.PlacementKey("p"), record.Encode(p))
	return p
}

// planned returns a plan that gives cluster c a revision, and stores it.
func (k *kit) planned(revision string) *stages.Plan {
	k.t.Helper()
	plan, err := planner.Plan(stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}},
		stages.Target{Placement: "p", Snapshot: "s", Selection: "d", Default: revision}, []placement.Cluster{{Name: "c"}})
	if err != nil {
		k.t.Fatal(err)
	}
	if err := k.Plans.Write(k.t.Context(), plan); err != nil {
		k.t.Fatal(err)
	}
	return plan
}

// recorded stores the record of a run of a plan, which another engine has at epoch 4.
func (k *kit) recorded(name string, plan *stages.Plan) (*record.Run, backend.Revision) {
	rr := &record.Run{
		Run: step.NewRun(plan, name, "uid-"+name, approval.Identity{}, false, time.Now()), Of: "uid-p", Lease: record.Lease{Holder: "other", Epoch: 4},
	}
	return rr, k.put(record.RunKey(name), rr.Encode())
}

// content stores a set of one object with a text, and returns it.
func (k *kit) content(text string) snapshot.Set {
	k.t.Helper()
	set, err := snapshot.NewSet([]*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "n", "name": "x"}, "data": map[string]any{"text": text},
	}}})
	if err == nil {
		err = k.contents.Save(k.t.Context(), "p", set, func(string) bool { return false })
	}
	if err != nil {
		k.t.Fatal(err)
	}
	return set
}
