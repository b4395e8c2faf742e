package step_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
	"github.com/slipway-dev/slipway/stages/step"
)

func TestClustersAreOutlined(t *testing.T) {
	four := intstr.FromInt32(4)
	strategy := stages.Strategy{Attempts: 2, Stages: []stages.Stage{
		{Name: "first", Clusters: []string{"a", "b", "c", "d"}, MaxConcurrency: &four}, {Name: "others", Rest: true},
	}}
	var all []placement.Cluster
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		all = append(all, placement.Cluster{Name: name})
	}
	p, err := planner.Plan(strategy, stages.Target{Placement: "web", Snapshot: "v1", Selection: "all", Default: "v1"}, all)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := step.NewRun(p, "web-v1", "uid", approval.Identity{Name: "ann"}, false, now)
	step := func(in stages.Input) []stages.Action {
		t.Helper()
		in.Now = now
		ready := step.Step(p, r, in)
		if ready.Err != nil {
			t.Fatal(ready.Err)
		}
		r = ready.Run
		return ready.Actions
	}
	at := map[string]int{}
	for _, a := range step(stages.Input{Unwatched: true}) {
		at[a.Cluster] = a.Attempt
	}
	step(stages.Input{
		Commands: []stages.Command{{Verb: stages.Skip, Scope: stages.SkipCluster, Name: "d", At: now}},
		Observations: []stages.Observation{
			{Cluster: "a", Attempt: at["a"], Sent: true, Applied: true, Revision: "v1", Current: true, Healthy: true},
			{Cluster: "b", Attempt: at["b"], Sent: true, Applied: true, Revision: "v1", Current: true, Message: "0 of 1 ready"},
			{Cluster: "c", Attempt: at["c"], Sent: true, Failed: true, Message: "no route"},
			{Cluster: "d", Attempt: at["d"], Failed: true, Message: "no route"},
		},
	})
	want := []stages.ClusterOutline{
		{Name: "a", Stage: "first", State: stages.Completed},
		{Name: "b", Stage: "first", State: stages.Running, Phase: "Settling", Since: now, Message: "0 of 1 ready"},
		{Name: "c", Stage: "first", State: stages.Running, Phase: "BackingOff", Since: now, Message: "no route"},
		{Name: "d", Stage: "first", State: stages.Skipped, Message: "skipped in flight; its last attempt failed: no route"},
		{Name: "e", Stage: "others", State: stages.NotStarted},
	}
	if d := cmp.Diff(want, slices.Collect(r.Clusters(p))); d != "" {
		t.Error(d)
	}
	r.Plan = "another"
	if got := slices.Collect(r.Clusters(p)); len(got) != 0 {
		t.Errorf("of a run that is not one of the plan: %v", got)
	}
}
