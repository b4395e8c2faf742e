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

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// cleanUp collects the placement four times: the first three collections mark the data of lost
// runs, delete it, and then delete its intents; the last one is for shared data.
func (w *engineEnv) cleanUp(e *fleet.Engine) {
	w.t.Helper()
	for i := range 4 {
		spec := fleet.RunSpec{Name: fmt.Sprint("clean-up-", i), Placement: ep, Strategy: oneStage(), Hold: true}
		must(e.CreateRun(w.t.Context(), spec))(w.t)
		if err := e.Run(spec.Name).Delete(w.t.Context(), forced); err != nil {
			w.t.Fatal(err)
		}
	}
}

// orphans returns the keys that belong to no run of the placement: plans, records and pages of
// runs, except the intents of the last runs.
func (w *engineEnv) orphans(e *fleet.Engine) (out []string) {
	w.t.Helper()
	used := map[string]bool{}
	for _, run := range must(e.Placement(ep).RunNames(w.t.Context()))(w.t) {
		s := must(e.Run(run).Status(w.t.Context()))(w.t)
		used[run], used[s.Run.UID], used[s.Run.Plan] = true, true, true
	}
	for _, prefix := range []string{"plan/", "run/", "inflight/", "command/", "journal/", "intent/"} {
		for _, key := range w.keys(prefix) {
			owner := strings.Split(key, "/")[1]
			if prefix == "intent/" {
				owner = strings.Split(key, "/")[2]
			}
			if !used[owner] && owner != "placement."+ep {
				out = append(out, key)
			}
		}
	}
	return slices.DeleteFunc(out, func(key string) bool { return strings.HasPrefix(key, "intent/") && w.begunByCleanUp(key) })
}

// begunByCleanUp reports whether the collections themselves left a record.
func (w *engineEnv) begunByCleanUp(key string) bool {
	return strings.Contains(dump(w.t, w.store)[key], `"run":"clean-up-`)
}

// overridden returns a placement with a snapshot and an override, so that a run brings its own
// contents.
func overridden(t *testing.T) (*engineEnv, *fleet.Engine) {
	w, e := declared(t, func(p *fleet.Placement) {
		p.HistoryLimit, p.RunHistory = 1, 2
		p.Overrides = []placement.Override{replaceFor("canary", "canary")}
	})
	w.capture(e, "v0")
	return w, e
}

// If a creation crashes at any of its writes, the following collections find its remains: plans
// without a run, contents and intents. A recorded run is admitted and carried out.
func TestAPlanOfACreationThatWasCutShortIsCollected(t *testing.T) {
	for _, mode := range []func(int) faulty.Rule{crashBeforeWrite, faulty.CrashAfter} {
		for n := 1; ; n += apart(3) {
			crashed := false
			synctest.Test(t, func(t *testing.T) {
				w, e := overridden(t)
				w.cleanUp(e)
				plan := faulty.NewPlan(mode(n))
				_, died := w.engine(plan.Store(w.store), "dies").CreateRun(t.Context(), specOf("r", 0))
				crashed = plan.Crashed()
				stop := running(t, e)
				time.Sleep(time.Minute)
				stop()
				w.cleanUp(e)
				if left := w.orphans(e); len(left) > 0 {
					t.Errorf("crash at write %d (%v) leaves %v", n, died, left)
				}
				if s, err := e.Run("r").Status(t.Context()); err == nil && s.Run.State != stages.Completed {
					t.Errorf("crash at write %d: the run is %s", n, s.Run.State)
				} else if err != nil && died == nil {
					t.Errorf("crash at write %d: the run was created, and is not there: %v", n, err)
				}
				wantWhole(t, e, ep)
			})
			if !crashed {
				t.Logf("fewer than %d writes", n)
				break
			}
		}
	}
}

func crashBeforeWrite(n int) faulty.Rule { return faulty.NthWrite(n, faulty.Fault{Crash: true}) }

