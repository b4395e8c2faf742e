package step_test

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
	"github.com/slipway-dev/slipway/stages/step"
)

// Four clusters may be in flight, but only one per region. The first clusters whose regions have
// room start.
func ExampleDomain() {
	four := intstr.FromInt32(4)
	strategy := stages.Strategy{Stages: []stages.Stage{{
		Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: &four,
		Domains: []stages.Domain{{Key: "topology.kubernetes.io/region"}},
	}}}
	var clusters []placement.Cluster
	for i, region := range []string{"eu", "eu", "us", "eu", "asia"} {
		clusters = append(clusters, placement.Cluster{
			Name: fmt.Sprintf("member%d", i+1), Labels: map[string]string{"topology.kubernetes.io/region": region},
		})
	}
	target := stages.Target{Placement: "web", Index: 1, Snapshot: "9f86d081", Selection: "60303ae2", Default: "fd61a03a"}
	plan, err := planner.Plan(strategy, target, clusters)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, time.January, 5, 9, 0, 0, 0, time.UTC)
	ready := step.Step(plan, step.NewRun(plan, "web-1", "uid", approval.Identity{}, false, now), stages.Input{Now: now})
	for _, a := range ready.Actions {
		fmt.Println(a.Type, a.Cluster, plan.Domains(a.Pos)[0])
	}
	why, err := step.Explain(plan, &ready.Run, "member2")
	fmt.Println(why.Reason, err)
	// Output:
	// Apply member1 topology.kubernetes.io/region=eu
	// Apply member3 topology.kubernetes.io/region=us
	// Apply member5 topology.kubernetes.io/region=asia
	// its failure domain is full: 1 of 3 clusters of topology.kubernetes.io/region=eu may be in flight, and are <nil>
}

// Two runs share a cap of three. The second gets the rest that the first leaves, and from then on
// each has its share.
func ExampleCap() {
	c := stages.Cap{Name: "database"}.Resize(3)
	c, _ = c.Claim(stages.Claim{UID: "uid-1", Run: "web-1", Epoch: 1, Wants: 5})
	fmt.Println(c.InUse())
	c, _ = c.Claim(stages.Claim{UID: "uid-2", Run: "shop-7", Epoch: 2, Wants: 2})
	fmt.Println(c.InUse(), "- web-1 may start while it has fewer in flight than", c.Slots("uid-1"))
	// One cluster of web-1 is done and the run was saved; no other was started for it.
	c, _ = c.Claim(stages.Claim{UID: "uid-1", Run: "web-1", Epoch: 1, Uses: 2, Wants: 4})
	fmt.Println(c.InUse(), "- web-1 may start while it has fewer in flight than", c.Slots("uid-1"))
	// Output:
	// 3 of 3: run web-1 3
	// 3 of 3: run web-1 3 - web-1 may start while it has fewer in flight than 0
	// 3 of 3: run web-1 2, run shop-7 1 - web-1 may start while it has fewer in flight than 2
}
