package fleet_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// forced deletes a run in any state.
var forced = true

// A deletion that a crash ends at any write is completed by a second call, and leaves nothing, also
// not in the queue of the placement.
func TestDeletionEndsAfterACrash(t *testing.T) {
	for n := 1; ; n++ {
		w, e := interleaved(t)
		must(e.CreateRun(t.Context(), specOf("active", 1)))(t)
		must(e.CreateRun(t.Context(), specOf("waiting", 1)))(t)
		plan := faulty.NewPlan(faulty.CrashAfter(n))
		died := w.engine(plan.Store(w.store), "dies").Run("active").Delete(t.Context(), forced)
		if err := e.Run("active").Delete(t.Context(), forced); err != nil && !errors.Is(err, backend.ErrNotFound) {
			t.Fatalf("crash after write %d (%v), again: %v", n, died, err)
		}
		if got := must(e.Placement(ep).RunNames(t.Context()))(t); !slices.Equal(got, []string{"waiting"}) {
			t.Errorf("crash after write %d: runs %v", n, got)
		}
		if v, _, _ := strings.Cut(dump(t, w.store)["placement/"+ep], `"journal":`); strings.Contains(v, `"run":"active"`) {
			t.Errorf("crash after write %d: the run is in the line: %s", n, v)
		}
		w.wantAll(e)
		if !plan.Crashed() {
			break
		}
	}
}

// A run in progress is only deleted by force. A waiting, stopped or ended run is deleted without
// force.
func TestAnActiveRunIsDeletedByForce(t *testing.T) {
	for _, c := range []struct {
		name string
		// come brings the run to a state.
		come    func(*testing.T, *engineEnv, *fleet.Engine)
		refused bool
	}{
		{name: "it is queued", come: func(t *testing.T, _ *engineEnv, e *fleet.Engine) {
			must(e.CreateRun(t.Context(), specOf("first", 1)))(t)
			must(e.CreateRun(t.Context(), specOf("r", 1)))(t)
			time.Sleep(time.Minute)
		}},
		{name: "a cluster is in flight", refused: true, come: func(t *testing.T, _ *engineEnv, e *fleet.Engine) {
			must(e.CreateRun(t.Context(), specOf("r", 1)))(t)
			time.Sleep(time.Minute)
		}},
		{name: "it is stopping", refused: true, come: func(t *testing.T, _ *engineEnv, e *fleet.Engine) {
			must(e.CreateRun(t.Context(), specOf("r", 1)))(t)
			time.Sleep(time.Minute)
			done(t, e.Run("r").Command(t.Context(), stages.Command{Verb: stages.Stop}))
			time.Sleep(time.Second)
		}},
		{name: "it is stopped", come: func(t *testing.T, w *engineEnv, e *fleet.Engine) {
			must(e.CreateRun(t.Context(), specOf("r", 1)))(t)
			time.Sleep(time.Minute)
			done(t, e.Run("r").Command(t.Context(), stages.Command{Verb: stages.Stop}))
			w.fleet.Hang("member1", false)
			time.Sleep(10 * time.Minute)
		}},
		{name: "it has ended", come: func(t *testing.T, w *engineEnv, e *fleet.Engine) {
			w.fleet.Hang("member1", false)
			must(e.CreateRun(t.Context(), specOf("r", 1)))(t)
			endOf(t, e, "r")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, e := interleaved(t)
				defer running(t, e)()
				w.fleet.Hang("member1", true)
				c.come(t, w, e)
				err := e.Run("r").Delete(t.Context(), false)
				refusal, is := errors.AsType[*stages.RefusedError](err)
				if is != c.refused || !is && err != nil {
					t.Fatalf("%v, refused: %t, want %t", err, is, c.refused)
				}
				if is && !strings.Contains(refusal.Error(), "stop or abort it first") {
					t.Error(refusal)
				}
				if is {
					done(t, e.Run("r").Delete(t.Context(), forced))
				}
				if _, err := e.Run("r").Status(t.Context()); !errors.Is(err, backend.ErrNotFound) {
					t.Errorf("it is still there: %v", err)
				}
				w.fleet.Hang("member1", false)
				must(e.CreateRun(t.Context(), specOf("next", 1)))(t)
				if s := endOf(t, e, "next"); s.Run.State != stages.Completed {
					t.Errorf("the next run is %s", s.Run.State)
				}
			})
		})
	}
}

// A run with a damaged record can be deleted, which releases its placement.
func TestDamagedRunIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := interleaved(t)
		defer running(t, e)()
		w.fleet.Hang("member1", true)
		must(e.CreateRun(t.Context(), specOf("broken", 1)))(t)
		time.Sleep(time.Second)
		edit(t, w.store, "run/broken", damage)
		must(e.CreateRun(t.Context(), specOf("next", 1)))(t)
		time.Sleep(time.Minute)
		if s := must(e.Run("next").Status(t.Context()))(t); s.Run.State != stages.Pending && s.Run.State != stages.NotStarted {
			t.Errorf("next is %s while a run that cannot be read has the placement", s.Run.State)
		}
		if err := e.Run("broken").Delete(t.Context(), forced); err != nil {
			t.Fatal(err)
		}
		w.fleet.Hang("member1", false)
		if s := endOf(t, e, "next"); s.Run.State != stages.Completed {
			t.Errorf("next is %s", s.Run.State)
		}
	})
}
