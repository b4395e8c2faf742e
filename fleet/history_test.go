package fleet_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// ranBig runs many clusters, whose events fill many pages.
func ranBig(t *testing.T) *engineEnv {
	w, e := declared(t, nil)
	for i := range 100 {
		w.fleet.Add(placement.Cluster{Name: fmt.Sprintf("c%03d", i)})
	}
	w.capture(e, "v0")
	must(e.CreateRun(t.Context(), specOf("big", 0)))(t)
	stop := running(t, e)
	defer stop()
	endOf(t, e, "big")
	return w
}

// The history of a run equals the events of a follower, from any event on, and another process
// reads the same.
func TestTheHistoryOfARunHasTheEventsOfItsFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := ranBig(t)
		e := w.engine(w.store, "two")
		want := ofRun(w.past(1000), "big")
		for _, after := range []int{0, 1, len(want) / 2, len(want) - 1, len(want)} {
			h := must(e.Run("big").History(t.Context(), int64(after)))(t)
			if d := cmp.Diff(want[after:], ofRun(h.Events, "big"), cmp.Transformer("none", func(s []string) []string { return append([]string{}, s...) })); d != "" {
				t.Errorf("from %d (-followed +history):\n%s", after, d)
			}
			if h.After != int64(after) || h.Next != int64(len(want)) || h.UID != must(e.Run("big").Status(t.Context()))(t).Run.UID {
				t.Errorf("from %d: %d to %d of %s", after, h.After, h.Next, h.UID)
			}
		}
	})
}

// A history that is read in parts during the run is complete and has each event once.
func TestAHistoryGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		w.capture(e, "v0")
		must(e.CreateRun(t.Context(), specOf("r", 0)))(t)
		stop := running(t, e)
		var got []stages.Event
		for next := int64(0); ; time.Sleep(50 * time.Millisecond) {
			h := must(e.Run("r").History(t.Context(), next))(t)
			got, next = append(got, h.Events...), h.Next
			if len(got) > 0 && got[len(got)-1].Type == stages.RunCompleted {
				break
			}
		}
		stop()
		if d := cmp.Diff(ofRun(w.past(1000), "r"), ofRun(got, "r")); d != "" {
			t.Errorf("(-followed +in parts):\n%s", d)
		}
	})
}

// A history reads only new data: the record alone if there is nothing new, and one more page for
// the last events of a long run.
func TestHistoryReadsOnlyNewPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := ranBig(t)
		log := &logStore{Store: w.store}
		e := w.engine(log.hooked(), "counted")
		all := must(e.Run("big").History(t.Context(), 0))(t)
		if whole := log.count("get "); whole < 10 {
			t.Fatalf("the journal has %d pages only: it proves nothing", whole)
		}
		for after, most := range map[int64]int{all.Next: 1, all.Next - 1: 2} {
			must(e.Run("big").History(t.Context(), after))(t)
			if n := log.count(""); n > most {
				t.Errorf("from %d of %d: %d calls to the store, at most %d are needed", after, all.Next, n, most)
			}
		}
	})
}

// An impossible event number is refused, and so is a missing run.
func TestAHistoryKnowsItsNumbers(t *testing.T) {
	w, e := declared(t, nil)
	w.capture(e, "v0")
	must(e.CreateRun(t.Context(), specOf("r", 0)))(t)
	for _, after := range []int64{-1, 1000} {
		if h, err := e.Run("r").History(t.Context(), after); !errors.Is(err, backend.ErrPermanent) || errors.Is(err, backend.ErrNotFound) {
			t.Errorf("from %d: %+v, %v", after, h, err)
		}
	}
	if _, err := e.Run("none").History(t.Context(), 0); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("of no run: %v", err)
	}
	if _, err := e.Placement("none").History(t.Context(), 0); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("of no placement: %v", err)
	}
}

// The history of a placement reports forgotten events, and continues with the kept ones.
func TestTheHistoryOfAPlacementIsTrimmed(t *testing.T) {
	w, e := declared(t, func(p *fleet.Placement) { p.HistoryLimit, p.RunHistory = 1, 1 })
	for i := range 200 {
		w.captureAndForget(e, i)
	}
	h, err := e.Placement(ep).History(t.Context(), 0)
	missed := (*fleet.MissedError)(nil)
	if !errors.As(err, &missed) || missed.Placement != ep || missed.Events != h.After || h.After == 0 {
		t.Fatalf("from %d: %v", h.After, err)
	}
	again := must(e.Placement(ep).History(t.Context(), h.After))(t)
	if d := cmp.Diff(h, again); d != "" || int64(len(h.Events)) != h.Next-h.After {
		t.Errorf("%d events from %d to %d; asked for from there:\n%s", len(h.Events), h.After, h.Next, d)
	}
	if last := h.Events[len(h.Events)-1]; last.Type != stages.RunDeleted && last.Type != stages.SnapshotTaken {
		t.Errorf("the last event is %s", last.Type)
	}
}

// The error of a missing page differs from the error of a missing run.
func TestAHistoryWithoutItsPagesIsDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := ranBig(t)
		for _, key := range w.keys("journal/") {
			if !strings.Contains(key, "placement.") {
				rec := must(w.store.Get(t.Context(), key))(t)
				if err := w.store.Delete(t.Context(), key, rec.Revision); err != nil {
					t.Fatal(err)
				}
			}
		}
		_, err := w.engine(w.store, "two").Run("big").History(t.Context(), 0)
		if !errors.Is(err, backend.ErrPermanent) || errors.Is(err, backend.ErrNotFound) {
			t.Errorf("%v", err)
		}
	})
}
