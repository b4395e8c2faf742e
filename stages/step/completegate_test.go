package step

import (
	"testing"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
)

// A group with the name of another stage is addressed together with its own stage. A command that
// ends the scheduled start of a stage, late or twice, never ends the start of a group.
func TestCompleteGateSeparatesStageAndGroup(t *testing.T) {
	s := stages.Strategy{Profile: stages.ClusterUpdate, Stages: []stages.Stage{
		{Name: "eu", Selector: matchLabel("s", "eu"), Groups: []stages.Group{{Name: "g", Selector: matchLabel("s", "eu")}}},
		{Name: "prod", Selector: matchLabel("s", "prod"), Groups: []stages.Group{{
			Name: "eu", Selector: matchLabel("s", "prod"), Before: []stages.Task{{Type: stages.ScheduledStart, Schedule: &stages.Schedule{Time: "12:00"}}},
		}}},
	}}
	p, err := planner.Plan(s, stages.Target{Placement: "web", Snapshot: "s1", Selection: "d1", Default: "r1"}, []placement.Cluster{
		{Name: "a", Labels: map[string]string{"s": "eu"}}, {Name: "b", Labels: map[string]string{"s": "prod"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	now := scriptEpoch
	ready := Step(p, NewRun(p, "run", "uid", approval.Identity{}, false, now), stages.Input{Now: now})
	ready = Step(p, ready.Run, stages.Input{Now: now, Observations: []stages.Observation{
		(&scriptRun{plan: p, r: ready.Run}).observation("a", "healthy"),
	}})
	if ready.Run.form.Stage != 1 || len(ready.Actions) != 0 {
		t.Fatalf("the run is in stage %d with %d actions, want that it waits in the second one", ready.Run.form.Stage, len(ready.Actions))
	}
	for name, want := range map[string]bool{"eu": false, "prod": false, "prod/eu": true} {
		c := stages.Command{ID: name, Verb: stages.CompleteGate, Name: name}
		after := Step(p, ready.Run, stages.Input{Now: now.Add(time.Minute), Commands: []stages.Command{c}})
		if got := len(after.Actions) == 1; got != want || (Allowed(p, &ready.Run, c) == nil) != want {
			t.Errorf("%s lets the cluster start: %v, want %v", name, got, want)
		}
	}
}
