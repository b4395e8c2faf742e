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
	"github.com/slipway-dev/slipway/stages"
)

// A deletion that ends with a crash at any write is ended by asking again, and
// leaves nothing, neither in the line of the placement.
func TestDeletionEndsAfterACrash(t *testing.T) {
	for n := 1; ; n++ {
		w, e := interleaved(t)
		must(e.CreateRun(t.Context(), specOf("active", 1)))(t)
		must(e.CreateRun(t.Context(), specOf("waiting", 1)))(t)
		plan := faulty.NewPlan(faulty.CrashAfter(n))
		died := w.engine(plan.Store(w.store), "dies").DeleteRun(t.Context(), "active")
		if err := e.DeleteRun(t.Context(), "active"); err != nil && !errors.Is(err, backend.ErrNotFound) {
			t.Fatalf("crash after write %d (%v), again: %v", n, died, err)
		}
		if got := must(e.Runs(t.Context(), ep))(t); !slices.Equal(got, []string{"waiting"}) {
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

// A run whose record is damaged can be deleted, and gives its placement free.
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
		if s := must(e.Status(t.Context(), "next"))(t); s.Run.State != stages.Pending && s.Run.State != stages.NotStarted {
			t.Errorf("next is %s while a run that cannot be read has the placement", s.Run.State)
		}
		if err := e.DeleteRun(t.Context(), "broken"); err != nil {
			t.Fatal(err)
		}
		w.fleet.Hang("member1", false)
		if s := endOf(t, e, "next"); s.Run.State != stages.Completed {
			t.Errorf("next is %s", s.Run.State)
		}
	})
}
