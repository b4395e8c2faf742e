package fleet_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
)

// trimming returns a placement whose events are trimmed again and again.
func trimming(t *testing.T, runs int) (*engineEnv, *fleet.Engine) {
	w, e := overridden(t)
	for i := range runs {
		w.captureAndForget(e, i)
	}
	return w, e
}

func (w *engineEnv) captureAndForget(e *fleet.Engine, i int) {
	w.t.Helper()
	w.capture(e, fmt.Sprint("v", i+1))
	spec := fleet.RunSpec{Name: fmt.Sprint("r", i), Placement: ep, Strategy: oneStage(), Hold: true}
	must(e.CreateRun(w.t.Context(), spec))(w.t)
	if err := e.Run(spec.Name).Delete(w.t.Context(), forced); err != nil {
		w.t.Fatal(err)
	}
}

// The number of a placement's events is bounded for any number of runs: at least the last 64 are
// kept, and at most about twice that number.
func TestThePlacementsJournalIsTrimmed(t *testing.T) {
	w, e := trimming(t, 20)
	short := len(strings.Join(w.keys("journal/"), ""))
	f := must(e.Follow(""))(t)
	for range f.Past(t.Context()) {
	}
	for i := 20; i < 150; i++ {
		w.captureAndForget(e, i)
		for _, err := range f.Past(t.Context()) {
			if err != nil {
				t.Fatalf("a follower that keeps up is told: %v", err)
			}
		}
		all, _ := collected(t, e, "", "", -1)
		if len(all) < 64 || len(all) > 2*64+8 {
			t.Fatalf("%d events are kept after %d runs", len(all), i)
		}
	}
	if now := len(strings.Join(w.keys("journal/"), "")); now > 3*short {
		t.Errorf("pages: %v", w.keys("journal/"))
	}
}

// After the journal was trimmed, a follower from every cursor reads exactly the remaining events.
// If events are missing, it reports their number and reads the kept ones.
func TestFollowFromATrimmedCursor(t *testing.T) {
	w, e := trimming(t, 20)
	var all []string
	cursors := []string{}
	for f := must(e.Placement(ep).Follow(""))(t); ; {
		n := len(all)
		for ev, err := range f.Past(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, line(ev)+" "+ev.Placement)
			break
		}
		if len(all) == n {
			break
		}
		cursors = append(cursors, f.Cursor())
	}
	for i := 20; i < 50; i++ {
		w.captureAndForget(e, i)
	}
	kept, _ := collected(t, e, ep, "", -1)
	total := 1 + 3*50 + decisionsIn(all)
	for n, cursor := range cursors {
		read, missed := readOn(t, e, cursor)
		if want := max(0, total-len(kept)-(n+1)); missed != int64(want) {
			t.Errorf("after %d events %d are missed, want %d", n+1, missed, want)
		}
		if want := kept[max(0, n+1-(total-len(kept))):]; !slices.Equal(read, want) {
			t.Errorf("after %d events of %d with %d kept, %d are read, want %d", n+1, total, len(kept), len(read), len(want))
		}
	}
}

func decisionsIn(all []string) (n int) {
	for _, l := range all {
		if strings.Contains(l, " SelectionChanged ") {
			n++
		}
	}
	return n
}

// readOn returns the events after a cursor and the reported number of missed events. It checks that
// nothing is delivered twice.
func readOn(t *testing.T, e *fleet.Engine, cursor string) (read []string, missed int64) {
	t.Helper()
	f := must(e.Placement(ep).Follow(cursor))(t)
	for range 2 {
		for ev, err := range f.Past(t.Context()) {
			var miss *fleet.MissedError
			switch {
			case errors.As(err, &miss) && miss.Placement == ep:
				missed += miss.Events
			case err != nil:
				t.Fatal(err)
			default:
				read = append(read, line(ev)+" "+ev.Placement)
			}
		}
	}
	return read, missed
}

// A follower that stops at the report of missed events continues behind it.
func TestAMissIsReportedOnceAcrossCursors(t *testing.T) {
	w, e := trimming(t, 1)
	_, cursor := collected(t, e, ep, "", 1)
	for i := 1; i < 60; i++ {
		w.captureAndForget(e, i)
	}
	f := must(e.Placement(ep).Follow(cursor))(t)
	for _, err := range f.Past(t.Context()) {
		if !errors.As(err, new(*fleet.MissedError)) {
			t.Fatalf("want a MissedError first, have %v", err)
		}
		break
	}
	if _, missed := readOn(t, e, f.Cursor()); missed != 0 {
		t.Errorf("%d events are missed again", missed)
	}
}

