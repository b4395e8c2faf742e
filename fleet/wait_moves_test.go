package fleet_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// A run moves until it waits for a person only, as it does behind a run that waits for one, and again from the moment at
// which that person has asked for something.
func TestMoves(t *testing.T) {
	admitting(t, lifecycle.QueueRun, func(t *testing.T, w *engineEnv, e *fleet.Engine) {
		expect := func(when string, first, second bool) {
			t.Helper()
			for run, want := range map[string]bool{"first": first, "second": second} {
				if got := must(e.Moves(t.Context(), run))(t); got != want {
					t.Errorf("%s: %s moves: %v, want %v", when, run, got, want)
				}
			}
		}
		held := gatedSpec("first")
		held.Hold = true
		create(t, e, held)
		quiet()
		if must(e.Moves(t.Context(), "first"))(t) {
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
		if err := other.Command(t.Context(), "second", stages.Command{Verb: stages.Stop}); err != nil {
			t.Fatal(err)
		}
		quiet()
		expect("after the second one was stopped", false, false)
		command(t, e, "second", stages.Start)
		answerGate(t, e, "first", approval.Approve)
		quiet()
		expect("in the end", false, false)
		if s := must(e.Status(t.Context(), "second"))(t); s.Run.State != stages.Completed {
			t.Errorf("the second one is %s", s.Run.State)
		}
		if _, err := e.Moves(t.Context(), "none"); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("a run that is not there: %v", err)
		}
	})
}

func TestARunWithACommandThatIsNotTakenInMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		w.capture(e, "v0")
		held := specOf("r", 0)
		held.Hold = true
		create(t, e, held)
		if must(e.Moves(t.Context(), "r"))(t) {
			t.Error("a run that waits for its start moves")
		}
		command(t, e, "r", stages.Start)
		if !must(e.Moves(t.Context(), "r"))(t) {
			t.Error("a run with a command that is not taken in does not move")
		}
	})
}
