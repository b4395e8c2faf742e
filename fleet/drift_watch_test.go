package fleet_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/health"
	"github.com/slipway-dev/slipway/stages"
)

// The start time of a difference is kept as long as the difference exists, over comparisons and
// restarts. The store is written only when the difference changes. A new difference has a new start
// time (T3 and T8 of the cases).
func TestDriftKeepsItsStartTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := placed(t, apply.Strategy{WhenToApply: apply.IfNotDrifted})
		recorded := func() drift.ClusterReport {
			t.Helper()
			time.Sleep(time.Second)
			seen, err := recordedDrift(t.Context(), e.Placement("example-placement"))
			if err != nil || len(seen) != 1 {
				t.Fatalf("%+v, %v", seen, err)
			}
			return seen[0]
		}
		w.edit("member2", set("key", "theirs"))
		began := time.Now()
		first := recorded()
		rec, err := w.store.Get(t.Context(), "drift/example-placement/member2")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		stop()
		e = w.engine(w.store, "b")
		defer running(t, e)()
		w.edit("member2", set("unmanaged", "1"))
		second := recorded()
		if now, _ := w.store.Get(t.Context(), rec.Key); now.Revision != rec.Revision {
			t.Error("the record was written again although nothing changed")
		}
		if !second.Objects[0].FirstObserved.Equal(first.Objects[0].FirstObserved) || first.Objects[0].FirstObserved.Sub(began) > time.Second {
			t.Errorf("first observed at %v, then at %v; it began at %v", first.Objects[0].FirstObserved, second.Objects[0].FirstObserved, began)
		}
		if _, live := reportOf(t, e, fleet.DriftOptions{Clusters: []string{"member2"}}); !live[0].Objects[0].FirstObserved.Equal(first.Objects[0].FirstObserved) {
			t.Errorf("a report says that it was first observed at %v", live[0].Objects[0].FirstObserved)
		}
		if second.Observed.Sub(first.Observed) < time.Hour {
			t.Errorf("observed at %v, then at %v", first.Observed, second.Observed)
		}
		w.edit("member2", set("key", "value1"))
		time.Sleep(time.Second)
		if seen, err := recordedDrift(t.Context(), e.Placement("example-placement")); err != nil || len(seen) > 0 {
			t.Errorf("%+v, %v", seen, err)
		}
		w.edit("member2", set("key", "theirs"))
		if third := recorded(); third.Objects[0].FirstObserved.Sub(began) < time.Hour {
			t.Errorf("first observed at %v", third.Objects[0].FirstObserved)
		}
	})
}

// A field that another client keeps changing is restored at longer and longer intervals, with an
// event each time.
func TestAFightOverAFieldSlowsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := placed(t, apply.Strategy{WhenToApply: apply.Always})
		defer stop()
		for range 6000 {
			if w.value("member2") != "theirs" {
				w.edit("member2", set("key", "theirs"))
			}
			time.Sleep(100 * time.Millisecond)
		}
		put, last := 0, ""
		f, err := e.Placement("example-placement").Follow("")
		if err != nil {
			t.Fatal(err)
		}
		for ev, err := range f.Past(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Type == stages.DriftCorrected {
				put, last = put+1, ev.Message
				if ev.Cluster != "member2" || strings.Contains(ev.Message, "theirs") {
					t.Errorf("%+v", ev)
				}
			}
		}
		if put < 5 || put > 15 || !strings.Contains(last, "ignore rule") {
			t.Errorf("it was put back %d times in ten minutes, the last event says %s", put, last)
		}
	})
}

// Objects are restored only between runs, and never to content that a run has replaced.
func TestNothingIsRestoredWhileARunHasThePlacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := placed(t, apply.Strategy{WhenToApply: apply.Always})
		defer stop()
		s := inOneStage(stages.Task{Type: stages.Approval})
		if _, err := e.CreateRun(t.Context(), fleet.RunSpec{Name: "two", Placement: "example-placement", Strategy: s}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		w.edit("member2", set("key", "theirs"))
		time.Sleep(time.Minute)
		if got := w.value("member2"); got != "theirs" {
			t.Errorf("member2 has %s while run two has the placement", got)
		}
		if err := e.Run("two").Command(t.Context(), stages.Command{Verb: stages.Abort}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if got := w.value("member2"); got != "value1" {
			t.Errorf("member2 has %s after run two", got)
		}
	})
}

