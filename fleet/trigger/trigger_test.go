package trigger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/trigger"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// env is an engine with two clusters, and a placement of one object.
type env struct {
	t       *testing.T
	store   *memory.Store
	source  *memory.Source
	members *memory.Fleet
	engine  *fleet.Engine
}

// play runs a test in which an engine drives its runs.
func play(t *testing.T, test func(*env)) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = e.engine.Start(ctx) }()
		defer func() { cancel(); <-done }()
		test(e)
	})
}

func newEnv(t *testing.T) *env {
	t.Helper()
	e := &env{t: t, store: memory.NewStore(), source: memory.NewSource(), members: memory.NewFleet(placement.Cluster{Name: "a"}, placement.Cluster{Name: "b"})}
	e.put("v1")
	var err error
	e.engine, err = fleet.New(fleet.Config{Store: e.store, Inventory: e.members, Dialer: e.members, Source: e.source})
	e.must(err)
	e.must(e.engine.PutPlacement(t.Context(), fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "ConfigMap"}}}))
	return e
}

func (e *env) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// put changes the text of the ConfigMap in the source.
func (e *env) put(text string) {
	e.t.Helper()
	e.must(e.source.Put(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "web", "namespace": "default"}, "data": map[string]any{"text": text},
	}}))
}

// fires fires a trigger and compares the resulting state and run.
func (e *env) fires(t trigger.Trigger, want trigger.State, run string) {
	e.t.Helper()
	got, err := trigger.Fire(e.t.Context(), e.engine, t)
	if err != nil || got.State != want || got.Run != run {
		e.t.Fatalf("firing: %+v, %v, want %s of %q", got, err, want, run)
	}
}

// ends waits until a run is in a state.
func (e *env) ends(run string, want stages.State) {
	e.t.Helper()
	status, err := e.engine.Run(run).Wait(e.t.Context())
	if err != nil || status.Run.State != want {
		e.t.Fatalf("%s is %s (%s), %v, want %s", run, status.Run.State, status.Run.Reason, err, want)
	}
}

func (e *env) runs() string {
	e.t.Helper()
	all, err := e.engine.Placement("web").Runs(e.t.Context())
	e.must(err)
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
	}
	return strings.Join(names, " ")
}

// auto is a trigger whose runs have one stage, with tasks after it.
func auto(after ...stages.Task) trigger.Trigger {
	return trigger.Trigger{Name: "auto", Placement: "web", Strategy: stages.Strategy{
		Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, After: after}},
	}}
}

func TestANewSnapshotStartsARunOnce(t *testing.T) {
	play(t, func(e *env) {
		e.fires(auto(), trigger.Created, "auto-0")
		e.fires(auto(), trigger.Current, "auto-0")
		e.ends("auto-0", stages.Completed)
		e.fires(auto(), trigger.Current, "auto-0")
		e.put("v2")
		e.fires(auto(), trigger.Created, "auto-1")
		e.ends("auto-1", stages.Completed)
		e.put("v1") // a return to earlier content is a new revision
		e.fires(auto(), trigger.Created, "auto-2")
		e.ends("auto-2", stages.Completed)
		status, err := e.engine.Run("auto-2").Status(e.t.Context())
		if err != nil || status.Owner != "trigger/auto" {
			e.t.Errorf("owner %q, %v", status.Owner, err)
		}
	})
}

func TestATriggerHasOneRunAtATime(t *testing.T) {
	play(t, func(e *env) {
		gated := auto(stages.Task{Type: stages.Approval})
		e.fires(gated, trigger.Created, "auto-0")
		synctest.Wait()
		e.put("v2")
		e.fires(gated, trigger.Waiting, "auto-0")
		e.put("v3")
		e.fires(gated, trigger.Waiting, "auto-0")
		e.must(e.engine.Run("auto-0").Command(e.t.Context(), stages.Command{Verb: stages.Decide, Name: "auto-0-after-all", By: approval.Identity{Name: "ann"}, Decision: &approval.Decision{Verdict: approval.Approve}}))
		e.ends("auto-0", stages.Completed)
		e.fires(gated, trigger.Created, "auto-2") // v2 was a snapshot and is not the newest
		if got := e.runs(); got != "auto-0 auto-2" {
			e.t.Errorf("runs %s", got)
		}
	})
}

func TestARunThatDidNotSucceedIsNotTriedAgain(t *testing.T) {
	play(t, func(e *env) {
		gated := auto(stages.Task{Type: stages.Approval})
		e.fires(gated, trigger.Created, "auto-0")
		synctest.Wait()
		e.must(e.engine.Run("auto-0").Command(e.t.Context(), stages.Command{Verb: stages.Decide, Name: "auto-0-after-all", By: approval.Identity{Name: "ann"}, Decision: &approval.Decision{Verdict: approval.Reject}}))
		e.ends("auto-0", stages.Failed)
		e.fires(gated, trigger.Current, "auto-0")
		e.put("v2")
		e.fires(gated, trigger.Created, "auto-1")
	})
}

func TestARunOnHoldIsStartedByAPerson(t *testing.T) {
	play(t, func(e *env) {
		held := auto()
		held.Hold, held.Starter = true, approval.Identity{Name: "robot"}
		e.fires(held, trigger.Created, "auto-0")
		synctest.Wait()
		status, err := e.engine.Run("auto-0").Status(e.t.Context())
		if err != nil || status.Run.State != stages.NotStarted {
			e.t.Fatalf("%s, %v", status.Run.State, err)
		}
		e.put("v2")
		e.fires(held, trigger.Waiting, "auto-0")
		e.must(e.engine.Run("auto-0").Command(e.t.Context(), stages.Command{Verb: stages.Start}))
		e.ends("auto-0", stages.Completed)
	})
}

