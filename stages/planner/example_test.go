package planner_test

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
)

func ExamplePlan() {
	env := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"environment": value}}
	}
	half := intstr.FromString("50%")
	strategy := stages.Strategy{
		Name: "canary-first",
		Stages: []stages.Stage{{
			Name: "canary", Selector: env("canary"),
			After: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Hour}}, {Type: stages.Approval}},
		}, {
			Name: "production", Selector: env("production"), SortKey: "order", MaxConcurrency: &half,
		}},
	}
	target := stages.Target{
		Placement: "web", Index: 4, Snapshot: "9f86d081", Selection: "60303ae2", Default: "fd61a03a",
		Revision: map[string]string{"paris": "a4e624d6"}, // an override changes the content for paris
		Remove:   map[string]string{"lisbon": ""},
	}
	plan, err := planner.Plan(strategy, target, []placement.Cluster{
		{Name: "berlin", Labels: map[string]string{"environment": "production", "order": "2"}},
		{Name: "paris", Labels: map[string]string{"environment": "production", "order": "1"}},
		{Name: "madrid", Labels: map[string]string{"environment": "production"}},
		{Name: "vienna", Labels: map[string]string{"environment": "production", "order": "10"}},
		{Name: "test-1", Labels: map[string]string{"environment": "canary"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for pos, cluster := range plan.Clusters {
		stage, _ := plan.StageOf(pos)
		revision := "nothing"
		if cluster.Revision >= 0 {
			revision = plan.Revisions[cluster.Revision]
		}
		fmt.Println(plan.Stages[stage].Name, plan.Stages[stage].MaxConcurrency, cluster.Name, revision)
	}
	for _, warning := range plan.Warnings {
		fmt.Println("warning:", warning)
	}

	strategy.Stages[1].Selector = &metav1.LabelSelector{} // everything, canaries too
	_, err = planner.Plan(strategy, target, []placement.Cluster{
		{Name: "paris", Labels: map[string]string{"order": "first"}},
		{Name: "test-1", Labels: map[string]string{"environment": "canary", "order": "1"}},
	})
	fmt.Println(err)
	// Output:
	// canary 1 test-1 fd61a03a
	// production 2 paris a4e624d6
	// production 2 berlin fd61a03a
	// production 2 vienna fd61a03a
	// production 2 madrid fd61a03a
	// remove 1 lisbon nothing
	// warning: clusters of stage production without the label order come last: madrid
	// plan of placement "web": [clusters: Invalid value: ["test-1"]: in stages canary and production; every cluster must be in exactly one stage, clusters: Invalid value: ["paris=first"]: label order, which orders stage production, must be an integer]
}
