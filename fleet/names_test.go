package fleet_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
)

// hostileNames are names that would leave their place among the keys, or have two meanings.
func hostileNames() []string {
	return []string{
		"", "/", "x/", "/x", "x/y", "x/../y", "..", ".", "x/..", "../run/x", "x\x00", "x\ny", "x y", "X", "ü", "x\u2215y", "x\u202ey",
		"x%2fy", "x\\y", "x_y", "-x", "x-", "x\xff", "*", "x'; drop table runs; --", strings.Repeat("x", 300),
	}
}

// A name that is not a DNS subdomain is refused, and nothing is written.
func TestT20HostileNamesAreRefused(t *testing.T) {
	w, e := declared(t, nil)
	w.capture(e, "v0")
	must(e.CreateRun(t.Context(), specOf("r", 0)))(t)
	for _, name := range hostileNames() {
		p := tutorialPlacement()
		p.Name = name
		stage := specOf("s", 0)
		stage.Strategy.Stages[0].Name = name
		refused(t, w.store, "a placement", func() error { return e.PutPlacement(t.Context(), p) }, "name: ")
		refused(t, w.store, "a run", func() error { return second1(e.CreateRun(t.Context(), specOf(name, 0))) }, "name: ")
		refused(t, w.store, "a stage", func() error { return second1(e.CreateRun(t.Context(), stage)) }, "strategy.stages[0].name: ")
		if name == "" {
			continue // a command without an ID is given one
		}
		c := stages.Command{ID: name, Verb: stages.Stop}
		refused(t, w.store, "a command", func() error { return e.Run("r").Command(t.Context(), c) }, "id: Invalid value")
		a := stages.Command{Verb: stages.Decide, ID: name, Name: "r-after-all", Decision: &approval.Decision{Verdict: approval.Approve}}
		refused(t, w.store, "an answer", func() error { return e.Run("r").Command(t.Context(), a) }, "id: Invalid value")
	}
}

// An inventory is not trusted: a cluster with a hostile name is left out with a warning of the
// plan, nothing is written about it, and the other clusters are planned.
func TestT20HostileClustersAreNotPlanned(t *testing.T) {
	for _, name := range hostileNames() {
		w, e := declared(t, nil)
		w.capture(e, "v0")
		w.fleet.Add(placement.Cluster{Name: name, Labels: map[string]string{"environment": "canary"}})
		plan := must(e.CreateRun(t.Context(), specOf("r", 0)))(t).Plan
		if warnings := strings.Join(plan.Warnings, "\n"); len(plan.Clusters) != 3 || !strings.Contains(warnings, "are left out, 1 of them: ") || len(warnings) > 500 {
			t.Errorf("cluster %q: planned %d clusters, with the warnings %q", name, len(plan.Clusters), plan.Warnings)
		}
		for key := range dump(t, w.store) {
			if err := backend.ValidateKey(key); err != nil {
				t.Errorf("cluster %q: %v", name, err)
			}
		}
	}
}

