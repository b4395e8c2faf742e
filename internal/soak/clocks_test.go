package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
)

// Clocks jump by themselves, each by an amount of its own, and are right again
// when they are told to; the same scenario draws the same jumps.
func TestClocksJump(t *testing.T) {
	var seen [2][]int64
	var s *scenario
	for n := range 100 {
		if s = newScenario(5, n, 3); s.clockRand(1) != nil {
			break
		}
	}
	for i := range seen {
		c, r := newClocks(2), s.clockRand(1)
		for range 20 {
			c.jump(r)
			seen[i] = append(seen[i], c.wrong[0].Load(), c.wrong[1].Load())
		}
		if c.wrong[0].Load() == c.wrong[1].Load() {
			t.Error("both clocks are wrong by the same")
		}
		off := time.Until(c.of(0)()) - time.Duration(c.wrong[0].Load())
		if off < -time.Second || off > time.Second {
			t.Errorf("the clock is %v from what it is to show", off)
		}
		c.correct()
		if off := time.Until(c.of(1)()); off < -time.Second {
			t.Errorf("the clock is wrong by %v", off)
		}
	}
	if !slices.Equal(seen[0], seen[1]) {
		t.Error("the jumps are others the second time")
	}
}

// What is left of a run that is gone, and more records than a placement takes,
// are violations, whatever was there before.
func TestWhatIsLeftOfRunsIsAViolation(t *testing.T) {
	h := health{files: footprint{records: remainsMost}}
	if err := h.against(&h); err != nil {
		t.Error(err)
	}
	h.files.records++
	if err := h.against(&h); err == nil || !strings.Contains(err.Error(), "records of the engines") {
		t.Errorf("one record too many: %v", err)
	}
	var f footprint
	for _, key := range []string{"placement/p", "journal/placement.p/1-x", "content/p/d", "intent/p/u", "bindings/p/1-x-0"} {
		f.take(key)
	}
	if len(f.strays) > 0 {
		t.Errorf("strays: %v", f.strays)
	}
	for _, key := range []string{"run/r", "plan/d", "plan/d/0", "inflight/u/1-2-3-4", "journal/u/0-x", "command/u/c"} {
		h := health{}
		h.files.take(key)
		if err := h.against(&health{}); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// After a scenario nothing is left of its runs, also of one that was begun by a
// process which died, and of the plan that another one left.
func TestASweepForgetsWhatAKillLeft(t *testing.T) {
	w := newTestEnvironment(t)
	if err := w.settle(t.Context(), []resident{{Name: "c"}}); err != nil {
		t.Fatal(err)
	}
	for _, st := range []step{declareStep("web", 0), editStep("web", "v"), captureStep("web", 0)} {
		if _, err := st.do(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	for n, name := range []string{"begun", "page", "plan", "run"} {
		writes := faulty.NewPlan(func(c faulty.Call) faulty.Fault { return faulty.Fault{Crash: c.Write == n+2} })
		cfg := fleet.Config{Store: writes.BatchStore(w.engineFile), Inventory: inventory{w}, Dialer: w.dialer(), Source: w.hub}
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
	dies, err := fleet.New(fleet.Config{Store: half.BatchStore(w.engineFile), Inventory: inventory{w}, Dialer: w.dialer(), Source: w.hub})
	if err != nil {
		t.Fatal(err)
	}
	spec := fleet.RunSpec{Name: "half", Placement: "web", Strategy: everywhere(1), Hold: true}
	if _, err := w.eyes.CreateRun(t.Context(), spec); err != nil || dies.DeleteRun(t.Context(), "half") == nil {
		t.Errorf("the deletion was not cut short: %v", err)
	}
	f, err := w.footprint(t.Context())
	if err != nil || len(f.strays) < 3 {
		t.Errorf("nothing was left: %v, %v", f.strays, err)
	}
	if err := w.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f, err = w.footprint(t.Context()); err != nil || len(f.strays) > 0 || f.records > remainsMost {
		t.Errorf("%d records, strays: %v, %v", f.records, f.strays, err)
	}
}
