package step_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
	"github.com/slipway-dev/slipway/stages/step"
)

// twoStages returns a plan with one cluster for a trial, and two that follow once an operator
// approves.
func twoStages() (*stages.Plan, error) {
	env := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"environment": value}}
	}
	strategy := stages.Strategy{Stages: []stages.Stage{
		{Name: "canary", Selector: env("canary"), After: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Minute}}}},
		{Name: "production", Selector: env("production"), Before: []stages.Task{{Type: stages.Approval}}},
	}}
	target := stages.Target{Placement: "web", Index: 1, Snapshot: "9f86d081", Selection: "60303ae2", Default: "fd61a03a"}
	return planner.Plan(strategy, target, []placement.Cluster{
		{Name: "test", Labels: map[string]string{"environment": "canary"}},
		{Name: "berlin", Labels: map[string]string{"environment": "production"}},
		{Name: "paris", Labels: map[string]string{"environment": "production"}},
	})
}

// A host that owns its loop loads the run, steps it, saves it and then acts. Here a variable stores
// the bytes, clusters apply at once, everything is approved, and time passes as fast as the run
// allows.
func ExampleStep() {
	plan, err := twoStages()
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	stored, err := json.Marshal(step.NewRun(plan, "release-1", "5f1c", approval.Identity{Name: "ann"}, false, now))
	if err != nil {
		fmt.Println(err)
		return
	}
	in := stages.Input{}
	for {
		var run step.Run
		if err := json.Unmarshal(stored, &run); err != nil {
			fmt.Println(err)
			return
		}
		if run.IsEnded() {
			break
		}
		in.Now = now
		ready := step.Step(plan, run, in)
		if ready.Err != nil { // the run does not belong to the plan: nothing was done
			fmt.Println(ready.Err)
			return
		}
		in = stages.Input{}
		if stored, err = json.Marshal(ready.Run); err != nil { // save first, then act
			fmt.Println(err)
			return
		}
		for _, e := range ready.Events {
			fmt.Println(strings.TrimSpace(e.Time.Format(time.TimeOnly) + " " + string(e.Type) + " " + e.Stage + " " + e.Cluster))
		}
		for _, a := range ready.Actions {
			switch a.Type {
			case stages.Ask:
				d := &approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: "bob"}, Binding: a.Request.Binding}
				in.Commands = append(in.Commands, stages.Command{ID: a.Request.Name, Verb: stages.Decide, By: d.By, Decision: d})
			case stages.Apply, stages.Observe, stages.Remove:
				in.Observations = append(in.Observations, stages.Observation{
					Cluster: a.Cluster, Attempt: a.Attempt, Sent: true, Applied: true, Revision: a.Revision, Current: true, Healthy: true,
				})
			}
		}
		if len(ready.Actions) == 0 && !ready.Wake.IsZero() {
			now = ready.Wake
		}
	}
	// Output:
	// 12:00:00 RunStarted
	// 12:00:00 StageStarted canary
	// 12:00:00 ClusterStarted canary test
	// 12:00:00 ClusterApplied canary test
	// 12:00:00 ClusterCompleted canary test
	// 12:00:00 WaitStarted canary
	// 12:01:00 WaitEnded canary
	// 12:01:00 StageCompleted canary
	// 12:01:00 ApprovalRequested production
	// 12:01:00 ApprovalAccepted production
	// 12:01:00 StageStarted production
	// 12:01:00 ClusterStarted production berlin
	// 12:01:00 ClusterApplied production berlin
	// 12:01:00 ClusterCompleted production berlin
	// 12:01:00 ClusterStarted production paris
	// 12:01:00 ClusterApplied production paris
	// 12:01:00 ClusterCompleted production paris
	// 12:01:00 StageCompleted production
	// 12:01:00 RunCompleted
}

// If a cluster does not move, Explain returns its state and the conditions that it waits for.
func ExampleExplain() {
	plan, err := twoStages()
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	run := step.NewRun(plan, "release-1", "5f1c", approval.Identity{Name: "ann"}, false, now)
	run = step.Step(plan, run, stages.Input{Now: now}).Run
	run = step.Step(plan, run, stages.Input{Now: now, Observations: []stages.Observation{{
		Cluster: "test", Attempt: 1, Sent: true, Applied: true, Revision: "fd61a03a", Current: true,
		Message: "Deployment web: 1 of 3 replicas are ready",
	}}}).Run
	for _, cluster := range []string{"test", "paris"} {
		e, err := step.Explain(plan, &run, cluster)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s in stage %s is %s: %s\n", e.Cluster, e.Stage, e.State, e.Reason)
		for _, w := range e.Waiting {
			fmt.Printf("  waits for %s of %s: %s\n", w.Kind, w.Name, w.Message)
		}
	}
	// Output:
	// test in stage canary is Running: in flight
	//   waits for Observation of test: Deployment web: 1 of 3 replicas are ready
	// paris in stage production is NotStarted: stage canary is not done
	//   waits for Observation of test: Deployment web: 1 of 3 replicas are ready
}
