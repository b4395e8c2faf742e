package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/stages"
)

// deletionStory rolls out, begins another run, and deletes the placement while that run is
// unfinished. One cluster has a namespace of its own.
var deletionStory = crashScenario{
	placement: ep,
	build: func(t *testing.T) *engineEnv {
		w := newEngineEnv(t)
		if err := w.fleet.Cluster("member1").Update(namespace("test-namespace")); err != nil {
			t.Fatal(err)
		}
		return w
	},
	tell: func(h *host) {
		h.declare(tutorialPlacement())
		h.capture(ep, 0)
		h.create(fleet.RunSpec{Name: "first", Placement: ep, Strategy: oneStage()})
		h.feed.end("first")
		h.put("value2")
		h.create(fleet.RunSpec{Name: "second", Placement: ep, Strategy: tutorialStrategy()})
		h.feed.of("second", stages.WaitStarted)
		h.do("DeletePlacement", func(ctx context.Context, e *fleet.Engine) error {
			return e.Placement(ep).Delete(ctx, fleet.DeleteOptions{By: "ann", Force: true})
		})
	},
}

// playDeletion runs the scenario of a deletion, with a failure of the kth write, and returns the
// number of writes.
func (s crashScenario) playDeletion(t *testing.T, k int, mode string) int {
	h := s.newHost(s.build(t), k, mode)
	before := h.objects()
	h.feed = h.follow(k%16 == 0)
	defer h.feed.stop()
	stop := h.live()
	s.tell(h)
	d := endOfDeletion(t, h.newEngine(fleet.Config{Name: "observer"}))
	settle()
	stop()
	if d.Clusters != 3 || d.Done != 3 || d.Skipped != 0 {
		t.Errorf("deletion %+v", d)
	}
	h.wantErased()
	h.wantDeleted("")
	after := h.objects()
	for name := range after {
		after[name] = without(after[name], "slipway-system")
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("members (-before +after):\n%s", diff)
	}
	return h.plan.Writes()
}

// Whichever way a write fails, before or during the deletion of a placement, all data is deleted,
// and one event reports it. After a crash another engine continues, which knows only the store.
func TestCrashAtEveryWriteOfADeletion(t *testing.T) {
	t.Parallel()
	var writes int
	synctest.Test(t, func(t *testing.T) { writes = deletionStory.playDeletion(t, 0, "") })
	t.Logf("%d writes", writes)
	for i, mode := range crashModes {
		ks := thinned(upTo(writes), i, deletionStory.every())
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			for _, k := range ks {
				synctest.Test(t, func(t *testing.T) {
					defer logCase(t, "%s write %d", mode, k)
					deletionStory.playDeletion(t, k, mode)
				})
				if t.Failed() {
					return
				}
			}
		})
	}
}

// A process is paused at any call of a run, and wakes after another process has deleted its
// placement. It places nothing. If it was creating a run, it deletes the records of that run. One
// write for each cluster is not fenced, because it was in transit: the creation of an object or a
// ledger.
func TestAProcessThatWakesAfterADeletionPlacesNothing(t *testing.T) {
	all, late := 0, 0
	for n := 1; ; n += apart(3) {
		held := false
		synctest.Test(t, func(t *testing.T) {
			defer logCase(t, "paused at call %d", n)
			created := 0
			created, held = pausedThroughADeletion(t, n)
			late += created
		})
		if t.Failed() || !held {
			t.Logf("%d calls, %d objects were created late", all, late)
			return
		}
		all++
	}
}

// pausedThroughADeletion pauses a process at its nth call until the placement is gone. It returns
// the number of objects that the process created late, and whether that call happened.
func pausedThroughADeletion(t *testing.T, n int) (late int, held bool) {
	w := newEngineEnv(t)
	p := newPause(n)
	first := w.newEngine(fleet.Config{Name: "first", Store: &pausedStore{w.store, p}, Dialer: p.dialer(w.fleet)})
	next := w.newEngine(fleet.Config{Name: "next"})
	w.declare(next, tutorialPlacement())
	w.capture(next, "v0")
	strategy := oneStage()
	strategy.Stages[0].MaxConcurrency = percent("100%")
	must(next.CreateRun(t.Context(), fleet.RunSpec{Name: "r", Placement: ep, Strategy: strategy}))(t)
	stopFirst := running(t, first)
	time.Sleep(30 * time.Second)
	defer running(t, next)()
	if d := deleteAndWait(t, next, fleet.DeleteOptions{Force: true}); d.Done != 3 {
		t.Errorf("deletion %+v", d)
	}
	quiet()
	select {
	case <-p.held:
		held = true
	default:
	}
	for key := range dump(t, w.store) {
		switch kind, _, _ := strings.Cut(key, "/"); {
		case kind == "deleted", kind == "engine":
		case held && (kind == "intent" || kind == "plan"): // until the process wakes, or the name is declared again
		default:
			t.Errorf("left in the store: %s", key)
		}
	}
	p.wake()
	time.Sleep(10 * time.Minute)
	stopFirst()
	for key := range dump(t, w.store) {
		switch kind, _, _ := strings.Cut(key, "/"); kind {
		case "deleted", "engine":
		case "bindings", "journal", "flight": // pages belong to no record, and may land late
		default:
			t.Errorf("left in the store: %s", key)
		}
	}
	for c := range w.fleet.Clusters(t.Context()) {
		of := 0
		for _, obj := range w.fleet.Cluster(c.Name).List("") {
			switch {
			case obj.GetNamespace() == "slipway-system", obj.GetName() == "test-namespace", obj.GetName() == "test-cm":
				of++
			}
		}
		if late += of; of > 1 {
			t.Errorf("%s has %d objects: %v", c.Name, of, w.objects()[c.Name])
		}
	}
	return late, held
}

