package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// churn runs four clusters one after the other. Each is ready a minute after it was applied. churn
// calls meanwhile while c00 is not ready.
func churn(t *testing.T, meanwhile func(w *engineEnv), then func(w *engineEnv, e *fleet.Engine, feed *feed)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 4)
		e := w.newEngine(fleet.Config{Name: "one", Prober: probed})
		w.declare(e, smallPlacement("p"))
		w.create(e, fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(1)})
		defer running(t, e)()
		feed := w.follow(true)
		defer feed.stop()
		feed.of("r", stages.ClusterApplied)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go w.controllers(ctx)
		meanwhile(w)
		feed.end("r")
		then(w, e, feed)
		w.tidy()
	})
}

// controllers makes every object ready within a minute.
func (w *engineEnv) controllers(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for c := range w.fleet.Clusters(ctx) {
			_ = w.fleet.Cluster(c.Name).SetStatus(setting, map[string]any{"ready": true})
		}
	}
}

func (w *engineEnv) wantStates(run string, want ...stages.State) {
	w.t.Helper()
	got := w.outcome(run)["clusters"].(map[string]stages.State)
	for i, state := range want {
		if name := fmt.Sprintf("c%02d", i); got[name] != state {
			w.t.Errorf("%s is %s in run %s, want %s", name, got[name], run, state)
		}
	}
}

func TestClusterRemovedDuringARun(t *testing.T) {
	for _, name := range []string{"c00", "c02"} {
		t.Run(name, func(t *testing.T) {
			churn(t, func(w *engineEnv) { w.fleet.Remove(name) }, func(w *engineEnv, _ *fleet.Engine, _ *feed) {
				want := []stages.State{stages.Completed, stages.Completed, stages.Completed, stages.Completed}
				want[name[2]-'0'] = stages.Skipped
				w.wantStates("r", want...)
			})
		})
	}
}

// The next plan names a cluster that left the inventory. After that plan has completed, the binding
// of the cluster is empty until the cluster comes back and is updated.
func TestAClusterThatLeftIsNamedByOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := rolledOut(t, nil)
		defer stop()
		placed := func() (out []string) {
			view := must(e.Placement(ep).View(t.Context()))(t)
			for c, err := range view.Placed(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, c.Name)
			}
			return out
		}
		left := w.fleet.Cluster("member3")
		w.fleet.Remove("member3")
		time.Sleep(time.Minute)
		if got := fmt.Sprint(placed()); got != "[member1 member2 member3]" {
			t.Errorf("%s have something before a run", got)
		}
		for i, want := range []string{"[member3]", "[]"} {
			name := fmt.Sprint("after", i)
			ranTo(t, e, specOf(name, 0), stages.Completed)
			plan := must(e.Run(name).Status(t.Context()))(t).Plan
			if got := fmt.Sprint(plan.Left); got != want {
				t.Errorf("the plan of run %d names %s, want %s", i, got, want)
			}
			if warns := strings.Contains(fmt.Sprint(plan.Warnings), `have left the inventory, and keep it, 1 of them: ["member3"]`); warns != (want != "[]") {
				t.Errorf("the plan of run %d warns of %q", i, plan.Warnings)
			}
			if got := fmt.Sprint(placed()); got != "[member1 member2]" {
				t.Errorf("%s have something after run %d", got, i)
			}
		}
		if _, err := left.Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "test-namespace", Name: "test-cm"}); err != nil {
			t.Errorf("what it had is gone: %v", err)
		}
		w.fleet.Add(placement.Cluster{Name: "member3"})
		time.Sleep(time.Minute)
		ranTo(t, e, specOf("back", 0), stages.Completed)
		if got := fmt.Sprint(placed()); got != "[member1 member2 member3]" {
			t.Errorf("%s have something in the end", got)
		}
	})
}

func TestClusterThatJoinsIsCaughtUp(t *testing.T) {
	churn(t, func(w *engineEnv) {
		w.fleet.Add(placement.Cluster{Name: "c04"})
	}, func(w *engineEnv, e *fleet.Engine, feed *feed) {
		if _, known := w.outcome("r")["clusters"].(map[string]stages.State)["c04"]; known {
			w.t.Error("the run knows a cluster that came after it")
		}
		if _, err := w.fleet.Cluster("c04").Get(setting); !errors.Is(err, backend.ErrNotFound) {
			w.t.Errorf("c04 was updated: %v", err)
		}
		settle()
		if _, err := e.Run("r").CatchUp(w.t.Context(), "late", approval.Identity{Name: "ann"}); err != nil {
			w.t.Fatal(err)
		}
		feed.end("late")
		if _, err := w.fleet.Cluster("c04").Get(setting); err != nil {
			w.t.Errorf("c04 was not caught up: %v", err)
		}
		if n := len(w.outcome("late")["clusters"].(map[string]stages.State)); n != 1 {
			w.t.Errorf("the run that catches up has %d clusters, want 1", n)
		}
	})
}

func TestRelabelledClusterStays(t *testing.T) {
	churn(t, func(w *engineEnv) { w.fleet.Relabel("c03", map[string]string{"n": "0"}) }, func(w *engineEnv, _ *fleet.Engine, _ *feed) {
		w.wantStates("r", stages.Completed, stages.Completed, stages.Completed, stages.Completed)
	})
}
