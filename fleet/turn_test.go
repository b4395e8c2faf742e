package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// held is a store in which some calls wait, once it is told so, until they are let go.
type held struct {
	backend.Store
	// gets and puts begin the keys that wait to be returned, and to be written; what
	// never begins is left to others.
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

// A run that waits looks whether the one before it has ended, and that ends while it
// looks. It does not take the place before anybody has taken in how the other one
// ended, which may be to be taken back.
func TestAWaitingRunDoesNotOvertakeHowTheOneBeforeItEnded(t *testing.T) {
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
		spec.Strategy.Stages[2].Before = []stages.Task{{Type: stages.TimedWait, Wait: time.Hour}}
		create(t, one, spec)
		synctest.Wait()
		stopTwo := running(t, two)
		defer stopTwo()
		create(t, two, inAll("waits"))
		time.Sleep(time.Minute)

		waits.on.Store(true)
		<-waits.waits // the waiting run has read that r1 goes on
		drives.on.Store(true)
		must(one.Rollback(t.Context(), "r1", fleet.RollbackOptions{Name: "undo", By: approval.Identity{Name: "ann"}}))(t)
		<-drives.waits // r1 has ended, and its engine is about to take that in
		waits.on.Store(false)
		close(waits.let)
		synctest.Wait()
		drives.on.Store(false)
		close(drives.let)

		if s := endOf(t, one, "waits"); s.Run.State != stages.Superseded {
			b, err := one.RollbackOf(t.Context(), "r1")
			t.Errorf("waits is %s; r1: %+v, %v", s.Run.State, b, err)
		}
		if s := endOfRollback(t, one, "r1"); s.Run.State != stages.Completed {
			t.Errorf("undo is %s: %s", s.Run.State, s.Run.Reason)
		}
		wantValues(t, w, everywhere("v0"))
	})
}
