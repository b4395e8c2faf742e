package fleet_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// selections returns the SelectionChanged events of the tutorial's placement.
func (w *engineEnv) selections() (out []string) {
	for _, ev := range w.past(1000) {
		if ev.Type == stages.SelectionChanged {
			out = append(out, fmt.Sprint(*ev.Index, " ", ev.Count, " ", ev.Digest))
		}
	}
	return out
}

// wantSelection checks the result of Resolve, and that a view has the same.
func wantSelection(t *testing.T, e *fleet.Engine, index int, clusters ...string) placement.Selection {
	t.Helper()
	d := must(e.Placement(ep).Resolve(t.Context()))(t)
	if d.Index != index || !slices.Equal(d.Clusters, clusters) {
		t.Errorf("decided %d, %v; want %d, %v", d.Index, d.Clusters, index, clusters)
	}
	if diff := cmp.Diff(d.Selection, must(viewOf(t, e, ep).Selection(t.Context()))(t)); diff != "" {
		t.Errorf("recorded (-decided +recorded):\n%s", diff)
	}
	return d.Selection
}

// A selection needs no run. A change of the clusters causes an event, a changed policy increases
// the index, and nothing is written without a change.
func TestASelectionNeedsNoRun(t *testing.T) {
	w, e := declared(t, nil)
	before := viewOf(t, e, ep)
	if _, err := before.Selection(t.Context()); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("a selection before the first one: %v", err)
	}
	first := wantSelection(t, e, 0, "member1", "member2", "member3")
	if d := cmp.Diff(first, must(before.Selection(t.Context()))(t)); d != "" {
		t.Errorf("the first selection in a view from before it (-want +got):\n%s", d)
	}
	stored := dump(t, w.store)
	wantSelection(t, e, 0, "member1", "member2", "member3")
	if d := cmp.Diff(stored, dump(t, w.store)); d != "" {
		t.Errorf("the same selection was written:\n%s", d)
	}
	w.fleet.Add(placement.Cluster{Name: "member4"})
	second := wantSelection(t, e, 0, "member1", "member2", "member3", "member4")
	p := tutorialPlacement()
	p.Policy = placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"member2"}}
	w.declare(e, p)
	third := wantSelection(t, e, 1, "member2")
	want := []string{"0 3 " + first.Digest, "0 4 " + second.Digest, "1 1 " + third.Digest}
	if d := cmp.Diff(want, w.selections()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

// The selection of a run is recorded with its clusters. A selection that was recorded before causes
// no second event.
func TestARunRecordsItsSelection(t *testing.T) {
	w, e := declared(t, nil)
	w.capture(e, "v0")
	must(e.CreateRun(t.Context(), specOf("r", 0)))(t)
	d := must(viewOf(t, e, ep).Selection(t.Context()))(t)
	if !slices.Equal(d.Clusters, []string{"member1", "member2", "member3"}) {
		t.Errorf("the run's selection: %+v", d)
	}
	wantSelection(t, e, 0, d.Clusters...)
	if got := w.selections(); len(got) != 1 {
		t.Errorf("events %v", got)
	}
}

// A selection of many clusters is stored in pages, and all selections except the last are garbage.
func TestASelectionIsPaged(t *testing.T) {
	w, e := declared(t, nil)
	w.capture(e, "v0")
	for i := range 6100 {
		w.fleet.Add(placement.Cluster{Name: fmt.Sprintf("c%04d-%s", i, longName("n")[2:32])})
	}
	if d := must(e.Placement(ep).Resolve(t.Context()))(t); len(d.Clusters) != 6103 {
		t.Errorf("%d clusters", len(d.Clusters))
	}
	if got := w.keys("selection/"); len(got) != 3 {
		t.Errorf("pages %v", got)
	}
	p := tutorialPlacement()
	p.Policy = placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"member2"}}
	w.declare(e, p)
	wantSelection(t, e, 1, "member2")
	w.cleanUp(e)
	if got := w.keys("selection/"); len(got) != 1 {
		t.Errorf("pages after a collection %v", got)
	}
	wantSelection(t, e, 1, "member2")
}

// A crash at any write leaves either the old or the new selection, complete. It is made and
// reported once.
func TestASelectionSurvivesACrash(t *testing.T) {
	for n := 1; ; n++ {
		w, e := declared(t, nil)
		plan := faulty.NewPlan(faulty.CrashAfter(n))
		_, _ = w.engine(plan.Store(w.store), "dies").Placement(ep).Resolve(t.Context())
		wantSelection(t, e, 0, "member1", "member2", "member3")
		if got := w.selections(); len(got) != 1 {
			t.Errorf("crash after write %d: events %v", n, got)
		}
		if !plan.Crashed() {
			return
		}
	}
}

// A collection at any moment of a selection keeps the pages of the selection.
func TestASelectionIsNoGarbage(t *testing.T) {
	meanwhile(t, func() (func(backend.Store), backend.Store, func(), func()) {
		w, e := declared(t, nil)
		w.capture(e, "v0")
		wantSelection(t, e, 0, "member1", "member2", "member3")
		w.fleet.Add(placement.Cluster{Name: "member4"})
		do := func(s backend.Store) { must(w.engine(s, "other").Placement(ep).Resolve(t.Context()))(t) }
		check := func() { wantSelection(t, e, 0, "member1", "member2", "member3", "member4") }
		return do, w.store, func() { w.cleanUp(e) }, check
	})
}