// A gate of the engine's own group blocks a stage while one of its clusters has drifted, and no
// person can pass it in the engine's name.
func TestAStageWaitsWhileItsClustersHaveDrifted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := placed(t, apply.Strategy{})
		defer stop()
		w.edit("member2", set("key", "theirs"))
		if err := w.source.Put(configMap("test-cm", "value2")); err != nil {
			t.Fatal(err)
		}
		if _, err := e.CreateRun(t.Context(), fleet.RunSpec{Name: "two", Placement: "example-placement", Strategy: inOneStage(fleet.NoDrift())}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := w.value("member1"); got != "value1" {
			t.Errorf("member1 has %s although member2 has drifted", got)
		}
		liar := approval.Identity{Name: "mallory", Groups: []string{fleet.NoDriftGroup}}
		err := e.Run("two").Command(t.Context(), stages.Command{Verb: stages.Decide, Name: "two-before-all", By: liar, Decision: &approval.Decision{Verdict: approval.Approve}})
		if err == nil || !strings.Contains(err.Error(), "the engine's own") {
			t.Errorf("mallory: %v", err)
		}
		w.edit("member2", set("key", "value1"))
		s, err := e.Run("two").Wait(t.Context())
		if err != nil || s.Run.State != stages.Completed || w.value("member2") != "value2" {
			t.Errorf("run two is %s, member2 has %s, %v", s.Run.State, w.value("member2"), err)
		}
	})
}

// An ignored field is neither reported nor restored, and keeps another client's value when a new
// version is applied.
func TestIgnoredFieldsBelongToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := placed(t, apply.Strategy{WhenToApply: apply.Always, Ignore: []drift.IgnoreRule{{Pointers: []string{"/data/key"}}}})
		defer stop()
		w.fleet.Cluster("member2").ManagedFields(true)
		w.edit("member2", set("key", "theirs"))
		time.Sleep(time.Minute)
		if got := w.value("member2"); got != "theirs" {
			t.Errorf("member2 has %s", got)
		}
		if lines, _ := reportOf(t, e, fleet.DriftOptions{}); len(lines) > 0 {
			t.Errorf("reported: %v", lines)
		}
		next := configMap("test-cm", "value2")
		next.Object["data"].(map[string]any)["new"] = "x"
		if err := w.source.Put(next); err != nil {
			t.Fatal(err)
		}
		if got := runTo(t, e, "two", inOneStage()); got.Run.State != stages.Completed {
			t.Errorf("run two is %s: %s", got.Run.State, got.Run.Reason)
		}
		obj, _ := w.fleet.Cluster("member2").Get(testCM)
		if d := cmp.Diff(map[string]any{"key": "theirs", "new": "x"}, obj.Object["data"]); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

// Nothing of a Secret is in a report, a drift status, an event or an error.
func TestNothingSecretLeavesTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		secret := func(value string) *unstructured.Unstructured {
			return &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s", "namespace": "test-namespace"},
				"data": map[string]any{"password": base64.StdEncoding.EncodeToString([]byte(value))},
			}}
		}
		if err := w.source.Put(secret("planted")); err != nil {
			t.Fatal(err)
		}
		e := w.engine(w.store, "a")
		p := tutorialPlacement()
		p.ApplyStrategy = apply.Strategy{WhenToApply: apply.IfNotDrifted, ComparisonOption: drift.Full, Secrets: []string{"/data/key"}}
		if err := e.PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		defer running(t, e)()
		runTo(t, e, "one", inOneStage())
		w.edit("member2", set("key", "canary-in-a-path"))
		theirs := secret("canary-in-a-secret")
		if err := w.fleet.Cluster("member2").Update(theirs); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		seen, err := recordedDrift(t.Context(), e.Placement(p.Name))
		if err != nil || len(seen) != 1 || seen[0].Total != 2 {
			t.Fatalf("%+v, %v", seen, err)
		}
		strategy := inOneStage()
		strategy.Profile = stages.ClusterUpdate
		status := runTo(t, e, "two", strategy)
		x, _ := e.Run("two").Explain(t.Context(), "member2")
		_, all := reportOf(t, e, fleet.DriftOptions{})
		text, err := json.Marshal([]any{seen, status, x, all, w.past(100)})
		if err != nil {
			t.Fatal(err)
		}
		for _, canary := range []string{"canary", "Y2FuYXJ5", "cGxhbnRlZA", "planted"} {
			if strings.Contains(string(text), canary) {
				t.Errorf("%s is in what the engine says", canary)
			}
		}
	})
}