// The planner refuses such a cluster too, for any caller: as a cluster to update, as a cluster to
// clean, and as the name of a placement.
func TestT20HostileNamesAreNotPlanned(t *testing.T) {
	for _, name := range hostileNames() {
		good := stages.Target{Placement: "web", Snapshot: "s", Selection: "d", Default: "rev"}
		named, left, clusters := good, good, []placement.Cluster{{Name: "c00"}}
		named.Placement, left.Remove = name, map[string]string{name: ""}
		for what, plan := range map[string]func() (*stages.Plan, error){
			"a placement":         func() (*stages.Plan, error) { return planner.Plan(oneStage(), named, clusters) },
			"a cluster to remove": func() (*stages.Plan, error) { return planner.Plan(oneStage(), left, clusters) },
			"a cluster": func() (*stages.Plan, error) {
				return planner.Plan(oneStage(), good, append(clusters, placement.Cluster{Name: name}))
			},
		} {
			_, err := plan()
			if err == nil || !strings.Contains(err.Error(), "DNS label") && !strings.Contains(err.Error(), "target.placement: ") {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
	}
}

// accepted reports whether an engine accepts both parts of a key.
func accepted(name, id string) bool {
	p := tutorialPlacement()
	p.Name = name
	return p.Validate() == nil && backend.ValidateKey(id) == nil && !strings.Contains(id, "/")
}

// single are the kinds with one record for each name.
var single = map[string]bool{"placement": true, "run": true, "plan": true}

// FuzzT20KeysDoNotCollide: records with accepted names have unique keys, and a list of one record's
// keys never contains another record's key.
func FuzzT20KeysDoNotCollide(f *testing.F) {
	for _, seed := range [][4]string{{"x", "1", "x", "2"}, {"x", "1", "x-1", "1"}, {"x", "y", "xy", "y"}, {"x", "1-2", "x-1", "2"}, {"a", "0", "a0", "0"}} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	for _, name := range hostileNames() {
		f.Add(name, "1", "x", name)
	}
	f.Fuzz(func(t *testing.T, one, oneID, other, otherID string) {
		if !accepted(one, oneID) || !accepted(other, otherID) {
			return
		}
		mine, theirs := fleet.RecordKeys(one, oneID), fleet.RecordKeys(other, otherID)
		for kind, key := range mine {
			if err := backend.ValidateKey(key); err != nil {
				t.Errorf("%s of %q: %v", kind, one, err)
			}
			for otherKind, otherKey := range theirs {
				same := kind == otherKind && one == other && (oneID == otherID || single[kind] || kind == "plan page" && len(oneID) == len(otherID))
				if (key == otherKey) != same {
					t.Errorf("%s of %q, %q and %s of %q, %q are %s and %s", kind, one, oneID, otherKind, other, otherID, key, otherKey)
				}
				if list := strings.TrimSuffix(key, oneID); !single[kind] && kind != "plan page" && one != other && strings.HasPrefix(otherKey, list) {
					t.Errorf("%s, of %q, is listed under %s, of %q", otherKey, other, list, one)
				}
			}
		}
	})
}

// longName returns a subdomain with the maximum length of a name.
func longName(first string) string {
	name := first + "." + strings.Repeat("a", 30) + "." + strings.Repeat("b", 63)
	return name[:stages.MaxPlacementName]
}

// dotted declares a placement with another name, and a run with the same name.
func (w *engineEnv) dotted(e *fleet.Engine, name string) {
	w.t.Helper()
	p := tutorialPlacement()
	p.Name, p.AllowCoOwnership = name, true
	w.declare(e, p)
	must(e.CreateRun(w.t.Context(), fleet.RunSpec{Name: name, Placement: name, Strategy: tutorialStrategy()}))(w.t)
}

// Placements and runs with subdomains as names work everywhere: in keys, the ledger, annotations,
// field managers, requests and streams. None is confused with another whose name it begins.
func TestNamesMayHaveDots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
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

func (w *engineEnv) approveDotted(e *fleet.Engine, name string) {
	w.t.Helper()
	f := must(e.Placement(name).Follow(""))(w.t)
	for ev, err := range f.Events(w.t.Context()) {
		if err != nil || ev.Placement != name {
			w.t.Fatalf("event of %s: %+v, %v", name, ev, err)
		}
		if ev.Type != stages.ApprovalRequested {
			continue
		}
		if ev.Request != name+"-after-canary" {
			w.t.Errorf("request %s of run %s", ev.Request, name)
		}
		a := stages.Command{Verb: stages.Decide, Name: ev.Request, By: approval.Identity{Name: "ann"}, Decision: &approval.Decision{Verdict: approval.Approve}}
		if err := e.Run(name).Command(w.t.Context(), a); err != nil {
			w.t.Fatal(err)
		}
		return
	}
}

// wantDotted checks the data of a placement on a member and in the store.
func (w *engineEnv) wantDotted(e *fleet.Engine, name string) {
	w.t.Helper()
	if l := ledgerOf(w.fleet.Cluster("member1"), name); l.Run != name || l.Phase != "Applied" {
		w.t.Errorf("the ledger of %s: %+v", name, l)
	}
	obj, err := w.fleet.Cluster("member1").Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "test-namespace", Name: "test-cm"})
	if err != nil || obj.GetAnnotations()["digest.slipway.dev/"+name] == "" {
		w.t.Errorf("no annotation of %s: %v", name, err)
	}
	if got := must(e.Placement(name).RunNames(w.t.Context()))(w.t); !slices.Equal(got, []string{name}) {
		w.t.Errorf("placement %s has the runs %v", name, got)
	}
	for d, err := range e.Placement(name).Drift(w.t.Context(), fleet.DriftOptions{}) {
		if err != nil || d.State != drift.Compared || d.Total > 0 {
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
		target := stages.Target{Placement: name, Snapshot: "s", Selection: "d", Default: "rev"}
		if _, err := planner.Plan(oneStage(), target, nil); err == nil {
			t.Errorf("a plan of placement %q is made", name)
		}
	}
}
