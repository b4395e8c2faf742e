package planner_test

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
)

// An earlier run changed member3 and did not prove it, so the next plan begins with it.
func ExamplePlan_unprovenFirst() {
	everything := &metav1.LabelSelector{}
	strategy := stages.Strategy{Stages: []stages.Stage{{
		Name: "all", Selector: everything,
		Groups: []stages.Group{{Name: "update", Selector: everything, UnprovenFirst: true}},
	}}}
	target := stages.Target{
		Placement: "web", Snapshot: "sha256:aa", Selection: "sha256:bb", Default: "sha256:cc",
		Unproven: map[string]bool{"member3": true},
	}
	plan, err := planner.Plan(strategy, target, []placement.Cluster{{Name: "member1"}, {Name: "member2"}, {Name: "member3"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range plan.Clusters {
		fmt.Println(c.Name)
	}
	// Output:
	// member3
	// member1
	// member2
}