// A crash before or after any write of a collection leaves all events readable that the placement's
// record commits. The next collection completes the work.
func TestACrashWhileAJournalIsTrimmed(t *testing.T) {
	first, e := trimming(t, 41)
	events, _ := collected(t, e, "", "", -1)
	for n := 1; ; n += 3 * apart(3) {
		w := first.clone()
		plan := faulty.NewPlan(faulty.CrashAfter(n))
		dying, e := w.engine(plan.Store(w.store), "dies"), w.engine(w.store, "lives")
		for i := 41; i < 46 && !plan.Crashed(); i++ {
			w.holds(fmt.Sprint("v", i))
			_, _ = dying.Placement(ep).Capture(t.Context())
			_, _ = dying.CreateRun(t.Context(), fleet.RunSpec{Name: fmt.Sprint("d", i), Placement: ep, Strategy: oneStage(), Hold: true})
			_ = dying.Run(fmt.Sprint("d", i)).Delete(t.Context(), forced)
		}
		if all, _ := collected(t, e, "", "", -1); len(all) < 64 || len(all) > len(events)+15 {
			t.Errorf("crash after write %d: %d events", n, len(all))
		}
		w.cleanUp(e)
		if pages := w.keys("journal/placement."); len(pages) > 18 {
			t.Errorf("crash after write %d: %d pages are left", n, len(pages))
		}
		if t.Failed() || !plan.Crashed() {
			t.Logf("%d events, %d writes", len(events), n)
			return
		}
	}
}

// clone returns an environment with the same records.
func (w *engineEnv) clone() *engineEnv {
	out := *w
	s := memory.NewStore()
	for key, value := range dump(w.t, w.store) {
		must(s.Put(w.t.Context(), key, []byte(value), ""))(w.t)
	}
	out.store = s
	return &out
}

// A follower that reads at any moment while the journal is trimmed delivers every event once.
func TestFollowWhileAJournalIsTrimmed(t *testing.T) {
	meanwhile(t, func() (func(backend.Store), backend.Store, func(), func()) {
		w, e := trimming(t, 20)
		var read int
		do := func(s backend.Store) {
			f := must(w.engine(s, "follows").Placement(ep).Follow(""))(t)
			for range 2 {
				for _, err := range f.Past(t.Context()) {
					if errors.As(err, new(*fleet.MissedError)) {
						t.Errorf("of what it was reading, it is told: %v", err)
					} else if err != nil {
						t.Error(err)
					}
					read++
				}
			}
		}
		other := func() {
			for i := 20; i < 46; i++ {
				w.captureAndForget(e, i)
			}
		}
		return do, w.store, other, func() {
			if read < 64 {
				t.Errorf("%d events", read)
			}
		}
	})
}

// A follower that reads at any moment while the journal is only trimmed continues as if the trimmed
// events had never existed.
func TestFollowWhileAJournalIsOnlyTrimmed(t *testing.T) {
	first, e := overridden(t)
	historyOf(t, e, 40)
	for i := range 50 {
		first.captureAndForget(e, i)
	}
	meanwhile(t, func() (func(backend.Store), backend.Store, func(), func()) {
		w := first.clone()
		e := w.engine(w.store, "one")
		if _, err := w.dyingAtAdmission().CreateRun(t.Context(), specOf("unadmitted", 50)); err == nil {
			t.Fatal("the creation was not cut short")
		}
		historyOf(t, e, 1)
		all, _ := collected(t, e, ep, "", -1)
		read := 0
		do := func(s backend.Store) {
			f := must(w.engine(s, "follows").Placement(ep).Follow(""))(t)
			for range 2 {
				for _, err := range f.Past(t.Context()) {
					if err != nil {
						t.Error(err)
					}
					read++
				}
			}
		}
		other := func() {
			if err := e.Run("unadmitted").Delete(t.Context(), forced); err != nil {
				t.Error(err)
			}
		}
		return do, w.store, other, func() {
			if now, _ := collected(t, e, ep, "", -1); len(now) >= len(all) || read < len(now) {
				t.Errorf("%d events are kept of %d, %d were read", len(now), len(all), read)
			}
		}
	})
}

// historyOf changes the number of runs to keep.
func historyOf(t *testing.T, e *fleet.Engine, runs int) {
	t.Helper()
	p := must(e.Placement(ep).Get(t.Context()))(t)
	p.RunHistory = runs
	if err := e.PutPlacement(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}