// Others collect at any moment during a creation, and a crash may interrupt it at any later write.
// It leaves either a run that is carried out, or nothing: never a run that no engine can drive. If
// a caller learned that the run exists, it finds the run.
func TestACreationSurvivesCollectionsOrIsReverted(t *testing.T) {
	for _, cut := range []int{0, 1, 2, 3} {
		for n := 1 + cut%apart(3); ; n += apart(3) {
			calls := 0
			synctest.Test(t, func(t *testing.T) {
				w, e := overridden(t)
				after := 0
				plan := faulty.NewPlan(func(c faulty.Call) faulty.Fault {
					if calls >= n && (c.Op == "put" || c.Op == "delete") {
						after++
					}
					return faulty.Fault{Crash: cut > 0 && after == cut}
				})
				hooked := &hookedStore{plan.Store(w.store), func(string, string) {
					if calls++; calls == n {
						w.capture(e, "v1")
						w.holds("v0")
					}
					if calls == n && cut == 0 {
						w.capture(e, "v0")
						w.cleanUp(e)
					}
				}}
				_, err := w.engine(hooked, "two").CreateRun(t.Context(), fleet.RunSpec{Name: "r", Placement: ep, Strategy: oneStage()})
				stop := running(t, e)
				time.Sleep(time.Hour)
				stop()
				s, serr := e.Run("r").Status(t.Context())
				if err == nil && serr != nil || serr == nil && s.Run.State != stages.Completed {
					t.Errorf("creation: %v; the run: %v, %s", err, serr, s.Run.State)
				}
				w.cleanUp(e)
				if left := w.orphans(e); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			})
			if t.Failed() {
				t.Fatalf("when it happened before call %d, and the creation was cut at write %d after that", n, cut)
			}
			if calls < n {
				t.Logf("%d calls", calls)
				break
			}
		}
	}
}

// A process recorded a run and died before the run was admitted. The engine that finds the run
// carries it out, although other runs with the same plan and contents were deleted since.
func TestRunRecordedBeforeACrashKeepsItsContents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := overridden(t)
		if _, err := w.dyingAtAdmission().CreateRun(t.Context(), specOf("r", 0)); err == nil {
			t.Fatal("the creation was not cut short")
		}
		w.cleanUp(e)
		defer running(t, e)()
		if s := endOf(t, e, "r"); s.Run.State != stages.Completed {
			t.Errorf("the run is %s", s.Run.State)
		}
		if got := w.value("member1"); got != "canary" {
			t.Errorf("member1 holds %s", got)
		}
	})
}

// dyingAtAdmission returns an engine that dies when it admits a run.
func (w *engineEnv) dyingAtAdmission() *fleet.Engine {
	plan := faulty.NewPlan(func(c faulty.Call) faulty.Fault {
		return faulty.Fault{Crash: c.Op == "put" && c.Key == "placement/"+ep}
	})
	return w.engine(plan.Store(w.store), "dies")
}

// An engine that was paused writes late data of a run that was deleted. The following collections
// find the data.
func TestALatePageOfADeletedRunIsCollected(t *testing.T) {
	w, e := overridden(t)
	held := specOf("held", 0)
	held.Hold = true
	uid := must(e.CreateRun(t.Context(), held))(t).Run.UID
	if err := e.Run("held").Delete(t.Context(), forced); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"inflight/" + uid + "/1-2-3-0", "journal/" + uid + "/0-late", "command/" + uid + "/late"} {
		must(w.store.Put(t.Context(), key, []byte("late"), ""))(t)
	}
	w.cleanUp(e)
	if left := w.orphans(e); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Pages of the placement that no record names are collected. If they belong to a commit in
// progress, that commit is refused and made again.
func TestUnreferencedPlacementPagesAreCollected(t *testing.T) {
	w, e := overridden(t)
	for i := range 30 {
		w.capture(e, fmt.Sprint("v", i))
	}
	strays := []string{"journal/placement." + ep + "/0-stray", "journal/placement." + ep + "/30-stray", "bindings/" + ep + "/0-stray-0", "bindings/" + ep + "/9-stray-0"}
	for _, key := range strays {
		must(w.store.Put(t.Context(), key, []byte("stray"), ""))(t)
	}
	before, _ := collected(t, e, ep, "", -1)
	w.cleanUp(e)
	for _, key := range w.keys("") {
		if slices.Contains(strays, key) {
			t.Errorf("%s is left", key)
		}
	}
	after, _ := collected(t, e, ep, "", -1)
	if d := cmp.Diff(before, after[:len(before)]); d != "" {
		t.Errorf("events before and after:\n%s", d)
	}
}

// A run that is deleted at any moment of its creation is not listed among the runs of the placement
// without a record.
func TestARunThatIsDeletedWhileItIsCreated(t *testing.T) {
	meanwhile(t, func() (func(backend.Store), backend.Store, func(), func()) {
		w, e := overridden(t)
		var created error
		do := func(s backend.Store) { _, created = w.engine(s, "two").CreateRun(t.Context(), specOf("mine", 0)) }
		other := func() {
			if err := e.Run("mine").Delete(t.Context(), forced); err != nil && !errors.Is(err, backend.ErrNotFound) {
				t.Error(err)
			}
		}
		return do, w.store, other, func() {
			runs := must(e.Placement(ep).RunNames(t.Context()))(t)
			if there := len(w.keys("run/")); there != len(runs) {
				t.Errorf("the placement has %v, and %d of them are there; creation: %v", runs, there, created)
			}
			if created != nil && !errors.Is(created, backend.ErrConflict) {
				t.Errorf("creation: %v, want that it is to be tried again", created)
			}
		}
	})
}
