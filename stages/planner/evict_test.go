package planner

import (
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// TestPlanThatEvicts: the plan has only the named clusters.
func TestPlanThatEvicts(t *testing.T) {
	t.Parallel()
	strategy := func(only ...string) stages.Strategy {
		return stages.Strategy{Stages: []stages.Stage{{Name: "none"}}, Removal: stages.Removal{Only: only}}
	}
	target := func(remove ...string) stages.Target {
		out := stages.Target{Placement: "p", Snapshot: "s", Selection: "d", Default: "r", Remove: map[string]string{}}
		for _, name := range remove {
			out.Remove[name] = ""
		}
		return out
	}
	p, err := Plan(strategy("b", "a"), target("a", "b"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Clusters {
		if c := &p.Clusters[i]; c.Revision >= 0 || c.Name != []string{"a", "b"}[i] {
			t.Errorf("cluster %d is %+v", i, c)
		}
	}
	if !slices.Equal(p.Strategy.Removal.Only, []string{"b", "a"}) {
		t.Errorf("the strategy is %+v", p.Strategy)
	}
	back := strategy("a")
	back.Rollback = &stages.RollbackPolicy{}
	for want, try := range map[string]func() error{
		"the strategy cleans the clusters of removal.only and no others": func() error { _, err := Plan(strategy("a"), target("a", "b"), nil); return err },
		"so that it updates no cluster": func() error {
			_, err := Plan(strategy("a"), target("a"), []placement.Cluster{{Name: "c"}})
			return err
		},
		"removal.only[0]: Invalid value":   strategy("A").Validate,
		"removal.only[1]: Duplicate value": strategy("a", "a").Validate,
		"is not rolled back":               back.Validate,
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}
