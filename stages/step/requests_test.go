package step

import (
	"testing"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// A run that is Stopping because another run has taken its place takes no more decisions, so that
// it has no open requests. A run that is Stopping after a Stop keeps them.
func TestRequestsOfARunThatIsStopping(t *testing.T) {
	p := newPlan(t, stages.Strategy{Profile: stages.ClusterUpdate, Stages: []stages.Stage{{
		Name: "prod", Selector: matchLabel("s", "prod"), Groups: []stages.Group{
			{Name: "first", Selector: matchLabel("g", "first")},
			{Name: "second", Selector: matchLabel("g", "second"), Before: []stages.Task{{Type: stages.Approval}}},
		},
	}}}, []placement.Cluster{labelled("a", "s=prod", "g=first"), labelled("b", "s=prod", "g=second")})
	now := scriptEpoch
	ready := Step(p, NewRun(p, "run", "uid", approval.Identity{}, false, now), stages.Input{Now: now})
	if n := len(Requests(p, &ready.Run)); n != 1 || ready.Run.form.Flying() != 1 {
		t.Fatalf("%d requests and %d clusters in flight, want one of each", n, ready.Run.form.Flying())
	}
	for verb, want := range map[stages.Verb]int{stages.Stop: 1, stages.Supersede: 0} {
		after := Step(p, ready.Run, stages.Input{Now: now.Add(time.Second), Commands: []stages.Command{{ID: "1", Verb: verb, Name: "next"}}})
		if got := len(Requests(p, &after.Run)); after.Run.State != stages.Stopping || got != want {
			t.Errorf("%s: the run is %s with %d requests, want Stopping with %d", verb, after.Run.State, got, want)
		}
	}
}