// Every problem of a strategy is reported, with its field.
func TestAnApplyStrategyIsCheckedWhole(t *testing.T) {
	p := tutorialPlacement()
	p.ApplyStrategy = apply.Strategy{
		Type: "Push", RefuseConflicts: true, ComparisonOption: "Half", WhenToApply: "Never", WhenToTakeOver: "Sometimes",
		Ignore: []drift.IgnoreRule{{}}, Secrets: []string{"data"}, Health: []health.Rule{{}},
	}
	err := p.Validate()
	for _, want := range []string{"applyStrategy.type", "applyStrategy.refuseConflicts", "applyStrategy.comparisonOption", "applyStrategy.whenToApply", "applyStrategy.whenToTakeOver", "applyStrategy.ignore[0]", "applyStrategy.secrets[0]", "applyStrategy.health[0].kind"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %s is missing", err, want)
		}
	}
}

// A comparison begins before a run, and its result arrives after the run. It does not overwrite the
// newer state that the run has recorded.
func TestLateComparisonKeepsTheNewerStateOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		for _, obj := range []*unstructured.Unstructured{namespace("test-namespace"), configMap("test-cm", "theirs")} {
			must(0, w.fleet.Cluster("member2").Update(obj))(t)
		}
		p := tutorialPlacement()
		p.ApplyStrategy = apply.Strategy{WhenToApply: apply.Always, WhenToTakeOver: apply.Never}
		two := w.engine(w.store, "two")
		must(0, two.PutPlacement(t.Context(), p))(t)
		must(two.Placement(p.Name).Capture(t.Context()))(t)
		s := inOneStage()
		s.Profile = stages.ClusterUpdate
		roll := inTurn(turn{"get drift/example-placement/member2", func() {
			defer running(t, two)()
			runTo(t, two, "one", s)
		}})
		watches := w.newEngine(fleet.Config{
			Name: "watches", CallTimeout: time.Hour, Lease: 3 * time.Hour,
			Store: &hookedStore{&held{Store: w.store, never: "run/"}, func(op, key string) {
				if op == "delete" && strings.HasPrefix(key, "drift/") {
					t.Errorf("it deletes %s", key)
				}
				roll(op, key)
			}},
		})
		defer running(t, watches)()
		time.Sleep(time.Minute)
		if seen := must(recordedDrift(t.Context(), two.Placement(p.Name)))(t); len(seen) != 1 || seen[0].Cluster != "member2" {
			t.Errorf("it has seen %+v", seen)
		}
	})
}

// The watch of a placement lists its records when it begins and when its clusters change, and not
// after each run.
func TestRecordedDriftIsListedOnlyIfClustersChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, stop := placed(t, apply.Strategy{WhenToApply: apply.IfNotDrifted})
		stop()
		var lists atomic.Int64
		plan := faulty.NewPlan(calm(1<<30, &lists, func(c faulty.Call) bool { return c.Op == "list" && strings.HasPrefix(c.Key, "drift/") }))
		e := w.engine(plan.Store(w.store), "b")
		defer running(t, e)()
		time.Sleep(time.Minute)
		before := lists.Load()
		for i := range 3 {
			w.capture(e, fmt.Sprint("v", i))
			run := fmt.Sprint("again-", i)
			must(e.CreateRun(t.Context(), specOf(run, i+1)))(t)
			endOf(t, e, run)
			time.Sleep(time.Minute)
		}
		if n := lists.Load(); before == 0 || n != before {
			t.Errorf("the records were listed %d times at first, and %d times for three runs", before, n-before)
		}
		w.edit("member2", set("key", "theirs"))
		time.Sleep(time.Minute)
		if seen, err := recordedDrift(t.Context(), e.Placement("example-placement")); err != nil || len(seen) != 1 {
			t.Errorf("recorded are %+v, %v", seen, err)
		}
	})
}
