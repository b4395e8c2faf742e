package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// specOf returns a run of the snapshot with this index, by the strategy oneStage.
func specOf(name string, index int) fleet.RunSpec {
	return fleet.RunSpec{Name: name, Placement: ep, Index: &index, Strategy: oneStage()}
}

// endOf waits for the end of a run, for a day at most.
func endOf(t *testing.T, e *fleet.Engine, run string) fleet.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	defer cancel()
	s, err := e.Run(run).Wait(ctx)
	if err != nil {
		now, _ := e.Run(run).Status(t.Context())
		t.Fatalf("run %s has not ended: %v: it is %s, %+v", run, err, now.Run.State, now.Run.Form(runstate.Key{}).InFlight)
	}
	return s
}

// ranTo creates a run and waits for its end.
func ranTo(t *testing.T, e *fleet.Engine, spec fleet.RunSpec, want stages.State) {
	t.Helper()
	must(e.CreateRun(t.Context(), spec))(t)
	if s := endOf(t, e, spec.Name); s.Run.State != want {
		t.Fatalf("run %s is %s, want %s", spec.Name, s.Run.State, want)
	}
}

// The default keeps ten snapshots.
func TestTenSnapshotsAreKept(t *testing.T) {
	w, e := declared(t, nil)
	for i := range 15 {
		w.capture(e, fmt.Sprint(i))
	}
	wantIndexes(t, e, ep, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
	// Ten ConfigMaps, their pages and roots, and the namespace.
	if keys := w.keys("content/"); len(keys) != 31 {
		t.Errorf("%d contents are stored, want 31: what was dropped is not gone", len(keys))
	}
}

// The history limit never drops a snapshot that a run, a cluster or a rollback needs. Unneeded
// snapshots are deleted from the store.
func TestHistoryLimitKeepsReferencedSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) { p.HistoryLimit = 3 })
		defer running(t, e)()
		ctx := t.Context()
		for i := range 3 {
			w.capture(e, fmt.Sprint("v", i))
		}
		ranTo(t, e, specOf("whole-1", 1), stages.Completed)
		ranTo(t, e, specOf("whole-2", 2), stages.Completed) // a rollback restores snapshot 1
		for i := 3; i < 8; i++ {
			w.capture(e, fmt.Sprint("v", i))
		}
		wantIndexes(t, e, ep, 1, 2, 5, 6, 7)

		held := specOf("held", 5)
		held.Hold = true
		must(e.CreateRun(ctx, held))(t)
		failing := specOf("failing", 6)
		failing.Strategy.Profile = stages.ClusterUpdate
		w.fleet.Cluster("member2").Refuse(func(*unstructured.Unstructured) error { return errStoreDown })
		ranTo(t, e, failing, stages.Failed) // member1 has snapshot 6 at this point
		w.fleet.Cluster("member2").Refuse(nil)
		w.fleet.Hang("member3", true)
		must(e.CreateRun(ctx, specOf("active", 7)))(t)
		quiet()
		for i := 8; i < 15; i++ {
			w.capture(e, fmt.Sprint("v", i))
		}
		queued := specOf("queued", 12)
		must(e.CreateRun(ctx, queued))(t)
		for i := 15; i < 20; i++ {
			w.capture(e, fmt.Sprint("v", i))
		}
		wantIndexes(t, e, ep, 1, 2, 5, 6, 7, 12, 17, 18, 19)

		// A dropped snapshot is gone: a run of it is refused with the list of existing ones.
		quiet()
		refused(t, w.store, "index 4", func() error { _, err := e.CreateRun(ctx, specOf("late", 4)); return err },
			"snapshot example-placement-4-snapshot does not exist", "indexes 1, 2, 5, 6, 7, 12, 17, 18, 19")

		w.fleet.Hang("member3", false)
		if s := endOf(t, e, "queued"); s.Run.State != stages.Completed {
			t.Fatalf("queued is %s", s.Run.State)
		}
		w.capture(e, "v20")
		wantIndexes(t, e, ep, 5, 6, 7, 12, 18, 19, 20) // failing may be started again
		for _, run := range []string{"held", "failing"} {
			if err := e.Run(run).Delete(ctx, forced); err != nil {
				t.Fatal(err)
			}
		}
		// All clusters have 12 now, and came from 7.
		wantIndexes(t, e, ep, 7, 12, 18, 19, 20)
		if keys := w.keys("content/"); len(keys) != 5*3+1 {
			t.Errorf("%d contents are stored, want %d: what was dropped is not gone", len(keys), 5*3+1)
		}
	})
}

