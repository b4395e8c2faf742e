package fleet_test

import (
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// hostileNames are names that would leave their place among the keys, or be two
// things at once.
func hostileNames() []string {
	return []string{
		"", "/", "x/", "/x", "x/y", "x/../y", "..", ".", "x/..", "../run/x", "x\x00", "x\ny", "x y", "X", "ü", "x\u2215y", "x\u202ey",
		"x%2fy", "x\\y", "x_y", "-x", "x-", "x\xff", "*", "x'; drop table runs; --", strings.Repeat("x", 300),
	}
}

// Whatever is not a DNS subdomain is refused, and nothing is written.
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
		refused(t, w.store, "a command", func() error { return e.Command(t.Context(), "r", c) }, "id: Invalid value")
		a := fleet.Answer{Request: "r-all", ID: name, Verdict: approval.Approve}
		refused(t, w.store, "an answer", func() error { return e.Decide(t.Context(), "r", a) }, "id: Invalid value")
	}
}

// An inventory is not trusted: a cluster of a hostile name is left out, which the plan
// says, nothing is written of it, and the others are planned.
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

// Neither does the planner take one, whoever calls it: not to be updated, not
// to be removed, nor as a placement.
func TestT20HostileNamesAreNotPlanned(t *testing.T) {
	for _, name := range hostileNames() {
		good := stages.Target{Placement: "web", Snapshot: "s", Decision: "d", Default: "rev"}
		named, left, clusters := good, good, []placement.Cluster{{Name: "c00"}}
		named.Placement, left.Remove = name, map[string]string{name: ""}
		for what, plan := range map[string]func() (*stages.Plan, error){
			"a placement":         func() (*stages.Plan, error) { return stages.NewPlan(oneStage(), named, clusters) },
			"a cluster to remove": func() (*stages.Plan, error) { return stages.NewPlan(oneStage(), left, clusters) },
			"a cluster": func() (*stages.Plan, error) {
				return stages.NewPlan(oneStage(), good, append(clusters, placement.Cluster{Name: name}))
			},
		} {
			_, err := plan()
			if err == nil || !strings.Contains(err.Error(), "DNS label") && !strings.Contains(err.Error(), "target.placement: ") {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
	}
}

// accepted reports whether an engine takes both parts of a key.
func accepted(name, id string) bool {
	p := tutorialPlacement()
	p.Name = name
	return p.Validate() == nil && backend.ValidateKey(id) == nil && !strings.Contains(id, "/")
}

// single are the kinds of which a name has one record.
var single = map[string]bool{"placement": true, "run": true, "plan": true}

// FuzzT20KeysDoNotCollide: records of names that are accepted have keys of their
// own, and what is listed of one never has what is another's.
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
