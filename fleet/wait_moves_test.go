package fleet_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// A run moves until it waits only for a person, or for another run that waits for one. It moves
// again as soon as that person has given a command.
func TestMoves(t *testing.T) {
	admitting(t, stages.QueueRun, func(t *testing.T, w *engineEnv, e *fleet.Engine) {
		expect := func(when string, first, second bool) {
			t.Helper()
			for run, want := range map[string]bool{"first": first, "second": second} {
				if got := must(e.Run(run).Moves(t.Context()))(t); got != want {
					t.Errorf("%s: %s moves: %v, want %v", when, run, got, want)
				}
			}
		}
		held := gatedSpec("first")
		held.Hold = true
		create(t, e, held)
		quiet()
		if must(e.Run("first").Moves(t.Context()))(t) {
			t.Error("a run that waits for its start moves")
		}
		w.fleet.Hang("member1", true)
		command(t, e, "first", stages.Start)
		create(t, e, specOf("second", 1))
		quiet()
		expect("while a cluster is in flight", true, true)
		w.fleet.Hang("member1", false)
		time.Sleep(time.Hour)
		expect("while an approval is missing", false, false)
		other := w.engine(w.store, "other")
		if err := other.Run("second").Command(t.Context(), stages.Command{Verb: stages.Stop}); err != nil {
			t.Fatal(err)
		}
		quiet()
		expect("after the second one was stopped", false, false)
		command(t, e, "second", stages.Start)
		answerGate(t, e, "first", approval.Approve)
		quiet()
		expect("in the end", false, false)
		if s := must(e.Run("second").Status(t.Context()))(t); s.Run.State != stages.Completed {
			t.Errorf("the second one is %s", s.Run.State)
		}
		if _, err := e.Run("none").Moves(t.Context()); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("a run that is not there: %v", err)
		}
	})
}

// A stage that waits for an answer until a timeout moves, until the run is stopped, which stops the
// timeout.
func TestARunThatTimesOutMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		w.capture(e, "v0")
		spec := specOf("r", 0)
		spec.Strategy.Profile, spec.Strategy.OnFailure = stages.Workflow, stages.EndRun
		hold := stages.Stage{Name: "hold", Before: []stages.Task{{Type: stages.Approval}}, Flow: stages.Flow{Pause: true, Timeout: metav1.Duration{Duration: time.Hour}}}
		spec.Strategy.Stages = append([]stages.Stage{hold}, spec.Strategy.Stages...)
		create(t, e, spec)
		stop := running(t, e)
		defer stop()
		quiet()
		moves := func(want bool, when string) {
			t.Helper()
			if got := must(e.Run("r").Moves(t.Context()))(t); got != want {
				t.Errorf("%s it moves: %v, want %v", when, got, want)
			}
		}
		moves(true, "before the timeout")
		s := must(e.Run("r").Status(t.Context()))(t)
		waits := step.Waiting(s.Plan, &s.Run)
		if len(waits) != 2 || waits[1].Kind != stages.AwaitTimeout || waits[1].Name != "hold" || !waits[1].Until.Equal(s.Run.Form(runstate.Key{}).Stages[0].Deadline.Time()) {
			t.Errorf("it waits for %+v", waits)
		}
		command(t, e, "r", stages.Stop)
		quiet()
		moves(false, "stopped")
		command(t, e, "r", stages.Start)
		quiet()
		moves(true, "started again")
		time.Sleep(time.Hour)
		quiet()
		moves(false, "after the timeout")
		if s := must(e.Run("r").Status(t.Context()))(t); s.Run.State != stages.Failed {
			t.Errorf("the run is %s", s.Run.State)
		}
	})
}

func TestRunWithAnUnreadCommandMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		w.capture(e, "v0")
		held := specOf("r", 0)
		held.Hold = true
		create(t, e, held)
		if must(e.Run("r").Moves(t.Context()))(t) {
			t.Error("a run that waits for its start moves")
		}
		command(t, e, "r", stages.Start)
		if !must(e.Run("r").Moves(t.Context()))(t) {
			t.Error("a run with a command that is not taken in does not move")
		}
	})
}