func TestADisabledTriggerCreatesNothing(t *testing.T) {
	play(t, func(e *env) {
		off := auto()
		off.Disabled = true
		e.fires(off, trigger.Disabled, "")
		if got := e.runs(); got != "" {
			e.t.Errorf("runs %s", got)
		}
	})
}

// A run keeps the strategy with which it was created. A new strategy in the trigger alone causes
// no run.
func TestChangedStrategyAppliesToTheNextRun(t *testing.T) {
	play(t, func(e *env) {
		e.fires(auto(), trigger.Created, "auto-0")
		e.ends("auto-0", stages.Completed)
		e.fires(auto(stages.Task{Type: stages.Approval}), trigger.Current, "auto-0")
	})
}

func TestForeignRunOfTheSameNameIsAConflict(t *testing.T) {
	play(t, func(e *env) {
		_, err := e.engine.CreateRun(e.t.Context(), fleet.RunSpec{Name: "auto-0", Placement: "web", Strategy: auto().Strategy, Owner: "ann"})
		e.must(err)
		got, err := trigger.Fire(e.t.Context(), e.engine, auto())
		if !errors.Is(err, backend.ErrConflict) || !strings.Contains(err.Error(), "trigger auto of placement web") {
			e.t.Errorf("%+v, %v", got, err)
		}
	})
}

// A trigger with its own Revision function creates a run for each new revision, whatever the
// snapshot is.
func TestARevisionNamesTheRun(t *testing.T) {
	play(t, func(e *env) {
		now := "1.30.2"
		own := auto()
		own.Revision = func(context.Context) (string, error) { return now, nil }
		e.fires(own, trigger.Created, "auto-1.30.2")
		e.ends("auto-1.30.2", stages.Completed)
		e.put("v2")
		e.fires(own, trigger.Current, "auto-1.30.2")
		now = "1.30.3"
		e.fires(own, trigger.Created, "auto-1.30.3")
		e.ends("auto-1.30.3", stages.Completed)

		calls := 0
		own.Revision = func(context.Context) (string, error) { calls++; return fmt.Sprint("r", calls), nil }
		got, err := trigger.Fire(e.t.Context(), e.engine, own)
		if err != nil || got.State != trigger.Changing {
			e.t.Errorf("a revision that changes: %+v, %v", got, err)
		}
		for _, bad := range []string{"", "A", "a/b", strings.Repeat("a", trigger.MaxRevision+1)} {
			now = bad
			own.Revision = func(context.Context) (string, error) { return now, nil }
			if got, err := trigger.Fire(e.t.Context(), e.engine, own); err == nil || !strings.Contains(err.Error(), "revision") {
				e.t.Errorf("revision %q: %+v, %v", bad, got, err)
			}
		}
		if got := e.runs(); got != "auto-1.30.2 auto-1.30.3" {
			e.t.Errorf("runs %s", got)
		}
	})
}

func TestInvalidTriggerReportsAllProblems(t *testing.T) {
	_, err := trigger.Fire(t.Context(), nil, trigger.Trigger{Name: strings.Repeat("A", trigger.MaxName+1)})
	for _, part := range []string{"name: Invalid value", "name: Too long", "placement: Required value"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

// Processes that fire the same trigger at the same time, one of which dies at any moment, create
// one run.
func TestManyProcessesCreateOneRun(t *testing.T) {
	play(t, func(e *env) {
		for i := range 20 {
			e.put(fmt.Sprint("text ", i))
			var group sync.WaitGroup
			for p := range 4 {
				group.Go(func() {
					ctx, die := context.WithTimeout(e.t.Context(), time.Duration(p)*time.Millisecond)
					defer die()
					if p == 3 {
						ctx = e.t.Context()
					}
					_, _ = trigger.Fire(ctx, e.engine, auto())
				})
			}
			group.Wait()
			e.ends(fmt.Sprint("auto-", i), stages.Completed)
			e.fires(auto(), trigger.Current, fmt.Sprint("auto-", i))
		}
		if got := len(strings.Fields(e.runs())); got != 20 {
			e.t.Errorf("%d runs for 20 snapshots: %s", got, e.runs())
		}
	})
}

func TestControllerReportsOnlyChanges(t *testing.T) {
	play(t, func(e *env) {
		var told []string
		broken := auto()
		broken.Name, broken.Placement = "broken", "none"
		c := trigger.Controller{
			Engine: e.engine, Interval: time.Minute,
			Triggers: func(context.Context) ([]trigger.Trigger, error) { return []trigger.Trigger{broken, auto()}, nil },
			Tell: func(t trigger.Trigger, o trigger.Outcome, err error) {
				if err != nil {
					told = append(told, t.Name+" failed")
					return
				}
				told = append(told, fmt.Sprint(t.Name, " ", o.State, " ", o.Run))
			},
		}
		ctx, cancel := context.WithCancel(e.t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		time.Sleep(5 * time.Minute)
		e.put("v2")
		time.Sleep(5 * time.Minute)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			e.t.Error(err)
		}
		want := "broken failed, auto Created auto-0, auto Current auto-0, auto Created auto-1, auto Current auto-1"
		if got := strings.Join(told, ", "); got != want {
			e.t.Errorf("told %s\nwant %s", got, want)
		}
	})
}

func TestAControllerNeedsAnEngineAndTriggers(t *testing.T) {
	if err := (&trigger.Controller{}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Engine and Triggers") {
		t.Error(err)
	}
}
