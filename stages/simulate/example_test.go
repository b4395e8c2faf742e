package simulate_test

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// Two clusters, one after the other; the first attempt of one fails. There is no approval, and
// everything is simulated.
func ExampleRun() {
	strategy := stages.Strategy{
		Backoff: metav1.Duration{Duration: 30 * time.Second},
		Stages:  []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, After: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Hour}}}}},
	}
	plan, err := simulate.NewPlan(strategy, []placement.Cluster{{Name: "east"}, {Name: "west"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	env := simulate.Environment{
		Default: simulate.Member{Take: 5 * time.Minute},
		Members: map[string]simulate.Member{"west": {Take: 2 * time.Minute, Fail: 1}},
	}
	end, err := simulate.Run(plan, env, func(e simulate.Event) error {
		if e.Cluster != "" {
			fmt.Println(e.At.Duration, e.Type, e.Cluster)
		}
		return nil
	})
	fmt.Println(end.At.Duration, end.State, err)
	// Output:
	// 0s ClusterStarted east
	// 5m0s ClusterApplied east
	// 5m0s ClusterCompleted east
	// 5m0s ClusterStarted west
	// 7m0s ClusterRetrying west
	// 9m30s ClusterApplied west
	// 9m30s ClusterCompleted west
	// 1h9m30s Completed <nil>
}