// A run that captures content beyond the history limit deletes nothing before its creation ends,
// and stores its plan once. The end of the run deletes the contents beyond the limit. CreateRun
// returns the stored status.
func TestARunLeavesTheCollectionToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		s := &operationStore{Store: w.store}
		e := w.newEngine(fleet.Config{Store: s, Name: "e"})
		p := tutorialPlacement()
		p.HistoryLimit = 3
		must(0, e.PutPlacement(t.Context(), p))(t)
		defer running(t, e)()
		for i := range 3 {
			w.capture(e, fmt.Sprint("v", i))
		}
		time.Sleep(time.Minute)
		w.holds("v3")
		s.taken()
		spec := fleet.RunSpec{Name: "run", Placement: ep, Strategy: oneStage(), Hold: true}
		created := must(e.CreateRun(t.Context(), spec))(t)
		plans := 0
		for _, call := range s.taken() {
			if strings.Contains(call, "delete") || strings.HasPrefix(call, "list content/") {
				t.Errorf("the creation of a run collects: %s", call)
			}
			if strings.HasPrefix(call, "put") && strings.HasSuffix(call, " plan/"+created.Plan.Digest) {
				plans++
			}
		}
		if plans != 1 {
			t.Errorf("the plan is stored %d times", plans)
		}
		wantIndexes(t, e, ep, 0, 1, 2, 3)
		if now := must(e.Run("run").Status(t.Context()))(t); created.Selection != now.Selection || !reflect.DeepEqual(created.Apply, now.Apply) ||
			created.AllowCoOwnership != now.AllowCoOwnership || created.Owner != now.Owner || created.Run.UID != now.Run.UID {
			t.Errorf("CreateRun returns %+v, stored is %+v", created, now)
		}
		must(0, e.Run("run").Command(t.Context(), stages.Command{ID: "start", Verb: stages.Start}))(t)
		endOf(t, e, "run")
		quiet()
		wantIndexes(t, e, ep, 1, 2, 3)
		if keys := w.keys("content/"); len(keys) != 3*3+1 {
			t.Errorf("%d contents are stored, want %d: what was dropped is not gone", len(keys), 3*3+1)
		}
	})
}

// The snapshot that a run brought to some clusters is kept, whatever the fate of the run, until a
// later run has reached all clusters.
func TestSnapshotsOnClustersAreKept(t *testing.T) {
	remove := func(t *testing.T, _ *engineEnv, e *fleet.Engine) {
		if err := e.Run("partial").Delete(t.Context(), forced); err != nil {
			t.Fatal(err)
		}
	}
	for what, end := range map[string]func(*testing.T, *engineEnv, *fleet.Engine){
		"aborted": func(t *testing.T, _ *engineEnv, e *fleet.Engine) {
			command(t, e, "partial", stages.Abort)
			endOf(t, e, "partial")
		},
		"deleted": remove,
		"deleted with a damaged plan": func(t *testing.T, w *engineEnv, e *fleet.Engine) {
			for _, key := range w.keys("plan/") {
				edit(t, w.store, key, damage)
			}
			remove(t, w, w.engine(w.store, "fresh"))
		},
		"gone when the next run comes": func(t *testing.T, w *engineEnv, e *fleet.Engine) {
			rec := must(w.store.Get(t.Context(), "run/partial"))(t)
			if err := w.store.Delete(t.Context(), rec.Key, rec.Revision); err != nil {
				t.Fatal(err)
			}
			next := specOf("next", 0)
			next.Hold = true
			create(t, e, next)
			if err := e.Run("next").Delete(t.Context(), forced); err != nil {
				t.Fatal(err)
			}
		},
		"deleted with a damaged roster": func(t *testing.T, w *engineEnv, e *fleet.Engine) {
			key := w.keys("bindings/")[0]
			edit(t, w.store, key, damage)
			remove(t, w, e)
			edit(t, w.store, key, damage)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, e := declared(t, func(p *fleet.Placement) { p.HistoryLimit, p.RunHistory = 1, 1 })
			defer running(t, e)()
			w.crowd()
			w.capture(e, "v0")
			w.fleet.Hang("member2", true)
			create(t, e, specOf("partial", 0))
			time.Sleep(time.Second)
			if got := w.value("member1"); got != "v0" {
				t.Fatalf("member1 holds %s", got)
			}
			end(t, w, e)
			for i := range 3 {
				w.capture(e, fmt.Sprint("v", i+1))
			}
			wantIndexes(t, e, ep, 0, 3)
			w.fleet.Hang("member2", false)
			time.Sleep(time.Minute)
			ranTo(t, e, specOf("whole", 3), stages.Completed)
			quiet()
			if wantIndexes(t, e, ep, 3); t.Failed() {
				t.Fatal(what)
			}
		})
	}
}

