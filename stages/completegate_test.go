package stages

import (
	"testing"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
)

// A group that is called like a stage is named with its own stage: who ends the
// scheduled start of a stage, late or twice, never ends that of a group.
func TestCompleteGateOfAStageIsNotThatOfAGroup(t *testing.T) {
	s := Strategy{Profile: ClusterUpdate, Stages: []Stage{
		{Name: "eu", Selector: matchLabel("s", "eu"), Groups: []Group{{Name: "g", Selector: matchLabel("s", "eu")}}},
		{Name: "prod", Selector: matchLabel("s", "prod"), Groups: []Group{{
			Name: "eu", Selector: matchLabel("s", "prod"), Before: []Task{{Type: ScheduledStart, Schedule: &Schedule{Time: "12:00"}}},
		}}},
	}}
	p, err := NewPlan(s, Target{Placement: "web", Snapshot: "s1", Selection: "d1", Default: "r1"}, []placement.Cluster{
		{Name: "a", Labels: map[string]string{"s": "eu"}}, {Name: "b", Labels: map[string]string{"s": "prod"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	now := scriptEpoch
	ready := Step(p, NewRun(p, "run", "uid", approval.Identity{}, false, now), Input{Now: now})
	ready = Step(p, ready.Run, Input{Now: now, Observations: []Observation{
		(&scriptRun{plan: p, r: ready.Run}).observation("a", "healthy"),
	}})
	if ready.Run.Stage != 1 || len(ready.Actions) != 0 {
		t.Fatalf("the run is in stage %d with %d actions, want that it waits in the second one", ready.Run.Stage, len(ready.Actions))
	}
	for name, want := range map[string]bool{"eu": false, "prod": false, "prod/eu": true} {
		c := Command{ID: name, Verb: CompleteGate, Name: name}
		after := Step(p, ready.Run, Input{Now: now.Add(time.Minute), Commands: []Command{c}})
		if got := len(after.Actions) == 1; got != want || (Allowed(p, &ready.Run, c) == nil) != want {
			t.Errorf("%s lets the cluster start: %v, want %v", name, got, want)
		}
	}
}
