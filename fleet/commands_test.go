package fleet_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// A command of a newer format is left for an engine that knows the format. The engine does not take
// an ended run again and again because of it.
func TestNewerCommandDoesNotKeepARunBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 1)
		e := w.newEngine(fleet.Config{Name: "one"})
		w.declare(e, smallPlacement("web"))
		w.create(e, fleet.RunSpec{Name: "r", Placement: "web", Strategy: allAtOnce(1)})
		if err := e.Run("r").Command(t.Context(), stages.Command{ID: "x", Verb: stages.Start}); err != nil {
			t.Fatal(err)
		}
		key := "command/" + must(e.Run("r").Status(t.Context()))(t).Run.UID + "/x"
		edit(t, w.store, key, newerFormat)
		stop := running(t, e)
		w.within(time.Minute, "r", stages.Completed)
		stop()
		before := must(e.Run("r").Status(t.Context()))(t)
		var calls atomic.Int64
		plan := faulty.NewPlan(calm(5000, &calls, anyCall))
		defer running(t, w.newEngine(fleet.Config{Name: "two", Store: plan.Store(w.store)}))()
		time.Sleep(10 * time.Hour)
		after := must(e.Run("r").Status(t.Context()))(t)
		if taken := after.Epoch - before.Epoch; taken > 3 || calls.Load() > 1000 {
			t.Errorf("in ten hours the run was taken %d times with %d calls to the store", taken, calls.Load())
		}
		if _, err := w.store.Get(t.Context(), key); err != nil {
			t.Errorf("the command is gone: %v", err)
		}
	})
}

// A command to a run that has ended is not lost if the store fails while runs are listed.
func TestStartSurvivesAFailedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 1)
		w.refusing("c00", true)
		var fail atomic.Int32
		plan := faulty.NewPlan(faulty.On(func(c faulty.Call) bool {
			return c.Op == "list" && c.Key == "run/" && fail.Add(-1) >= 0
		}, faulty.Before(nil)))
		h := w.newEngine(fleet.Config{Name: "host"})
		w.declare(h, smallPlacement("web"))
		w.create(h, fleet.RunSpec{Name: "a", Placement: "web", Strategy: startable()})
		defer running(t, w.newEngine(fleet.Config{Name: "one", Store: plan.Store(w.store)}))()
		w.within(time.Minute, "a", stages.Failed)
		w.refusing("c00", false)
		time.Sleep(time.Hour)
		fail.Store(3)
		if err := h.Run("a").Command(t.Context(), stages.Command{ID: "again", Verb: stages.Start}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.within(time.Minute, "a", stages.Completed)
		if fail.Load() >= 0 {
			t.Error("no list has failed: the test does not test enough")
		}
		w.tidy()
	})
}

// Commands that cannot be deleted are carried out once. They neither block newer commands nor keep
// the engine busy.
func TestUndeletableCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 1)
		var lists atomic.Int64
		command := func(c faulty.Call) bool { return strings.HasPrefix(c.Key, "command/") }
		plan := faulty.NewPlan(
			faulty.On(func(c faulty.Call) bool { return c.Op == "delete" && command(c) }, faulty.Before(backend.ErrPermanent)),
			calm(5000, &lists, func(c faulty.Call) bool { return c.Op == "list" && command(c) }))
		h := w.newEngine(fleet.Config{Name: "host"})
		w.declare(h, smallPlacement("web"))
		w.create(h, fleet.RunSpec{Name: "a", Placement: "web", Strategy: allAtOnce(1, stages.Task{Type: stages.Approval})})
		defer running(t, w.newEngine(fleet.Config{Name: "one", Store: plan.Store(w.store)}))()
		time.Sleep(time.Second)
		for i := range 40 {
			verb := []stages.Verb{stages.Stop, stages.Start}[i%2]
			if err := h.Run("a").Command(t.Context(), stages.Command{ID: fmt.Sprint("c", i), Verb: verb}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			if got := w.happened("a", stages.RunStopped) + w.happened("a", stages.RunResumed); got != i+1 {
				t.Fatalf("after %d commands the run was stopped or resumed %d times", i+1, got)
			}
		}
		if err := h.Run("a").Command(t.Context(), stages.Command{ID: "abort", Verb: stages.Abort}); err != nil {
			t.Fatal(err)
		}
		w.within(10*time.Second, "a", stages.Aborted)
		time.Sleep(time.Hour)
		if n := lists.Load(); n > 500 {
			t.Errorf("the commands were read %d times", n)
		}
		if n := w.happened("a", stages.RunTaken); n > 50 {
			t.Errorf("the run was taken %d times", n)
		}
	})
}