// Ended runs beyond the limit are forgotten with all their stored data, in the order of their ends.
// The content of clusters is still known.
func TestRunHistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) { p.RunHistory, p.HistoryLimit = 3, 1 })
		defer running(t, e)()
		first := w.capture(e, "v0")
		held := specOf("held", first.Index)
		held.Hold = true
		must(e.CreateRun(t.Context(), held))(t)
		for i := range 8 {
			w.capture(e, fmt.Sprint("v", i+1))
			run := fmt.Sprintf("run-%d", i)
			ranTo(t, e, specOf(run, i+1), stages.Completed)
			// A page of its journal, as in a long run.
			uid := must(e.Run(run).Status(t.Context()))(t).Run.UID
			must(w.store.Put(t.Context(), "journal/"+uid+"/0-page", nil, ""))(t)
		}
		quiet()
		if got := must(e.Placement(ep).RunNames(t.Context()))(t); !slices.Equal(got, []string{"held", "run-5", "run-6", "run-7"}) {
			t.Errorf("runs that are kept: %v", got)
		}
		if n := len(w.keys("run/")); n != 4 {
			t.Errorf("%d records of runs, want 4: %v", n, w.keys("run/"))
		}
		if n := len(w.keys("plan/")); n != 8 {
			t.Errorf("%d records of plans, want 4 headers and 4 pages: %v", n, w.keys("plan/"))
		}
		streams := map[string]bool{}
		for _, key := range w.keys("journal/") {
			streams[strings.Split(key, "/")[1]] = true
		}
		delete(streams, "placement."+ep)
		if len(streams) != 3 { // the streams of the kept runs
			t.Errorf("journals of %v", streams)
		}
		w.tidy()
		wantIndexes(t, e, ep, 0, 7, 8)
		// The first run to be created is not the first to end.
		if err := e.Run("held").Command(t.Context(), stages.Command{Verb: stages.Abort}); err != nil {
			t.Fatal(err)
		}
		if s := endOf(t, e, "held"); s.Run.State != stages.Aborted {
			t.Errorf("held is %s", s.Run.State)
		}
		quiet()
		if got := must(e.Placement(ep).RunNames(t.Context()))(t); !slices.Equal(got, []string{"held", "run-6", "run-7"}) {
			t.Errorf("runs that are kept: %v", got)
		}
	})
}

// A cluster that leaves the placement is cleaned even if the run that brought its objects is
// forgotten.
func TestForgottenRunsAreCleanedUpAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) { p.RunHistory = 1 })
		defer running(t, e)()
		w.capture(e, "v0")
		ranTo(t, e, specOf("first", 0), stages.Completed)
		p := tutorialPlacement()
		p.RunHistory, p.Policy = 1, placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"member1", "member2"}}
		must(e.CreateRun(t.Context(), specOf("again", 0)))(t)
		endOf(t, e, "again")
		quiet()
		if err := e.PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if got := w.value("member3"); got != "v0" {
			t.Fatalf("member3 holds %s", got)
		}
		ranTo(t, e, specOf("clean", 0), stages.Completed)
		if got := w.value("member3"); !strings.Contains(got, "not found") {
			t.Errorf("member3 left the placement and holds %s", got)
		}
	})
}

// interleaved returns a placement with an override and two snapshots. The next capture drops the
// first snapshot.
func interleaved(t *testing.T) (*engineEnv, *fleet.Engine) {
	w, e := declared(t, func(p *fleet.Placement) {
		p.HistoryLimit = 1
		p.Overrides = []placement.Override{replaceFor("canary", "canary")}
	})
	w.capture(e, "old")
	w.capture(e, "new")
	return w, e
}

