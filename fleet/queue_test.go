package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// held is a store that blocks some calls, while on is set, until they are released.
type held struct {
	backend.Store
	// gets is the prefix of the keys whose reads block before they return, puts the prefix of the
	// keys whose writes block. Writes of keys with the prefix never fail with a conflict.
	gets, puts, never string
	on                atomic.Bool
	waits, let        chan struct{}
}

func holdCalls(s backend.Store, gets, puts string) *held {
	return &held{Store: s, gets: gets, puts: puts, never: "-", waits: make(chan struct{}, 100), let: make(chan struct{})}
}

func (h *held) Get(ctx context.Context, key string) (backend.Record, error) {
	rec, err := h.Store.Get(ctx, key)
	h.hold(h.gets, key)
	return rec, err
}

func (h *held) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	if strings.HasPrefix(key, h.never) {
		return "", fmt.Errorf("%s is for others: %w", key, backend.ErrConflict)
	}
	h.hold(h.puts, key)
	return h.Store.Put(ctx, key, value, prev)
}

func (h *held) hold(begin, key string) {
	if h.on.Load() && begin != "" && strings.HasPrefix(key, begin) {
		h.waits <- struct{}{}
		<-h.let
	}
}

// A waiting run asks for its turn while the previous run ends. It does not become active before the
// end of that run is recorded, because the run may have to be rolled back.
func TestWaitingRunStartsAfterTheRecordedEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fourStages(t)
		drives, waits := holdCalls(w.store, "", "placement/"), holdCalls(w.store, "run/r1", "")
		drives.never = "run/waits"
		one, two := w.engine(drives, "one"), w.engine(waits, "two")
		must(0, one.PutPlacement(t.Context(), tutorialPlacement()))(t)
		stop := running(t, one)
		defer stop()
		ranTo(t, one, inAll("r0"), stages.Completed)
		w.holds("v1")
		spec := inAll("r1")
		spec.Strategy.Stages[2].Before = []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Hour}}}
		create(t, one, spec)
		quiet()
		stopTwo := running(t, two)
		defer stopTwo()
		create(t, two, inAll("waits"))
		time.Sleep(time.Minute)

		waits.on.Store(true)
		<-waits.waits // the waiting run has read that r1 is unfinished
		drives.on.Store(true)
		must(one.Run("r1").Rollback(t.Context(), fleet.RollbackOptions{Name: "undo", By: approval.Identity{Name: "ann"}}))(t)
		<-drives.waits // r1 has ended, and its engine is about to record that
		waits.on.Store(false)
		close(waits.let)
		quiet()
		drives.on.Store(false)
		close(drives.let)

		if s := endOf(t, one, "waits"); s.Run.State != stages.Superseded {
			b, err := one.Run("r1").RollbackStatus(t.Context())
			t.Errorf("waits is %s; r1: %+v, %v", s.Run.State, b, err)
		}
		if s := endOfRollback(t, one, "r1"); s.Run.State != stages.Completed {
			t.Errorf("undo is %s: %s", s.Run.State, s.Run.Reason)
		}
		wantValues(t, w, everywhere("v0"))
	})
}

// A failed run that is retried has the placement from then on, even before this is saved: a run
// that is created in this time waits.
func TestRestartAndNewRunDoNotOverlap(t *testing.T) {
	t.Parallel()
	for slow := 1; slow <= 4; slow++ {
		synctest.Test(t, func(t *testing.T) {
			defer logCase(t, "save %d is slow", slow)
			w := newSmallEnv(t, 2)
			h := w.newEngine(fleet.Config{Name: "host"})
			w.declare(h, smallPlacement("web"))
			w.refusing("c00", true)
			w.create(h, fleet.RunSpec{Name: "a", Placement: "web", Strategy: startable()})
			stop := running(t, h)
			w.within(time.Minute, "a", stages.Failed)
			stop()
			w.refusing("c00", false)
			for _, name := range []string{"c00", "c01"} {
				w.fleet.SetDelay(name, func() time.Duration { return 300 * time.Millisecond })
			}
			saving, puts := make(chan struct{}), 0
			plan := faulty.NewPlan(faulty.On(func(c faulty.Call) bool {
				if c.Op != "put" || c.Key != "run/a" {
					return false
				}
				if puts++; puts == slow {
					close(saving)
				}
				return puts == slow
			}, faulty.Fault{Delay: 100 * time.Millisecond}))
			if err := h.Run("a").Command(t.Context(), stages.Command{ID: "again", Verb: stages.Start}); err != nil {
				t.Fatal(err)
			}
			defer running(t, w.newEngine(fleet.Config{Name: "one", Store: plan.Store(w.store)}))()
			<-saving
			w.create(h, fleet.RunSpec{Name: "b", Placement: "web", Strategy: allAtOnce(1)})
			defer running(t, w.newEngine(fleet.Config{Name: "two"}))()
			settle()
			w.within(time.Hour, "b", stages.Completed)
			settle()
			if w.happened("a", stages.CommandRefused) == 0 { // b was not first
				w.within(time.Hour, "a", stages.Completed)
			} else if slow > 1 {
				t.Error("the start was refused although the run had the placement")
			}
			w.spans("a", "b")
			settle()
			w.tidy()
		})
	}
}

// A second run is rejected. If its creator died before its admission, the run does not start later,
// when the placement is free, and costs little.
func TestRejectedRunDoesNotStartLater(t *testing.T) {
	t.Parallel()
	rejected := 0
	for k := 1; k < 12; k++ {
		synctest.Test(t, func(t *testing.T) {
			defer logCase(t, "crash at write %d", k)
			w := newSmallEnv(t, 1)
			h := w.newEngine(fleet.Config{Name: "host"})
			p := smallPlacement("web")
			p.Admission = stages.RejectRun
			w.declare(h, p)
			must(h.Placement("web").Capture(t.Context()))(t)
			x := w.newEngine(fleet.Config{Name: "x", Store: faulty.NewPlan(faulty.CrashAfter(k)).Store(w.store)})
			_, crash := x.CreateRun(t.Context(), fleet.RunSpec{Name: "b", Placement: "web", Index: new(0), Strategy: allAtOnce(1)})
			if len(w.keys("run/")) == 0 || crash == nil {
				return
			}
			_, second := h.CreateRun(t.Context(), fleet.RunSpec{Name: "a", Placement: "web", Index: new(0), Strategy: allAtOnce(1, stages.Task{Type: stages.Approval})})
			defer running(t, h)()
			time.Sleep(time.Hour)
			if second != nil {
				w.within(time.Second, "b", stages.Completed) // it had been admitted
				return
			}
			rejected++
			if err := h.Run("a").Command(t.Context(), stages.Command{Verb: stages.Abort}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			if n := w.happened("b", stages.RunTaken); n > 36 || w.happened("b", stages.RunStarted) > 0 {
				t.Errorf("b was taken %d times, and started %d times", n, w.happened("b", stages.RunStarted))
			}
			if s, err := h.Run("b").Status(t.Context()); !errors.Is(err, backend.ErrNotFound) {
				t.Errorf("b is %s, want it to be gone: %v", s.Run.State, err)
			}
		})
	}
	if rejected == 0 {
		t.Error("no run was rejected: the test does not test enough")
	}
}
