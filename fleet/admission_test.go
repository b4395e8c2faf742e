package fleet_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
	"github.com/slipway-dev/slipway/versioned"
)

// admitting runs a scenario with three snapshots in an engine that drives runs.
func admitting(t *testing.T, admission stages.Admission, scenario func(*testing.T, *engineEnv, *fleet.Engine)) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) { p.Admission = admission })
		for i := range 3 {
			w.capture(e, fmt.Sprint("v", i))
		}
		stop := running(t, e)
		defer stop()
		scenario(t, w, e)
	})
}

// quiet waits until the engines have had nothing to do for a while. synctest.Wait alone is not
// enough, because a write that met a conflict is retried a moment later.
func quiet() {
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// is checks the state of a run, once the engines are quiet.
func is(t *testing.T, e *fleet.Engine, run string, want stages.State) step.Run {
	t.Helper()
	quiet()
	s := must(e.Run(run).Status(t.Context()))(t)
	if s.Run.State != want {
		t.Errorf("run %s is %s (%s), want %s", run, s.Run.State, s.Run.Reason, want)
	}
	return s.Run
}

func create(t *testing.T, e *fleet.Engine, spec fleet.RunSpec) {
	t.Helper()
	must(e.CreateRun(t.Context(), spec))(t)
}

// command gives a command to a run, and waits until the engines are quiet.
func command(t *testing.T, e *fleet.Engine, run string, verb stages.Verb) {
	t.Helper()
	if err := e.Run(run).Command(t.Context(), stages.Command{Verb: verb}); err != nil {
		t.Fatal(err)
	}
	quiet()
}

// A queued run names the run that it waits for, and starts at its turn. No run waits for a waiting
// run that is deleted or aborted.
func TestQueuedRunsTakeTurns(t *testing.T) {
	admitting(t, stages.QueueRun, func(t *testing.T, w *engineEnv, e *fleet.Engine) {
		w.fleet.Hang("member1", true)
		for i, run := range []string{"a", "b", "c", "d", "e"} {
			create(t, e, specOf(run, min(i, 2)))
			quiet()
		}
		is(t, e, "a", stages.Running)
		for _, run := range []string{"b", "c", "d", "e"} {
			if r := is(t, e, run, stages.Pending); r.Reason != "waits for run a" || r.Ahead != "a" {
				t.Errorf("run %s: %s", run, r.Reason)
			}
		}
		if err := e.Run("c").Delete(t.Context(), forced); err != nil {
			t.Fatal(err)
		}
		command(t, e, "d", stages.Abort)
		is(t, e, "d", stages.Aborted)
		w.fleet.Hang("member1", false)
		if s := endOf(t, e, "e"); s.Run.State != stages.Completed {
			t.Errorf("e is %s", s.Run.State)
		}
		var started []string
		for _, ev := range w.past(100) {
			if ev.Type == stages.RunStarted || ev.Type == stages.RunCompleted {
				started = append(started, ev.Run)
			}
		}
		if d := cmp.Diff([]string{"a", "a", "b", "b", "e", "e"}, started); d != "" {
			t.Errorf("runs started and ended:\n%s", d)
		}
		if got := w.value("member1"); got != "v2" {
			t.Errorf("member1 holds %s", got)
		}
	})
}

// With the Reject policy, a second run is refused with an error that names the first, and leaves
// nothing in the store.
func TestRejectedRunLeavesNothing(t *testing.T) {
	admitting(t, stages.RejectRun, func(t *testing.T, w *engineEnv, e *fleet.Engine) {
		w.fleet.Hang("member1", true)
		create(t, e, specOf("a", 1))
		is(t, e, "a", stages.Running)
		w.holds("not captured yet")
		for _, spec := range []fleet.RunSpec{specOf("b", 1), specOf("b", 2), {Name: "b", Placement: ep, Strategy: tutorialStrategy()}} {
			err := refused(t, w.store, "a second run", func() error { _, err := e.CreateRun(t.Context(), spec); return err }, "run b is rejected", "run a")
			var rejected *stages.RejectedError
			if !errors.As(err, &rejected) || rejected.Run != "b" || rejected.Active != "a" {
				t.Errorf("%v", err)
			}
		}
		if got := must(e.Placement(ep).RunNames(t.Context()))(t); !slices.Equal(got, []string{"a"}) {
			t.Errorf("runs: %v", got)
		}
		held := specOf("held", 2)
		held.Hold = true
		create(t, e, held) // is not in the line
		w.fleet.Hang("member1", false)
		endOf(t, e, "a")
		create(t, e, specOf("b", 2)) // at once: the client that waited finds the placement free
		if s := endOf(t, e, "b"); s.Run.State != stages.Completed {
			t.Errorf("b is %s", s.Run.State)
		}
	})
}

// Two runs that are created in the same instant are never both admitted, and the rejected run
// leaves no run.
func TestRejectionIsDecidedOnce(t *testing.T) {
	meanwhile(t, func() (func(backend.Store), backend.Store, func(), func()) {
		w, e := declared(t, func(p *fleet.Placement) { p.Admission = stages.RejectRun })
		w.capture(e, "v0")
		var mine, theirs error
		do := func(s backend.Store) { _, mine = w.engine(s, "two").CreateRun(t.Context(), specOf("mine", 0)) }
		other := func() { _, theirs = e.CreateRun(t.Context(), specOf("theirs", 0)) }
		return do, w.store, other, func() {
			runs := must(e.Placement(ep).RunNames(t.Context()))(t)
			if (mine == nil) == (theirs == nil) || len(runs) != 1 || len(w.keys("run/")) != 1 || len(w.keys("plan/")) != 2 {
				t.Errorf("mine: %v; theirs: %v; runs %v, records %v %v", mine, theirs, runs, w.keys("run/"), w.keys("plan/"))
			}
		}
	})
}

// A superseding run drains the active run and the waiting runs.
func TestSupersedingRunTakesThePlace(t *testing.T) {
	admitting(t, stages.SupersedeActive, func(t *testing.T, w *engineEnv, e *fleet.Engine) {
		w.fleet.Hang("member1", true)
		for i, run := range []string{"a", "b", "c"} {
			create(t, e, specOf(run, i))
			quiet()
		}
		w.fleet.Hang("member1", false)
		if s := endOf(t, e, "c"); s.Run.State != stages.Completed {
			t.Errorf("c is %s", s.Run.State)
		}
		for _, run := range []string{"a", "b"} {
			is(t, e, run, stages.Superseded)
		}
		if got := w.value("member2"); got != "v2" {
			t.Errorf("member2 holds %s", got)
		}
	})
}

// A rollback is never blocked: without any command, it supersedes a run that is stuck at a cluster
// which never becomes healthy or which hangs.
func TestRollbackSupersedesAStuckRun(t *testing.T) {
	for name, stick := range map[string]func(*engineEnv, bool){
		"refuses": func(w *engineEnv, on bool) {
			w.fleet.Cluster("member1").Refuse(func(o *unstructured.Unstructured) error {
				if v, _, _ := unstructured.NestedString(o.Object, "data", "key"); on && v == "v2" {
					return errStoreDown
				}
				return nil
			})
		},
		"hangs": func(w *engineEnv, on bool) { w.fleet.Hang("member1", on) },
		"down":  func(w *engineEnv, on bool) { w.fleet.SetDown("member1", on) },
	} {
		t.Run(name, func(t *testing.T) {
			admitting(t, stages.QueueRun, func(t *testing.T, w *engineEnv, e *fleet.Engine) {
				ranTo(t, e, specOf("good", 1), stages.Completed)
				bad := specOf("bad", 2)
				bad.Strategy.Stages[0].MaxConcurrency = percent("100%")
				stick(w, true)
				create(t, e, bad)
				quiet()
				create(t, e, specOf("waiting", 2))
				time.Sleep(10 * time.Minute)
				is(t, e, "bad", stages.Running)
				back := specOf("back", 1)
				back.Strategy.Stages[0].MaxConcurrency = percent("100%")
				create(t, e, back)
				time.Sleep(10 * time.Minute)
				is(t, e, "bad", stages.Superseded)
				is(t, e, "waiting", stages.Superseded)
				if got := w.value("member2"); got != "v1" {
					t.Errorf("after a while member2 holds %s", got)
				}
				stick(w, false)
				if s := endOf(t, e, "back"); s.Run.State != stages.Completed {
					t.Errorf("back is %s", s.Run.State)
				}
				if got := w.value("member1"); got != "v1" {
					t.Errorf("member1 holds %s", got)
				}
			})
		})
	}
}

// The deletion of a stuck run releases its placement.
func TestDeletedRunReleasesItsPlacement(t *testing.T) {
	admitting(t, stages.QueueRun, func(t *testing.T, w *engineEnv, e *fleet.Engine) {
		w.fleet.Hang("member1", true)
		create(t, e, specOf("stuck", 1))
		quiet()
		create(t, e, specOf("next", 2))
		time.Sleep(time.Minute)
		is(t, e, "next", stages.Pending)
		if err := e.Run("stuck").Delete(t.Context(), forced); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		is(t, e, "next", stages.Running)
		w.fleet.Hang("member1", false)
		if s := endOf(t, e, "next"); s.Run.State != stages.Completed {
			t.Errorf("next is %s", s.Run.State)
		}
	})
}

// A held run is planned and frozen. It does not delay other runs until it is started, and then
// waits for its turn.
func TestARunOnHoldWaitsForItsStart(t *testing.T) {
	admitting(t, stages.QueueRun, func(t *testing.T, w *engineEnv, e *fleet.Engine) {
		held := specOf("held", 2)
		held.Hold = true
		create(t, e, held)
		time.Sleep(time.Hour)
		is(t, e, "held", stages.NotStarted)
		w.fleet.Hang("member1", true)
		create(t, e, specOf("active", 2)) // at once: no run is in its way
		is(t, e, "active", stages.Running)
		later := specOf("later", 2)
		later.Hold = true
		create(t, e, later)
		command(t, e, "later", stages.Start)
		if r := is(t, e, "later", stages.Pending); r.Reason != "waits for run active" || r.Ahead != "active" {
			t.Errorf("later: %s", r.Reason)
		}
		w.fleet.Hang("member1", false)
		time.Sleep(time.Hour)
		is(t, e, "later", stages.Completed)
		is(t, e, "held", stages.NotStarted)
	})
}

// A stopped run keeps its placement and continues when it is started.
func TestStoppedRunHoldsTheLine(t *testing.T) {
	admitting(t, stages.QueueRun, func(t *testing.T, w *engineEnv, e *fleet.Engine) {
		w.fleet.Hang("member1", true)
		create(t, e, specOf("a", 1))
		quiet()
		create(t, e, specOf("b", 2))
		quiet()
		command(t, e, "a", stages.Stop)
		w.fleet.Hang("member1", false)
		time.Sleep(time.Hour)
		is(t, e, "a", stages.Stopped)
		if r := is(t, e, "b", stages.Pending); r.Reason != "waits for run a" || r.Ahead != "a" {
			t.Errorf("b: %s", r.Reason)
		}
		command(t, e, "a", stages.Start)
		if s := endOf(t, e, "b"); s.Run.State != stages.Completed {
			t.Errorf("b is %s", s.Run.State)
		}
		is(t, e, "a", stages.Completed)
	})
}

// A failed run of profile ClusterUpdate releases its placement. It can be started again when no
// other run has the placement.
func TestFailedRunStartsAgain(t *testing.T) {
	admitting(t, stages.QueueRun, func(t *testing.T, w *engineEnv, e *fleet.Engine) {
		spec := specOf("a", 1)
		spec.Strategy.Profile = stages.ClusterUpdate
		w.fleet.Cluster("member2").Refuse(func(*unstructured.Unstructured) error { return errStoreDown })
		ranTo(t, e, spec, stages.Failed)
		w.fleet.Hang("member1", true)
		create(t, e, specOf("b", 2))
		err := e.Run("a").Command(t.Context(), stages.Command{Verb: stages.Start})
		if _, refused := errors.AsType[*stages.RefusedError](err); !refused || !strings.Contains(err.Error(), "run b has the placement") {
			t.Errorf("a start while b has the placement: %v", err)
		}
		must(0, fleet.LateCommand(t.Context(), e, w.store, "a", stages.Command{Verb: stages.Start}))(t)
		quiet()
		is(t, e, "a", stages.Failed)
		if err := e.Run("b").Delete(t.Context(), forced); err != nil {
			t.Fatal(err)
		}
		w.fleet.Hang("member1", false)
		w.fleet.Cluster("member2").Refuse(nil)
		command(t, e, "a", stages.Start)
		if s := endOf(t, e, "a"); s.Run.State != stages.Completed && s.Run.State != stages.Failed {
			t.Errorf("a is %s", s.Run.State)
		}
		time.Sleep(time.Hour)
		if r := is(t, e, "a", stages.Completed); r.Attempt != 2 {
			t.Errorf("attempt %d", r.Attempt)
		}
		if got := w.value("member2"); got != "v1" {
			t.Errorf("member2 holds %s", got)
		}
		refusals := 0
		for _, ev := range w.past(100) {
			if ev.Type == stages.CommandRefused && strings.Contains(ev.Message, "run b has the placement") {
				refusals++
			}
		}
		if refusals != 1 {
			t.Errorf("%d refusals of the start, want 1", refusals)
		}
	})
}

// A record of a run in a newer format is left alone and reported, and other runs continue.
func TestNewerRunIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		w.capture(e, "v0")
		second := tutorialPlacement()
		second.Name = "other-placement"
		second.AllowCoOwnership = true
		if err := e.PutPlacement(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		must(e.Placement(second.Name).Capture(t.Context()))(t)
		create(t, e, specOf("newer", 0))
		edit(t, w.store, "run/newer", newerFormat)
		edit(t, w.store, "placement/"+ep, newerFormat)
		before := dump(t, w.store)
		stop := running(t, e)
		other := specOf("other", 0)
		other.Placement = second.Name
		ranTo(t, e, other, stages.Completed)
		time.Sleep(time.Hour)
		for what, err := range map[string]error{
			"Status": second1(e.Run("newer").Status(t.Context())), "Wait": second1(e.Run("newer").Wait(t.Context())),
			"Command":      e.Run("newer").Command(t.Context(), stages.Command{Verb: stages.Stop}),
			"Delete":       e.Run("newer").Delete(t.Context(), forced),
			"PutPlacement": e.PutPlacement(t.Context(), tutorialPlacement()),
			"Capture":      second1(e.Placement(ep).Capture(t.Context())),
			"CreateRun":    second1(e.CreateRun(t.Context(), specOf("new", 0))),
			"Runs":         second1(e.Placement(ep).RunNames(t.Context())),
		} {
			if _, ok := errors.AsType[*versioned.FormatError](err); !ok {
				t.Errorf("%s: %v, want a FormatError", what, err)
			}
		}
		stop()
		after := dump(t, w.store)
		for key, value := range before {
			if strings.Contains(key, ep) || strings.Contains(key, "newer") {
				if after[key] != value {
					t.Errorf("%s was changed", key)
				}
			}
		}
	})
}

func second1[T any](_ T, err error) error { return err }