// Whatever happens at any moment while contents are deleted, needed contents exist afterwards: a
// capture may return to a content that is being dropped, and a run may share it.
func TestCollectionKeepsReferencedContents(t *testing.T) {
	for name, other := range map[string]func(*engineEnv, *fleet.Engine){
		"capture of old content": func(w *engineEnv, e *fleet.Engine) { w.capture(e, "old") },
		"two captures":           func(w *engineEnv, e *fleet.Engine) { w.capture(e, "old"); w.capture(e, "newer") },
		"three captures":         func(w *engineEnv, e *fleet.Engine) { w.capture(e, "a"); w.capture(e, "old"); w.capture(e, "new") },
		"run of old content": func(w *engineEnv, e *fleet.Engine) {
			w.holds("old")
			must(e.CreateRun(t.Context(), fleet.RunSpec{Name: "other", Placement: ep, Strategy: oneStage()}))(w.t)
		},
		"run that is deleted": func(w *engineEnv, e *fleet.Engine) {
			w.holds("old")
			must(e.CreateRun(t.Context(), fleet.RunSpec{Name: "other", Placement: ep, Strategy: oneStage()}))(w.t)
			if err := e.Run("other").Delete(t.Context(), forced); err != nil {
				w.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			meanwhile(t, func() (func(backend.Store), backend.Store, func(), func()) {
				w, e := interleaved(t)
				do := func(s backend.Store) {
					w.holds("third")
					if _, err := w.engine(s, "two").Placement(ep).Capture(t.Context()); err != nil {
						t.Error(err)
					}
				}
				return do, w.store, func() { other(w, e) }, func() { w.wantAll(e) }
			})
		})
	}
}

// The reverse of the previous test: a writer of contents is paused while other engines collect
// garbage.
func TestCollectionKeepsContentsBeingWritten(t *testing.T) {
	creations := map[string]func(*engineEnv, *fleet.Engine) error{
		"capture": func(w *engineEnv, e *fleet.Engine) error {
			w.holds("old")
			_, err := e.Placement(ep).Capture(w.t.Context())
			return err
		},
		"run of an index": func(w *engineEnv, e *fleet.Engine) error {
			_, err := e.CreateRun(w.t.Context(), specOf("mine", 1))
			return err
		},
		"run of what there is": func(w *engineEnv, e *fleet.Engine) error {
			w.holds("old")
			_, err := e.CreateRun(w.t.Context(), fleet.RunSpec{Name: "mine", Placement: ep, Strategy: oneStage()})
			return err
		},
	}
	others := map[string]func(*engineEnv, *fleet.Engine){
		"one capture": func(w *engineEnv, e *fleet.Engine) { w.capture(e, "third") },
		"captures":    func(w *engineEnv, e *fleet.Engine) { w.capture(e, "third"); w.capture(e, "old"); w.capture(e, "fifth") },
		"the same plan, deleted": func(w *engineEnv, e *fleet.Engine) {
			if _, err := e.CreateRun(w.t.Context(), specOf("other", 1)); err != nil && !errors.Is(err, backend.ErrNotFound) {
				w.t.Error(err)
			}
			if err := e.Run("other").Delete(w.t.Context(), forced); err != nil && !errors.Is(err, backend.ErrNotFound) {
				w.t.Error(err)
			}
		},
	}
	for what, create := range creations {
		for name, other := range others {
			t.Run(what+", "+name, func(t *testing.T) {
				meanwhile(t, func() (func(backend.Store), backend.Store, func(), func()) {
					w, e := interleaved(t)
					do := func(s backend.Store) {
						err := create(w, w.engine(s, "two"))
						if err != nil && !errors.Is(err, backend.ErrConflict) && !errors.Is(err, backend.ErrNotFound) {
							t.Error(err)
						}
						if _, serr := e.Run("mine").Status(t.Context()); (serr == nil) != (err == nil) && what != "capture" {
							t.Errorf("the run is there: %v, and its creation said %v", serr == nil, err)
						}
					}
					return do, w.store, func() { other(w, e) }, func() { w.wantAll(e) }
				})
			})
		}
	}
}

// wantAll checks that every snapshot is complete and that every existing run can be carried out.
func (w *engineEnv) wantAll(e *fleet.Engine) {
	w.t.Helper()
	wantWhole(w.t, e, ep)
	runs := must(e.Placement(ep).RunNames(w.t.Context()))(w.t)
	if len(runs) == 0 || w.t.Failed() {
		return
	}
	t := w.t
	synctest.Test(t, func(t *testing.T) {
		fresh := w.engine(w.store, "three")
		defer running(t, fresh)()
		for _, run := range runs {
			if s := endOf(t, fresh, run); s.Run.State != stages.Completed {
				t.Errorf("run %s is %s", run, s.Run.State)
			}
		}
		if got := w.value("member1"); got != "canary" {
			t.Errorf("member1 holds %s", got)
		}
	})
}