// Two engines delete a placement together while runs are created: each run is refused or
// superseded, and leaves nothing.
func TestRunsThatAreCreatedDuringADeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := rolledOut(t, nil)
		defer stop()
		two := w.engine(w.store, "two")
		defer running(t, two)()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := 0; ; i++ {
				w.holds(fmt.Sprint("v", i))
				_, err := two.CreateRun(t.Context(), fleet.RunSpec{Name: fmt.Sprint("r", i), Placement: ep, Strategy: oneStage()})
				if errors.Is(err, backend.ErrNotFound) {
					return
				}
				if err != nil && !errors.Is(err, errdef.ErrDeleting) && !errors.Is(err, backend.ErrConflict) {
					t.Errorf("run %d: %v", i, err)
				}
				time.Sleep(3 * time.Millisecond)
			}
		}()
		time.Sleep(50 * time.Millisecond)
		if d := deleteAndWait(t, e, fleet.DeleteOptions{Force: true}); d.Done != 3 {
			t.Errorf("deletion %+v", d)
		}
		<-done
		time.Sleep(time.Minute)
		w.wantClean("member1", "member2", "member3")
		w.wantErased()
	})
}

// A run that is created at any moment of a deletion leaves no data, even if the deletion finds only
// a part of the run.
func TestADeletionAtAnyMomentOfARunsCreation(t *testing.T) {
	meanwhile(t, func() (func(backend.Store), backend.Store, func(), func()) {
		w, e := declared(t, nil)
		w.capture(e, "v0")
		do := func(s backend.Store) {
			_, err := w.engine(s, "other").CreateRun(t.Context(), specOf("r", 0))
			if err != nil && !errors.Is(err, errdef.ErrDeleting) && !errors.Is(err, backend.ErrNotFound) {
				t.Errorf("CreateRun: %v", err)
			}
		}
		other := func() {
			if err := e.Placement(ep).Delete(t.Context(), fleet.DeleteOptions{Force: true}); err != nil {
				t.Fatal(err)
			}
		}
		check := func() {
			synctest.Test(t, func(t *testing.T) {
				w := w.clone()
				e := w.engine(w.store, "lives")
				defer running(t, e)()
				endOfDeletion(t, e)
				time.Sleep(time.Minute)
				w.t = t
				w.wantErased()
			})
		}
		return do, w.store, other, check
	})
}

// A run is created for a placement that is deleted and declared again at any moment of the
// creation. The run does not belong to the new placement, unless it was made from it.
func TestARunBelongsToThePlacementItWasMadeFor(t *testing.T) {
	for n := 1; ; n++ {
		calls := 0
		synctest.Test(t, func(t *testing.T) {
			defer logCase(t, "before call %d", n)
			w, e := declared(t, nil)
			w.capture(e, "old")
			stop := running(t, e)
			defer stop()
			slow := w.engine(&hookedStore{w.store, func(string, string) {
				if calls++; calls == n {
					deleteAndWait(t, e, fleet.DeleteOptions{Force: true})
					time.Sleep(time.Minute)
					w.holds("new")
					w.declareAgain(e)
				}
			}}, "slow")
			s, err := slow.CreateRun(t.Context(), specOf("r", 0))
			if err == nil {
				s, err = e.Run("r").Wait(t.Context())
			}
			time.Sleep(time.Minute)
			v := w.value("member1")
			if old := v == "old" && calls >= n; old || err == nil && (s.Run.State != stages.Completed || v != "new" && v != "old") {
				t.Errorf("run %s, %v: member1 has %s", s.Run.State, err, v)
			}
			if left := w.orphans(e); len(left) > 0 && calls >= n && err != nil {
				t.Errorf("left in the store: %v", left)
			}
		})
		if t.Failed() || calls < n {
			t.Logf("%d calls", calls)
			return
		}
	}
}
