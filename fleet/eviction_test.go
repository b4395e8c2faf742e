package fleet_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// evicting is the strategy of a run that evicts clusters.
func evicting(clusters ...string) stages.Strategy {
	return stages.Strategy{Name: "eviction", Stages: []stages.Stage{{Name: "none"}}, Removal: stages.Removal{Only: clusters}}
}

// TestEviction cleans one cluster and touches no other; until that is done the cluster is not picked, and then it is, as a
// new one.
func TestEviction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 3)
		e := w.newEngine(fleet.Config{Name: "one"})
		w.declare(e, smallPlacement("p"))
		w.create(e, fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(1)})
		stop := running(t, e)
		feed := w.follow(true)
		defer feed.stop()
		feed.end("r")
		settle()
		stop()
		picked := func() []string {
			t.Helper()
			r, err := e.Resolve(t.Context(), "p")
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range r.Evaluations {
				if v.Cluster == "c01" && !v.Picked && !strings.Contains(v.Reason, "run out evicts it") {
					t.Errorf("c01 is %s", v.Reason)
				}
			}
			return r.Clusters
		}
		for what, spec := range map[string]fleet.RunSpec{
			"a cluster that is not there":   {Name: "x", Placement: "p", Strategy: evicting("c09")},
			"an index that is not latest":   {Name: "x", Placement: "p", Strategy: evicting("c01"), Index: new(7)},
			"a placement that has nothing":  {Name: "x", Placement: "q", Strategy: evicting("c01")},
			"a name that is no cluster's":   {Name: "x", Placement: "p", Strategy: evicting("C")},
			"a cluster that is named twice": {Name: "x", Placement: "p", Strategy: evicting("c01", "c01")},
		} {
			if _, err := e.CreateRun(t.Context(), spec); err == nil {
				t.Errorf("%s: it is evicted", what)
			}
		}
		if got := picked(); !slices.Equal(got, []string{"c00", "c01", "c02"}) {
			t.Errorf("%v are picked before it", got)
		}
		spec := fleet.RunSpec{Name: "out", Placement: "p", Strategy: evicting("c01")}
		if _, err := e.EnsureRun(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		if got := picked(); !slices.Equal(got, []string{"c00", "c02"}) {
			t.Errorf("%v are picked while a run evicts c01", got)
		}
		defer running(t, e)()
		feed.end("out")
		settle()
		if _, err := w.fleet.Cluster("c01").Get(setting); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("c01 has it: %v", err)
		}
		for _, name := range []string{"c00", "c02"} {
			if _, err := w.fleet.Cluster(name).Get(setting); err != nil {
				t.Errorf("%s has not: %v", name, err)
			}
		}
		if s, err := e.EnsureRun(t.Context(), spec); err != nil || s.Run.State != stages.Completed {
			t.Errorf("asked again it is %s: %v", s.Run.State, err)
		}
		if got := picked(); !slices.Equal(got, []string{"c00", "c01", "c02"}) {
			t.Errorf("%v are picked after it", got)
		}
		if _, err := e.CreateRun(t.Context(), fleet.RunSpec{Name: "again", Placement: "p", Strategy: evicting("c01")}); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("a cluster that has nothing is evicted: %v", err)
		}
		w.create(e, fleet.RunSpec{Name: "back", Placement: "p", Strategy: allAtOnce(1)})
		feed.end("back")
		if _, err := w.fleet.Cluster("c01").Get(setting); err != nil {
			t.Errorf("c01 does not have it again: %v", err)
		}
		w.tidy()
	})
}
