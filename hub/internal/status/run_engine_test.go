package status

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// stack is the tutorial on an engine with a store in memory.
type stack struct {
	t      *testing.T
	engine *fleet.Engine
}

func newStack(t *testing.T) *stack {
	t.Helper()
	_, clusters := tutorial()
	members := memory.NewFleet()
	for _, c := range clusters {
		members.Add(c)
	}
	source := memory.NewSource(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "test-namespace"},
	}})
	engine, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: members, Dialer: members, Source: source})
	if err != nil {
		t.Fatal(err)
	}
	s := &stack{t, engine}
	s.must(engine.PutPlacement(t.Context(), fleet.Placement{
		Name: "example-placement", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "test-namespace"}},
	}))
	for _, value := range []string{"value1", "value2"} {
		s.must(source.Put(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"key": value},
			"metadata": map[string]any{"name": "test-cm", "namespace": "test-namespace"},
		}}))
		_, err := engine.Placement("example-placement").Capture(t.Context())
		s.must(err)
	}
	return s
}

func (s *stack) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// facts returns the current facts of the run, after folding its events from number after on.
func (s *stack) facts(h *RunHistory, after int64) *RunFacts {
	s.t.Helper()
	status, err := s.engine.Run("example-run").Status(s.t.Context())
	s.must(err)
	news, err := s.engine.Run("example-run").History(s.t.Context(), after)
	s.must(err)
	for i := range news.Events {
		h.Fold(status.Plan, &news.Events[i])
	}
	return &RunFacts{
		Name: "example-run", Generation: 1, Run: &status.Run, Plan: status.Plan, History: h, Events: news.Next,
		Placement: &fleet.Placement{Name: "example-placement"}, Now: time.Now(),
	}
}

func TestStatusOfAnEngineRunEqualsTheTutorial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.engine.Start(ctx) }()
		defer func() { cancel(); <-ended }()
		index := 1
		strategy, _ := tutorial()
		_, err := s.engine.CreateRun(t.Context(), fleet.RunSpec{Name: "example-run", Placement: "example-placement", Index: &index, Strategy: strategy})
		s.must(err)

		time.Sleep(30 * time.Second)
		kept := &RunHistory{}
		early := s.facts(kept, 0)
		time.Sleep(5 * time.Minute)
		late := jsonOf(t, Run(s.facts(kept, early.Events)))
		again := jsonOf(t, Run(s.facts(&RunHistory{}, 0)))
		if diff := cmp.Diff(again, late); diff != "" {
			t.Errorf("what was folded in two steps differs from what was folded at once (-at once +in two):\n%s", diff)
		}
		if at := since(t, stageAt(late, 1)["conditions"], "Progressing"); at == "never" {
			t.Error("stage canary does not wait")
		}
		delete(late, "observedEvents")
		withoutOurs(t, late)
		want := golden(t, "tutorial-run-waiting.yaml")["status"]
		ignoreTimes(want)
		ignoreTimes(late)
		if diff := cmp.Diff(want, any(late)); diff != "" {
			t.Errorf("(-tutorial +got):\n%s", diff)
		}
		s.must(s.engine.Run("example-run").Command(t.Context(), stages.Command{
			Verb: stages.Decide, Name: "example-run-canary", By: approval.Identity{Name: "ann"}, Decision: &approval.Decision{Verdict: approval.Approve, Comment: "lgtm"},
		}))
		_, err = s.engine.Run("example-run").Wait(t.Context())
		s.must(err)
		end := jsonOf(t, Run(s.facts(&RunHistory{}, 0)))
		if got := fmt.Sprint(column(end, "Initialized"), ", ", column(end, "Succeeded")); got != "True 1, True 1" {
			t.Errorf("the columns are %s", got)
		}
	})
}
