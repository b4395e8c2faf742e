package fleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/stages"
)

// heldPlan updates five clusters and cleans two.
func heldPlan() *stages.Plan {
	p := &stages.Plan{Index: 7, Revisions: []string{"rev"}, Stages: []stages.PlannedStage{{Name: "all", Groups: []stages.PlannedGroup{{Len: 7}}}}}
	for _, name := range []string{"done", "failed", "flying", "gone", "later", "leaver", "stuck"} {
		c := stages.PlannedCluster{Name: name}
		if name == "leaver" || name == "stuck" {
			c.Revision = -1
		}
		p.Clusters = append(p.Clusters, c)
	}
	return p
}

// heldRun has come to all but one of them.
func heldRun() *stages.Run {
	return &stages.Run{
		Stages:  []stages.StageRun{{Groups: []stages.GroupRun{{Next: 7}}}},
		Flights: []stages.Flight{{Pos: 2, Attempt: 1}},
		Exceptions: []stages.Exception{
			{First: 1, Last: 1, State: stages.Failed},
			{First: 3, Last: 3, State: stages.Skipped, Gone: true},
			{First: 4, Last: 4, State: stages.NotStarted},
			{First: 6, Last: 6, State: stages.Failed},
		},
	}
}

func heldBefore() roster {
	return roster{
		"done": {3, 5, ""}, "failed": {3, 5, ""}, "flying": {3, 5, ""}, "gone": {3, 5, ""}, "later": {3, 5, ""},
		"leaver": {3, 5, ""}, "stuck": {3, 5, ""}, "other": {2, 2, ""},
	}
}

// What a cluster may hold after a run has ended is what the run proved to be
// there, or else what it tried in addition to what was proven before; what a
// deleted run did is in doubt.
func TestWhatClustersMayHold(t *testing.T) {
	run := heldRun()
	for what, c := range map[string]struct {
		do    func(roster) bool
		want  roster
		inUse []int
	}{
		"ended": {func(r roster) bool { return r.take(heldPlan(), run) }, roster{
			"done": {7, 7, "rev"}, "failed": {3, 7, ""}, "flying": {3, 7, ""}, "gone": {none, none, ""}, "later": {3, 5, ""},
			"stuck": {3, 5, ""}, "other": {2, 2, ""},
		}, []int{2, 3, 5, 7}},
		"deleted": {func(r roster) bool { return r.doubt(heldPlan(), run) }, roster{
			"done": {3, 7, ""}, "failed": {3, 7, ""}, "flying": {3, 7, ""}, "gone": {3, 7, ""}, "later": {3, 5, ""},
			"leaver": {3, 5, ""}, "stuck": {3, 5, ""}, "other": {2, 2, ""},
		}, []int{2, 3, 5, 7}},
		"deleted, and its record cannot be read": {func(r roster) bool { return r.doubt(heldPlan(), nil) }, roster{
			"done": {3, 7, ""}, "failed": {3, 7, ""}, "flying": {3, 7, ""}, "gone": {3, 7, ""}, "later": {3, 7, ""},
			"leaver": {3, 5, ""}, "stuck": {3, 5, ""}, "other": {2, 2, ""},
		}, []int{2, 3, 5, 7}},
	} {
		r := heldBefore()
		if !c.do(r) {
			t.Errorf("%s: nothing is new", what)
		}
		if d := cmp.Diff(c.want, r); d != "" {
			t.Errorf("%s:\n%s", what, d)
		}
		if d := cmp.Diff(c.inUse, r.inUse()); d != "" {
			t.Errorf("%s: in use:\n%s", what, d)
		}
	}
	r := roster{"done": {7, 7, "rev"}}
	quiet := heldRun()
	quiet.Exceptions = []stages.Exception{{First: 1, Last: 6, State: stages.NotStarted}}
	quiet.Flights = nil
	if r.take(heldPlan(), quiet) || len(r) != 1 {
		t.Errorf("a run that brought what there was changes the roster: %v", r)
	}
	if r.doubtAll(8); r["done"] != (holding{7, 8, "rev"}) {
		t.Errorf("in doubt: %v", r)
	}
}
