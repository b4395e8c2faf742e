package fleet_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// longName is a subdomain of as many characters as a name may have.
func longName(first string) string {
	name := first + "." + strings.Repeat("a", 30) + "." + strings.Repeat("b", 63)
	return name[:stages.MaxPlacementName]
}

// dotted declares a placement of another name, with a run of the same name.
func (w *world) dotted(e *fleet.Engine, name string) {
	w.t.Helper()
	p := tutorialPlacement()
	p.Name, p.AllowCoOwnership = name, true
	w.declare(e, p)
	must(e.CreateRun(w.t.Context(), fleet.RunSpec{Name: name, Placement: name, Strategy: tutorialStrategy()}))(w.t)
}

// Placements and runs whose names are subdomains go through everything that a
// name is part of: keys, the ledger, annotations, field managers, requests and
// streams; and none is taken for another one of which it is the beginning.
func TestNamesMayHaveDots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.engine(w.store, "one")
		names := []string{"n", "n.team-a", "n.team-a.web", longName("n")}
		for _, name := range names {
			w.dotted(e, name)
		}
		stop := running(t, e)
		for _, name := range names {
			w.approveDotted(e, name)
			w.within(time.Hour, name, stages.Completed)
		}
		stop()
		e = w.engine(w.store, "observer")
		for _, name := range names {
			w.wantDotted(e, name)
		}
		if got := must(e.Placements(t.Context()))(t); !slices.Equal(got, slices.Sorted(slices.Values(names))) {
			t.Errorf("placements %v", got)
		}
		for key := range dump(t, w.store) {
			if err := backend.ValidateKey(key); err != nil {
				t.Error(err)
			}
		}
	})
}

func (w *world) approveDotted(e *fleet.Engine, name string) {
	w.t.Helper()
	f := must(e.Follow(name, ""))(w.t)
	for ev, err := range f.Events(w.t.Context()) {
		if err != nil || ev.Placement != name {
			w.t.Fatalf("event of %s: %+v, %v", name, ev, err)
		}
		if ev.Type != stages.ApprovalRequested {
			continue
		}
		if ev.Request != name+"-canary" {
			w.t.Errorf("request %s of run %s", ev.Request, name)
		}
		a := fleet.Answer{Request: ev.Request, Verdict: approval.Approve, By: approval.Identity{Name: "ann"}}
		if err := e.Decide(w.t.Context(), name, a); err != nil {
			w.t.Fatal(err)
		}
		return
	}
}

// wantDotted checks what a placement left on a member and in the store.
func (w *world) wantDotted(e *fleet.Engine, name string) {
	w.t.Helper()
	if l := ledgerOf(w.fleet.Cluster("member1"), name); l.Run != name || l.Phase != "Applied" {
		w.t.Errorf("the ledger of %s: %+v", name, l)
	}
	obj, err := w.fleet.Cluster("member1").Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "test-namespace", Name: "test-cm"})
	if err != nil || obj.GetAnnotations()["digest.slipway.dev/"+name] == "" {
		w.t.Errorf("no annotation of %s: %v", name, err)
	}
	if got := must(e.Runs(w.t.Context(), name))(w.t); !slices.Equal(got, []string{name}) {
		w.t.Errorf("placement %s has the runs %v", name, got)
	}
	for d, err := range e.Drift(w.t.Context(), name, fleet.DriftOptions{}) {
		if err != nil || d.State != fleet.Compared || d.Total > 0 {
			w.t.Errorf("drift of %s: %+v, %v", name, d, err)
		}
	}
}

// A name is a subdomain of at most 63 characters: it ends an annotation.
func TestNamesAreShort(t *testing.T) {
	w, e := declared(t, nil)
	w.capture(e, "v0")
	for _, name := range []string{longName("n") + "c", "a..b", ".a", "a.", "a.-b", "a-.b", "A.b"} {
		p := tutorialPlacement()
		p.Name = name
		refused(t, w.store, "a placement", func() error { return e.PutPlacement(t.Context(), p) }, "name: ")
		refused(t, w.store, "a run", func() error { return second1(e.CreateRun(t.Context(), specOf(name, 0))) }, "name: ")
		target := stages.Target{Placement: name, Snapshot: "s", Decision: "d", Default: "rev"}
		if _, err := stages.NewPlan(oneStage(), target, nil); err == nil {
			t.Errorf("a plan of placement %q is made", name)
		}
	}
}
