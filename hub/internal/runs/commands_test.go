package runs

import (
	"testing"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// TestStopWaitsForTheStart: the engine refuses to stop a run that has not started, and
// takes each command once, so that a stop right before the start must wait for the start.
func TestStopWaitsForTheStart(t *testing.T) {
	for _, c := range []struct {
		run  step.Run
		want stages.Verb
	}{
		{step.Run{State: stages.NotStarted}, ""},
		{step.Run{State: stages.NotStarted, Hold: true}, ""},
		{step.Run{State: stages.Pending}, stages.Stop},
		{step.Run{State: stages.Running}, stages.Stop},
		{step.Run{State: stages.Stopped}, ""},
		{step.Run{State: stages.Completed}, ""},
	} {
		if got := commandFor(v1beta1.StateStop, &c.run); got != c.want {
			t.Errorf("of a run that is %s (held: %t) %q is asked, want %q", c.run.State, c.run.Hold, got, c.want)
		}
	}
}
