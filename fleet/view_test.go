package fleet_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// viewed is all that a view returns.
type viewed struct {
	Snapshots    []int
	Irreversible []int
	Items        int
	Objects      int
	Overrides    []string
	Selection    placement.Selection
	Placed       []fleet.PlacedCluster
}

func look(t *testing.T, v *fleet.PlacementView, index int) viewed {
	t.Helper()
	out := viewed{
		Irreversible: v.Irreversible(), Items: len(must(v.Items(t.Context(), index))(t)),
		Objects: len(must(v.Content(t.Context(), index))(t).Bodies), Selection: must(v.Selection(t.Context()))(t),
	}
	for _, s := range v.Snapshots() {
		out.Snapshots = append(out.Snapshots, s.Index)
	}
	for _, o := range must(v.Overrides(t.Context(), index))(t) {
		out.Overrides = append(out.Overrides, o.Name)
	}
	for c, err := range v.Placed(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		out.Placed = append(out.Placed, c)
	}
	return out
}

// A view is the same from every engine, and reads its record once.
func TestAViewIsOneMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) { p.Overrides = []placement.Override{replaceFor("canary", "x")} })
		defer running(t, e)()
		w.capture(e, "v0")
		ranTo(t, e, specOf("first", 0), stages.Completed)
		log := &logStore{Store: w.store}
		v := must(w.engine(log.hooked(), "looks").Placement(ep).View(t.Context()))(t)
		got := look(t, v, 0)
		if n := log.count("get placement/"); n != 1 {
			t.Errorf("the record is read %d times", n)
		}
		if d := cmp.Diff(look(t, viewOf(t, e, ep), 0), got); d != "" {
			t.Errorf("the view of one engine (-), of another (+):\n%s", d)
		}
		if len(got.Snapshots) != 1 || got.Items == 0 || got.Objects != got.Items || len(got.Overrides) != 1 || len(got.Selection.Clusters) != 3 || len(got.Placed) != 3 {
			t.Errorf("%+v, want one snapshot with an override on three clusters", got)
		}

		w.capture(e, "v1")
		if err := e.Placement(ep).SetIrreversible(t.Context(), 1, true, "ann"); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(got, look(t, v, 0)); d != "" {
			t.Errorf("what became of the placement since is in the view:\n%s", d)
		}
		v.Snapshots()[0].Index = 7
		if d := cmp.Diff(got, look(t, v, 0)); d != "" {
			t.Errorf("after a host changed what it got:\n%s", d)
		}
	})
}

// Data that a view names may be gone: the placement is then read again, and damaged data is
// reported.
func TestViewOfDeletedRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) { p.HistoryLimit = 1 })
		defer running(t, e)()
		w.crowd()
		w.capture(e, "v0")
		ranTo(t, e, specOf("first", 0), stages.Completed)
		v := must(e.Placement(ep).View(t.Context()))(t)
		before := w.keys("bindings/")
		w.capture(e, "v1")
		ranTo(t, e, specOf("second", 1), stages.Completed)
		w.capture(e, "v2")
		ranTo(t, e, specOf("third", 2), stages.Completed)
		if slices.ContainsFunc(before, func(key string) bool { return slices.Contains(w.keys("bindings/"), key) }) {
			t.Fatal("the roster that the view names is still there")
		}
		for c, err := range v.Placed(t.Context()) {
			if err != nil || c.Index != 2 {
				t.Errorf("%+v, %v: want what is there now", c, err)
			}
		}
		if _, err := v.Items(t.Context(), 5); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("items of a snapshot that there is not: %v", err)
		}
		if _, err := v.Content(t.Context(), 0); !errors.Is(err, backend.ErrNotFound) || !strings.Contains(err.Error(), "example-placement-0-snapshot") {
			t.Errorf("content of a snapshot that is not kept any more: %v", err)
		}
		now := must(e.Placement(ep).View(t.Context()))(t)
		edit(t, w.store, w.keys("bindings/")[len(w.keys("bindings/"))-1], damage)
		for _, err := range now.Placed(t.Context()) {
			if !errors.Is(err, backend.ErrPermanent) {
				t.Errorf("a damaged roster: %v", err)
			}
		}
		if _, err := e.Placement("missing").View(t.Context()); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("a view of no placement: %v", err)
		}
	})
}

// Data that was read to plan a run is not read again to carry it out in the same process. Another
// process reads it.
func TestPlannedDataIsReadOnce(t *testing.T) {
	for _, test := range []struct {
		name, driver string
		again        bool
	}{{"the same engine", "one", false}, {"another engine", "two", true}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, setup := declared(t, nil)
				w.capture(setup, "v0")
				log := &logStore{Store: w.store}
				e := w.engine(log.hooked(), "one")
				must(e.CreateRun(t.Context(), specOf("first", 0)))(t)
				planned := log.count("get content/")
				drives := e
				if test.again {
					drives = w.engine(log.hooked(), test.driver)
				}
				defer running(t, drives)()
				endOf(t, drives, "first")
				if more := log.count("get content/"); planned == 0 || (more > 0) != test.again {
					t.Errorf("%d contents are read to plan, %d more to carry it out", planned, more)
				}
				if got := w.value("member1"); got != "v0" {
					t.Errorf("member1 holds %q", got)
				}
			})
		})
	}
}

// A run that is being admitted is not taken by the same engine before the admission ends, because
// both write the placement's record. It is taken then, without a search for it.
func TestARunIsTakenWhenItIsAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, setup := declared(t, nil)
		w.capture(setup, "v0")
		var written, meanwhile atomic.Int32
		e := w.engine(&hookedStore{w.store, func(op, key string) {
			if op == "put" && strings.HasPrefix(key, "placement/") && written.Add(1) == 1 {
				time.Sleep(time.Second)
				meanwhile.Store(written.Load() - 1)
			}
		}}, "one")
		defer running(t, e)()
		begun := time.Now()
		must(e.CreateRun(t.Context(), specOf("first", 0)))(t)
		if n := meanwhile.Load(); n != 0 {
			t.Errorf("the placement's record was written %d times while the run was being admitted", n)
		}
		endOf(t, e, "first")
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("the run took %v", took)
		}
	})
}
