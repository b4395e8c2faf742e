package fleet_test

import (
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
)

// If runs of one placement are created at the same time, in any way, every cluster that one of them
// updates has a binding, and is cleaned when it leaves.
func TestBindingsOfConcurrentRuns(t *testing.T) {
	meanwhile(t, func() (func(backend.Store), backend.Store, func(), func()) {
		w, e := declared(t, nil)
		w.capture(e, "v0")
		must(e.CreateRun(t.Context(), specOf("before", 0)))(t)
		do := func(s backend.Store) { must(w.engine(s, "two").CreateRun(t.Context(), specOf("mine", 0)))(t) }
		other := func() {
			w.fleet.Add(placement.Cluster{Name: "member0"})
			must(e.CreateRun(t.Context(), specOf("theirs", 0)))(t)
		}
		return do, w.store, other, func() {
			p := tutorialPlacement()
			p.Policy = placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"member1"}}
			if err := e.PutPlacement(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			plan := must(e.Preview(t.Context(), specOf("clean", 0)))(t).Plan
			if got := names(fleet.Status{Plan: plan}); !slices.Equal(got, []string{"member1", "member0", "member2", "member3"}) {
				t.Errorf("updated, then cleaned: %v", got)
			}
		}
	})
}
