package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

func TestCatchUp(t *testing.T) {
	s := stages.Strategy{Stages: []stages.Stage{everything("all")}}
	target := testTarget()
	target.Revision = map[string]string{"b": "rev-b"}
	target.Remove = map[string]string{"left": "uid-left", "back": "uid-back"}
	p := mustPlan(t, s, target, []placement.Cluster{cluster("a"), cluster("b"), cluster("c")})

	got, err := CatchUp(p, []string{"b", "c", "left", "back"}, map[string]string{"new": "rev-new", "back": "rev-back"})
	if err != nil {
		t.Fatal(err)
	}
	want := stages.Target{
		Placement: "web", Index: 3, Snapshot: "snap", Selection: "dec",
		Revision: map[string]string{"b": "rev-b", "c": "rev", "new": "rev-new", "back": "rev-back"},
		Remove:   map[string]string{"left": "uid-left"}, Part: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	next := mustPlan(t, p.Strategy, got, []placement.Cluster{cluster("b"), cluster("c"), cluster("new"), cluster("back")})
	if diff := cmp.Diff([]string{"all/: b back c new", "remove/: left"}, layoutOf(next)); diff != "" {
		t.Error(diff)
	}
}

func TestCatchUpNamesEveryProblem(t *testing.T) {
	p := mustPlan(t, stages.Strategy{Stages: []stages.Stage{everything("all")}}, testTarget(), clusters(3))
	_, err := CatchUp(p, []string{"c000", "x", "y"}, map[string]string{"c002": "r", "c001": "r", "z": "r"})
	wantError(t, err, `missed: Invalid value: ["x","y"]: is not in the plan`, `joined: Invalid value: ["c001","c002"]: is in the plan already`)
}
