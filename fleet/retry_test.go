package fleet_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// command gives a command to a run.
func (w *engineEnv) command(e *fleet.Engine, run string, c stages.Command) {
	w.t.Helper()
	if err := e.Run(run).Command(w.t.Context(), c); err != nil {
		w.t.Fatal(err)
	}
	settle()
}

// late gives a command that the run may refuse, as a host does that read the run before.
func (w *engineEnv) late(e *fleet.Engine, run string, c stages.Command) {
	w.t.Helper()
	if err := fleet.LateCommand(w.t.Context(), e, w.store, run, c); err != nil {
		w.t.Fatal(err)
	}
	settle()
}

// stateIs checks the state of a run.
func (w *engineEnv) stateIs(e *fleet.Engine, run string, want stages.State) {
	w.t.Helper()
	if s := must(e.Run(run).Status(w.t.Context()))(w.t); s.Run.State != want {
		w.t.Errorf("run %s is %s (%s), want %s", run, s.Run.State, s.Run.Reason, want)
	}
}

// A retry of a failed run needs the placement as a start does: it is refused while another run has
// the placement, and keeps others from it.
func TestARunThatHasFailedIsRetriedOnlyWithThePlacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 2)
		e := w.newEngine(fleet.Config{})
		w.declare(e, smallPlacement("web"))
		w.refusing("c00", true)
		w.create(e, fleet.RunSpec{Name: "a", Placement: "web", Strategy: startable()})
		defer running(t, e)()
		w.within(time.Minute, "a", stages.Failed)
		w.refusing("c00", false)

		w.create(e, fleet.RunSpec{Name: "b", Placement: "web", Strategy: allAtOnce(1, stages.Task{Type: stages.Approval})})
		settle()
		w.late(e, "a", stages.Command{ID: "early", Verb: stages.Retry})
		w.stateIs(e, "a", stages.Failed)
		w.stateIs(e, "b", stages.Running)
		w.command(e, "b", stages.Command{Verb: stages.Abort})

		held := startable()
		held.Stages[0].After = []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Hour}}}
		w.command(e, "a", stages.Command{ID: "again", Verb: stages.Retry})
		w.create(e, fleet.RunSpec{Name: "c", Placement: "web", Strategy: held})
		w.within(2*time.Hour, "c", stages.Completed)
		w.within(time.Hour, "a", stages.Completed)
		w.spans("a", "b", "c")
		if n := w.happened("a", stages.CommandRefused); n != 1 {
			t.Errorf("%d commands were refused, want the retry that came while b had the placement", n)
		}
		settle()
		w.tidy()
	})
}

// A retry without work leaves the placement to others.
func TestEmptyRetryLeavesThePlacementFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 2)
		e := w.newEngine(fleet.Config{})
		w.declare(e, smallPlacement("web"))
		w.refusing("c00", true)
		w.create(e, fleet.RunSpec{Name: "a", Placement: "web", Strategy: startable()})
		held := fleet.RunSpec{Name: "held", Placement: "web", Strategy: startable(), Hold: true}
		defer running(t, e)()
		w.within(time.Minute, "a", stages.Failed)
		w.create(e, held)
		w.late(e, "a", stages.Command{Verb: stages.Retry, Only: stages.OnlySkipped})
		w.late(e, "held", stages.Command{Verb: stages.Retry, Only: stages.OnlySkipped})
		w.stateIs(e, "a", stages.Failed)
		w.stateIs(e, "held", stages.NotStarted)
		w.refusing("c00", false)
		w.create(e, fleet.RunSpec{Name: "b", Placement: "web", Strategy: allAtOnce(1)})
		w.within(time.Minute, "b", stages.Completed)
	})
}

// The result of each attempt of a run is recorded once: a retry without work does not restore the
// bindings from before another run.
func TestEmptyRetryKeepsTheBindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 2)
		e := w.newEngine(fleet.Config{})
		w.declare(e, smallPlacement("web"))
		w.refusing("c00", true)
		w.create(e, fleet.RunSpec{Name: "a", Placement: "web", Strategy: startable()})
		defer running(t, e)()
		w.within(time.Minute, "a", stages.Failed)
		w.refusing("c00", false)
		if err := w.source.Put(plain("v2")); err != nil {
			t.Fatal(err)
		}
		w.create(e, fleet.RunSpec{Name: "b", Placement: "web", Strategy: allAtOnce(2)})
		w.within(time.Minute, "b", stages.Completed)
		settle()
		w.late(e, "a", stages.Command{Verb: stages.Retry, Only: stages.OnlySkipped})
		for c, err := range must(e.Placement("web").View(t.Context()))(t).Placed(t.Context()) {
			if err != nil || c.Index != 1 || c.Tried != 1 {
				t.Errorf("%+v, %v: want what run b brought", c, err)
			}
		}
	})
}

// A run that was stopped before its turn waits for its turn after a retry, too.
func TestRetryOfARunStoppedInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 2)
		e := w.newEngine(fleet.Config{})
		w.declare(e, smallPlacement("web"))
		w.create(e, fleet.RunSpec{Name: "a", Placement: "web", Strategy: allAtOnce(1, stages.Task{Type: stages.Approval})})
		w.create(e, fleet.RunSpec{Name: "b", Placement: "web", Strategy: startable()})
		defer running(t, e)()
		settle()
		w.stateIs(e, "b", stages.Pending)
		w.command(e, "b", stages.Command{Verb: stages.Skip, Scope: stages.SkipCluster, Name: "c00"})
		w.command(e, "b", stages.Command{Verb: stages.Stop})
		w.command(e, "b", stages.Command{Verb: stages.Retry})
		w.stateIs(e, "b", stages.Pending)
		w.stateIs(e, "a", stages.Running)
		w.spans("a", "b")
	})
}

// The result of a failed run is recorded before the run is retried, even if its engine died before
// it did so. The bindings are therefore up to date before the next attempt changes clusters.
func TestRetryFirstRecordsTheEarlierResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 2)
		h := w.newEngine(fleet.Config{Name: "host"})
		w.declare(h, smallPlacement("web"))
		w.refusing("c01", true)
		w.create(h, fleet.RunSpec{Name: "a", Placement: "web", Strategy: startable()})
		ctx, die := context.WithCancel(t.Context())
		store := &hookedStore{w.store, func(op, key string) {
			if op != "put" || key != "placement/web" {
				return
			}
			if s, err := h.Run("a").Status(t.Context()); err == nil && s.Run.State == stages.Failed {
				die()
				<-ctx.Done()
			}
		}}
		if err := w.newEngine(fleet.Config{Name: "dies", Store: store}).Start(ctx); err != nil {
			t.Fatal(err)
		}
		w.stateIs(h, "a", stages.Failed)
		proven := func() bool { // by the generation of the roster that counts
			return !strings.Contains(dump(t, w.store)["placement/web"], `"generation":1,`)
		}
		if proven() {
			t.Fatal("the first engine took in what the run brought")
		}
		for _, name := range []string{"c00", "c01"} {
			w.fleet.Hang(name, true)
		}
		must(0, h.Run("a").Command(t.Context(), stages.Command{ID: "again", Verb: stages.Start}))(t)
		defer running(t, w.newEngine(fleet.Config{Name: "two"}))()
		settle()
		w.stateIs(h, "a", stages.Running)
		if !proven() {
			t.Error("a cluster is changed, and it is not known what the others have")
		}
	})
}
