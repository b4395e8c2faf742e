package fleet_test

import (
	"testing"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// A run that was taken early and starts late, after other runs of its placement got newer epochs,
// is not refused by the clusters as an old leader.
func TestRunThatStartsLateIsNotFenced(t *testing.T) {
	admitting(t, stages.QueueRun, func(t *testing.T, w *engineEnv, e *fleet.Engine) {
		held := specOf("held", 2)
		held.Hold = true
		create(t, e, held)
		is(t, e, "held", stages.NotStarted)
		ranTo(t, e, specOf("other", 0), stages.Completed)
		ranTo(t, e, specOf("another", 1), stages.Completed)
		command(t, e, "held", stages.Start)
		if s := endOf(t, e, "held"); s.Run.State != stages.Completed {
			t.Errorf("held is %s", s.Run.State)
		}
		if got := w.value("member1"); got != "v2" {
			t.Errorf("member1 holds %s", got)
		}
	})
}