// A driver lists the commands of a run once. Later it reads new commands, by the reports of a
// watch.
func TestACommandThatAWatchReportsIsReadAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 1)
		var lists atomic.Int64
		plan := faulty.NewPlan(calm(1<<30, &lists, func(c faulty.Call) bool { return c.Op == "list" && strings.HasPrefix(c.Key, "command/") }))
		h := w.newEngine(fleet.Config{Name: "host"})
		w.declare(h, smallPlacement("web"))
		w.create(h, fleet.RunSpec{Name: "a", Placement: "web", Strategy: allAtOnce(1, stages.Task{Type: stages.Approval})})
		defer running(t, w.newEngine(fleet.Config{Name: "one", Store: plan.Store(w.store)}))()
		time.Sleep(time.Minute)
		before := lists.Load()
		for i := range 10 {
			verb := []stages.Verb{stages.Stop, stages.Start}[i%2]
			if err := h.Run("a").Command(t.Context(), stages.Command{ID: fmt.Sprint("c", i), Verb: verb}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if n := w.happened("a", stages.RunStopped) + w.happened("a", stages.RunResumed); n != 10 {
			t.Errorf("after ten commands the run was stopped or resumed %d times", n)
		}
		if n := lists.Load(); before == 0 || n != before {
			t.Errorf("the commands were listed %d times at first, and %d times for ten commands", before, n-before)
		}
	})
}

// A command to a run that has ended for good is not stored, and the error has the state. A run that
// can be started again takes a Start. A command whose ID was used before changes nothing, also
// after the end.
func TestACommandToAnEndedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 1)
		e := w.newEngine(fleet.Config{})
		w.declare(e, smallPlacement("web"))
		defer running(t, e)()
		w.refusing("c00", true)
		w.create(e, fleet.RunSpec{Name: "again", Placement: "web", Strategy: startable()})
		w.within(time.Minute, "again", stages.Failed)
		w.refusing("c00", false)
		w.create(e, fleet.RunSpec{Name: "done", Placement: "web", Strategy: allAtOnce(1)})
		w.within(time.Minute, "done", stages.Completed)
		w.create(e, fleet.RunSpec{Name: "ended", Placement: "web", Strategy: allAtOnce(1, stages.Task{Type: stages.Approval})})
		settle()
		w.command(e, "ended", stages.Command{ID: "once", Verb: stages.Abort})
		for run, verbs := range map[string][]stages.Verb{
			"done": {stages.Start, stages.Stop, stages.Abort, stages.Retry}, "ended": {stages.Start, stages.Stop, stages.Abort, stages.Retry},
		} {
			state := must(e.Run(run).Status(t.Context()))(t).Run.State
			for _, verb := range verbs {
				err := e.Run(run).Command(t.Context(), stages.Command{Verb: verb})
				refused, is := errors.AsType[*stages.RefusedError](err)
				if !is || refused.State != state || !strings.Contains(err.Error(), "run "+run) || !strings.Contains(err.Error(), string(state)) {
					t.Errorf("%s of run %s, which is %s: %v", verb, run, state, err)
				}
			}
		}
		if err := e.Run("ended").Command(t.Context(), stages.Command{ID: "once", Verb: stages.Abort}); err != nil {
			t.Errorf("the same command once more: %v", err)
		}
		if err := e.Run("again").Command(t.Context(), stages.Command{Verb: stages.Start}); err != nil {
			t.Errorf("start of a failed run that can be started again: %v", err)
		}
		settle()
		w.tidy()
	})
}
