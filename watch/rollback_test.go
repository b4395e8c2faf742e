package watch_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/watch"
)

// twice returns an engine with a run good that has completed. Run bad, with a soak of a duration,
// fails on cluster west and is rolled back. The engine runs until ctx ends.
func twice(ctx context.Context, soak time.Duration) (*fleet.Engine, <-chan error, error) {
	members := memory.NewFleet(placement.Cluster{Name: "east"}, placement.Cluster{Name: "west"})
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "web"}}}
	config := func(value string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "web", "namespace": "web"}, "data": map[string]any{"key": value},
		}}
	}
	source := memory.NewSource(namespace)
	engine, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: members, Dialer: members, Source: source})
	if err != nil {
		return nil, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- engine.Start(ctx) }()
	members.Cluster("west").Refuse(func(obj *unstructured.Unstructured) error {
		if v, _, _ := unstructured.NestedString(obj.Object, "data", "key"); v == "bad" {
			return errors.New("not admitted")
		}
		return nil
	})
	strategy := stages.Strategy{Attempts: 1, MinHealthy: metav1.Duration{Duration: soak}, Rollback: &stages.RollbackPolicy{}, Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}
	err = engine.PutPlacement(ctx, fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}})
	if err == nil {
		err = source.Put(config("good"))
	}
	if err == nil {
		_, err = engine.CreateRun(ctx, fleet.RunSpec{Name: "good", Placement: "web", Strategy: strategy})
	}
	if err == nil {
		_, err = engine.Run("good").Wait(ctx)
	}
	if err == nil {
		err = source.Put(config("bad"))
	}
	if err == nil {
		_, err = engine.CreateRun(ctx, fleet.RunSpec{Name: "bad", Placement: "web", Strategy: strategy})
	}
	return engine, ended, err
}

// rolledBack is twice for a test.
func rolledBack(t *testing.T) *fleet.Engine {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	engine, ended, err := twice(ctx, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); <-ended })
	return engine
}

// The watch of a run that is rolled back continues with the rollback run and ends with it, but
// returns the original run.
func TestAWatchEndsWithTheRollback(t *testing.T) {
	t.Parallel()
	for when, before := range map[string]time.Duration{"from the start": 0, "after both have ended": time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			engine := rolledBack(t)
			time.Sleep(before)
			var out strings.Builder
			s, err := watch.Run(t.Context(), engine, "bad", nil, &out, watch.Options{})
			if err != nil || s.Run.Name != "bad" || s.Run.State != stages.Failed {
				t.Errorf("%s: run %s is %s, %v", when, s.Run.Name, s.Run.State, err)
			}
			back, err := engine.Run("bad-rollback").Status(t.Context())
			if err != nil || back.Run.State != stages.Completed {
				t.Errorf("%s: the rollback is %s, %v", when, back.Run.State, err)
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			first, last := strings.Fields(lines[0]), strings.Fields(lines[len(lines)-1])
			if !strings.HasPrefix(first[2], "bad") || last[1] != string(stages.RunCompleted) || last[2] != "bad-rollback" {
				t.Errorf("%s:\n%s", when, out.String())
			}
			for i, l := range lines[1:] {
				if l == lines[i] {
					t.Errorf("%s: twice: %s", when, l)
				}
			}
		})
	}
}

// Over alone decides when a watch that has it ends.
func TestOverEndsAWatchBeforeTheRollback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := rolledBack(t)
		var out strings.Builder
		over := func(s *fleet.Status) bool { return s.Run.IsEnded() }
		if _, err := watch.Run(t.Context(), engine, "bad", nil, &out, watch.Options{Over: over}); err != nil || strings.Contains(out.String(), " bad-rollback/") {
			t.Errorf("%v\n%s", err, out.String())
		}
	})
}
