package fleet_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// declaring is an engine that does not run, with one cluster.
func declaring(t *testing.T) *fleet.Engine {
	t.Helper()
	members := memory.NewFleet(placement.Cluster{Name: "eu-1"})
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "web"}}}
	e, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: members, Dialer: members, Source: memory.NewSource(namespace)})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func careful(stage string) stages.Strategy {
	return stages.Strategy{Name: "careful", Stages: []stages.Stage{{Name: stage, Selector: &metav1.LabelSelector{}}}}
}

// webKeeping returns a placement that keeps n snapshots.
func webKeeping(n int) fleet.Placement {
	return fleet.Placement{Name: "web", HistoryLimit: n, Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}}
}

func TestAStrategyIsDeclaredReadAndDeleted(t *testing.T) {
	ctx, e := t.Context(), declaring(t)
	if err := e.PutStrategy(ctx, stages.Strategy{Name: "Careful"}); err == nil || !strings.Contains(err.Error(), "strategy Careful") || !strings.Contains(err.Error(), "stages") {
		t.Errorf("two problems: %v", err)
	}
	for _, stage := range []string{"one", "two", "two"} {
		done(t, e.PutStrategy(ctx, careful(stage)))
	}
	other := careful("x")
	other.Name = "bold"
	done(t, e.PutStrategy(ctx, other))
	all, err := e.Strategies(ctx)
	if names := []string{all[0].Name, all[1].Name}; err != nil || !slices.Equal(names, []string{"bold", "careful"}) || all[1].Stages[0].Name != "two" {
		t.Errorf("%v, %v", all, err)
	}
	done(t, e.DeleteStrategy(ctx, "careful"))
	for _, err := range []error{e.DeleteStrategy(ctx, "careful"), func() error { _, err := e.Strategy(ctx, "careful"); return err }()} {
		if !errors.Is(err, backend.ErrNotFound) || !strings.HasPrefix(err.Error(), "strategy careful does not exist") {
			t.Errorf("after its deletion: %v", err)
		}
	}
}

// A run and a preview may name a declared strategy. The plan has a copy, so that later changes of
// the strategy do not reach the run.
func TestARunNamesADeclaredStrategy(t *testing.T) {
	ctx, e := t.Context(), declaring(t)
	done(t, e.PutPlacement(ctx, webKeeping(0)))
	spec := fleet.RunSpec{Name: "web-1", Placement: "web", Strategy: stages.Strategy{Name: "careful"}}
	if _, err := e.CreateRun(ctx, spec); !errors.Is(err, errdef.ErrNotFound) {
		t.Errorf("of a strategy that is not declared: %v", err)
	}
	done(t, e.PutStrategy(ctx, careful("one")))
	p, err := e.Preview(ctx, spec)
	done(t, err)
	s, err := e.CreateRun(ctx, spec)
	done(t, err)
	if p.Plan.Digest != s.Plan.Digest || s.Plan.Stages[0].Name != "one" {
		t.Errorf("plan %v", s.Plan)
	}
	_, err = e.EnsureRun(ctx, spec)
	done(t, err)
	done(t, e.PutStrategy(ctx, careful("two")))
	whole := spec
	whole.Strategy = careful("two")
	if _, err = e.EnsureRun(ctx, whole); !errors.Is(err, backend.ErrConflict) || !strings.Contains(err.Error(), `strategy.stages[0].name is "one", and "two" was asked for`) {
		t.Errorf("of another strategy of this name: %v", err)
	}
	s, err = e.Run("web-1").Status(ctx)
	if err != nil || s.Plan.Strategy.Stages[0].Name != "one" {
		t.Errorf("%v, %v", s.Plan.Strategy, err)
	}
}

// A declaration is replaced only if it has not changed since the caller read it.
func TestADeclarationIsReplacedIfItHasNotChanged(t *testing.T) {
	ctx, e := t.Context(), declaring(t)
	changed := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, errdef.ErrChanged) || !errors.Is(err, backend.ErrConflict) || !strings.Contains(err.Error(), "has changed since it was read: read it again") {
			t.Errorf("%s: %v", what, err)
		}
	}
	first, second, third := webKeeping(1), webKeeping(2), webKeeping(3)
	changed("a placement that does not exist", e.ReplacePlacement(ctx, &first, second))
	done(t, e.ReplacePlacement(ctx, nil, first))
	changed("a placement that exists", e.ReplacePlacement(ctx, nil, second))
	done(t, e.ReplacePlacement(ctx, &first, second))
	changed("an older placement", e.ReplacePlacement(ctx, &first, third))
	if p, err := e.Placement("web").Get(ctx); err != nil || p.HistoryLimit != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	one, two := careful("one"), careful("two")
	changed("a strategy that does not exist", e.ReplaceStrategy(ctx, &one, two))
	done(t, e.ReplaceStrategy(ctx, nil, one))
	changed("a strategy that exists", e.ReplaceStrategy(ctx, nil, two))
	done(t, e.ReplaceStrategy(ctx, &one, two))
	changed("an older strategy", e.ReplaceStrategy(ctx, &one, careful("three")))
}

// A host calls EnsureRun again with the name of a strategy, and gets its run, whatever has become
// of the declaration.
func TestEnsureRunByTheNameOfAStrategy(t *testing.T) {
	ctx, e := t.Context(), declaring(t)
	done(t, e.PutPlacement(ctx, webKeeping(3)))
	done(t, e.PutStrategy(ctx, careful("one")))
	spec := fleet.RunSpec{Name: "web-1", Placement: "web", Strategy: stages.Strategy{Name: "careful"}}
	first, err := e.EnsureRun(ctx, spec)
	done(t, err)
	same := func(what string) {
		t.Helper()
		if again, err := e.EnsureRun(ctx, spec); err != nil || again.Run.UID != first.Run.UID || again.Plan.Strategy.Stages[0].Name != "one" {
			t.Errorf("%s: %v", what, err)
		}
	}
	same("nothing happened")
	done(t, e.PutStrategy(ctx, careful("two")))
	same("the strategy changed")
	done(t, e.DeleteStrategy(ctx, "careful"))
	same("the strategy was deleted")
	bold := careful("one")
	bold.Name = "bold"
	done(t, e.PutStrategy(ctx, bold))
	spec.Strategy.Name = "bold"
	if _, err := e.EnsureRun(ctx, spec); !errors.Is(err, backend.ErrConflict) {
		t.Errorf("another strategy: %v", err)
	}
	spec.Strategy.Name = "none"
	if _, err := e.EnsureRun(ctx, spec); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("no strategy: %v", err)
	}
}
