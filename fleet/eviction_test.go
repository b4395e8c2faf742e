package fleet_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// evicting returns the strategy of a run that evicts clusters.
func evicting(clusters ...string) stages.Strategy {
	return stages.Strategy{Name: "eviction", Stages: []stages.Stage{{Name: "none"}}, Removal: stages.Removal{Only: clusters}}
}

// TestEviction cleans one cluster and touches no other. Until the eviction is done the cluster is
// not picked, and then it is picked as a new one.
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
			r, err := e.Placement("p").Resolve(t.Context())
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

// diesAfter is the store of an engine that dies after it has written a key.
type diesAfter struct {
	backend.Store
	key  string
	dead bool
}

func (s *diesAfter) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	if s.dead {
		return "", errors.New("the engine is dead")
	}
	rev, err := s.Store.Put(ctx, key, value, prev)
	s.dead = s.dead || key == s.key
	return rev, err
}

func (s *diesAfter) Delete(ctx context.Context, key string, prev backend.Revision) error {
	if s.dead {
		return errors.New("the engine is dead")
	}
	return s.Store.Delete(ctx, key, prev)
}

// TestAnOutdatedRunThatWasRecorded: an engine records a run for a version of the placement and dies
// before it admits the run. The engine that finds the run admits it if the placement still has that
// version, and withdraws it otherwise.
func TestAnOutdatedRunThatWasRecorded(t *testing.T) {
	t.Parallel()
	for name, outdated := range map[string]bool{"same version": false, "another version": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSmallEnv(t, 2)
				e := w.newEngine(fleet.Config{Name: "one"})
				w.declare(e, smallPlacement("p"))
				w.create(e, fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(2)})
				stop := running(t, e)
				settle()
				stop()
				view, err := e.Placement("p").View(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				dying := w.engine(&diesAfter{Store: w.store, key: "run/out"}, "dying")
				if _, err := dying.CreateRun(t.Context(), fleet.RunSpec{Name: "out", Placement: "p", Version: view.Version(), Strategy: evicting("c01")}); err == nil {
					t.Fatal("the engine that dies created it")
				}
				if _, err := e.Run("out").Status(t.Context()); err != nil {
					t.Fatalf("the run is not recorded: %v", err)
				}
				if outdated {
					w.create(e, fleet.RunSpec{Name: "other", Placement: "p", Version: view.Version(), Strategy: evicting("c00")})
				}
				defer running(t, e)()
				settle()
				_, err = e.Run("out").Status(t.Context())
				if errors.Is(err, backend.ErrNotFound) != outdated {
					t.Errorf("the record of the run: %v", err)
				}
				_, err = w.fleet.Cluster("c01").Get(setting)
				if has := err == nil; has != outdated {
					t.Errorf("c01 has it: %v", err)
				}
				w.tidy()
			})
		})
	}
}
