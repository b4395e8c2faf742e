package main

import (
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/soak/environment"
)

// Remains of a deleted run, and too many records of a placement, are violations, whatever existed
// before.
func TestRemainsOfRunsAreViolations(t *testing.T) {
	h := health{files: environment.Footprint{Records: remainsMost}}
	if err := h.against(&h); err != nil {
		t.Error(err)
	}
	h.files.Records++
	if err := h.against(&h); err == nil || !strings.Contains(err.Error(), "records of the engines") {
		t.Errorf("one record too many: %v", err)
	}
	var f environment.Footprint
	for _, key := range []string{"placement/p", "journal/placement.p/1-x", "content/p/d", "intent/p/u", "bindings/p/1-x-0"} {
		f.Count(key)
	}
	if len(f.Orphans) > 0 {
		t.Errorf("strays: %v", f.Orphans)
	}
	for _, key := range []string{"run/r", "plan/d", "plan/d/0", "inflight/u/1-2-3-4", "journal/u/0-x", "command/u/c"} {
		h := health{}
		h.files.Count(key)
		if err := h.against(&health{}); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// After a scenario nothing remains of its runs, including a run started by a killed process and
// the plan of another one.
func TestSweepRemovesRemainsOfAKilledProcess(t *testing.T) {
	env := newTestEnvironment(t)
	if err := env.Provision(t.Context(), []environment.Member{{Name: "c"}}); err != nil {
		t.Fatal(err)
	}
	for _, st := range []act{declareStep("web", 0), editStep("web", "v"), captureStep("web", 0)} {
		if _, err := st.do(t.Context(), env); err != nil {
			t.Fatal(err)
		}
	}
	for n, name := range []string{"begun", "page", "plan", "run"} {
		writes := faulty.NewPlan(func(c faulty.Call) faulty.Fault { return faulty.Fault{Crash: c.Write == n+2} })
		cfg := env.Config()
		cfg.Store = writes.BatchStore(env.Store)
		e, err := fleet.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		spec := fleet.RunSpec{Name: name, Placement: "web", Strategy: everywhere(1), Starter: approval.Identity{Name: olga}}
		spec.Strategy.Name = name // a plan of its own
		if _, err := e.CreateRun(t.Context(), spec); err == nil {
			t.Errorf("%s: the creation was not cut short", name)
		}
	}
	half := faulty.NewPlan(func(c faulty.Call) faulty.Fault { return faulty.Fault{Crash: c.Write == 2} })
	cfg := env.Config()
	cfg.Store = half.BatchStore(env.Store)
	dies, err := fleet.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	spec := fleet.RunSpec{Name: "half", Placement: "web", Strategy: everywhere(1), Hold: true}
	if _, err := env.Observer.CreateRun(t.Context(), spec); err != nil || dies.Run("half").Delete(t.Context(), true) == nil {
		t.Errorf("the deletion was not cut short: %v", err)
	}
	f, err := env.Footprint(t.Context())
	if err != nil || len(f.Orphans) < 3 {
		t.Errorf("nothing was left: %v, %v", f.Orphans, err)
	}
	if err := sweep(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	if f, err = env.Footprint(t.Context()); err != nil || len(f.Orphans) > 0 || f.Records > remainsMost {
		t.Errorf("%d records, strays: %v, %v", f.Records, f.Orphans, err)
	}
}

func newTestEnvironment(t *testing.T) *environment.Environment {
	t.Helper()
	env, err := environment.Open(t.Context(), environment.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	})
	return env
}
