package planner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/stages"
)

// TestWarningsOfBudgets: a budget that can never count, because no cluster ever fails, causes a
// warning. Other budgets cause none.
func TestWarningsOfBudgets(t *testing.T) {
	const vain = " can never count: a cluster that cannot be updated is tried again without end and never fails; set progressDeadline or attempts"
	budget := func(st stages.Stage) stages.Stage { st.MaxFailures = number(1); return st }
	grouped := everything("g")
	grouped.Groups = []stages.Group{{Name: "a", Selector: everything("").Selector, MaxFailures: percent("10%")}}
	timed := budget(everything("t"))
	timed.Timeout.Duration = time.Hour
	for what, c := range map[string]struct {
		s    stages.Strategy
		want []string
	}{
		"nothing is set": {stages.Strategy{Stages: []stages.Stage{everything("s")}}, nil},
		"a budget":       {stages.Strategy{Stages: []stages.Stage{budget(everything("s"))}}, []string{"maxFailures of stage s" + vain}},
		"without end":    {stages.Strategy{Profile: stages.ClusterUpdate, Attempts: -1, Stages: []stages.Stage{budget(everything("s"))}}, []string{"maxFailures of stage s" + vain}},
		"of a group":     {stages.Strategy{Stages: []stages.Stage{grouped}}, []string{"maxFailures of group a of stage g" + vain}},
		"a rollback":     {stages.Strategy{Rollback: &stages.RollbackPolicy{}, Stages: []stages.Stage{budget(everything("s"))}}, []string{"maxFailures of stage s, rollback for cause BudgetExceeded" + vain}},
		"on gates alone": {stages.Strategy{Rollback: &stages.RollbackPolicy{Causes: []stages.RollbackCause{stages.GateRejected}}, Stages: []stages.Stage{everything("s")}}, nil},
		"a deadline":     {stages.Strategy{ProgressDeadline: metav1.Duration{Duration: time.Hour}, Rollback: &stages.RollbackPolicy{}, Stages: []stages.Stage{budget(everything("s"))}}, nil},
		"attempts":       {stages.Strategy{Attempts: 5, Stages: []stages.Stage{budget(everything("s"))}}, nil},
		"a profile":      {stages.Strategy{Profile: stages.Workflow, Stages: []stages.Stage{budget(everything("s"))}}, nil},
		"a timeout":      {stages.Strategy{Rollback: &stages.RollbackPolicy{}, Stages: []stages.Stage{timed}}, nil},
	} {
		if diff := cmp.Diff(c.want, mustPlan(t, c.s, testTarget(), clusters(5)).Warnings); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
}

// TestWarningsOfSerialStages: many clusters that are updated one after the other without an
// explicit request cause a warning. Few clusters, or an explicit number, cause none.
func TestWarningsOfSerialStages(t *testing.T) {
	stage := func(change func(*stages.Stage)) stages.Strategy {
		st := everything("s")
		change(&st)
		return stages.Strategy{ProgressDeadline: metav1.Duration{Duration: time.Hour}, Stages: []stages.Stage{st}}
	}
	for what, c := range map[string]struct {
		s        stages.Strategy
		clusters int
		want     []string
	}{
		"a percentage of many": {
			stage(func(st *stages.Stage) { st.MaxConcurrency = percent("5%") }), 39,
			[]string{"stage s updates its 39 clusters one after the other: maxConcurrency 5% of them is 1, rounded down"},
		},
		"a percentage of more": {stage(func(st *stages.Stage) { st.MaxConcurrency = percent("5%") }), 40, nil},
		"a percentage of few":  {stage(func(st *stages.Stage) { st.MaxConcurrency = percent("5%") }), 9, nil},
		"a number":             {stage(func(st *stages.Stage) { st.MaxConcurrency = number(1) }), 100, nil},
		"nothing, of many":     {stage(func(*stages.Stage) {}), 50, []string{"the clusters of stage s (50 clusters) are updated one after the other: maxConcurrency is not set, which is 1"}},
		"nothing, of few":      {stage(func(*stages.Stage) {}), 49, nil},
		"a strict budget of 1": {stage(func(st *stages.Stage) {
			st.MaxConcurrency, st.MaxFailures, st.StrictFailures = number(5), number(1), true
		}), 8, []string{"stage s updates its 8 clusters one after the other: strictFailures lets as many be in flight as may still fail, and maxFailures is 1"}},
		"a strict budget of 2": {stage(func(st *stages.Stage) {
			st.MaxConcurrency, st.MaxFailures, st.StrictFailures = number(5), number(2), true
		}), 8, nil},
		"groups": {stage(func(st *stages.Stage) {
			st.Groups = []stages.Group{
				{Name: "a", Selector: matchLabel("g", "a"), MaxConcurrency: percent("1%")}, {Name: "b", Selector: everything("").Selector},
			}
		}), 60, []string{
			"group a of stage s has no clusters",
			"the clusters of group b of stage s (60 clusters) are updated one after the other: maxConcurrency is not set, which is 1",
		}},
	} {
		target := testTarget()
		if diff := cmp.Diff(c.want, mustPlan(t, c.s, target, clusters(c.clusters)).Warnings); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		target.Part = true
		if p := mustPlan(t, c.s, target, clusters(c.clusters)); what != "groups" && len(p.Warnings) > 0 {
			t.Errorf("%s: of a part: %q", what, p.Warnings)
		}
	}
}
