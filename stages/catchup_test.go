package stages

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/placement"
)

func TestCatchUp(t *testing.T) {
	s := Strategy{Stages: []Stage{planEverything("all")}}
	target := planTarget()
	target.Revision = map[string]string{"b": "rev-b"}
	target.Remove = map[string]string{"left": "uid-left", "back": "uid-back"}
	p := planMust(t, s, target, []placement.Cluster{planMember("a"), planMember("b"), planMember("c")})

	got, err := CatchUp(p, []string{"b", "c", "left", "back"}, map[string]string{"new": "rev-new", "back": "rev-back"})
	if err != nil {
		t.Fatal(err)
	}
	want := Target{
		Placement: "web", Index: 3, Snapshot: "snap", Decision: "dec",
		Revision: map[string]string{"b": "rev-b", "c": "rev", "new": "rev-new", "back": "rev-back"},
		Remove:   map[string]string{"left": "uid-left"}, Part: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	next := planMust(t, p.Strategy, got, []placement.Cluster{planMember("b"), planMember("c"), planMember("new"), planMember("back")})
	if diff := cmp.Diff([]string{"all/: b back c new", "remove/: left"}, planLayout(next)); diff != "" {
		t.Error(diff)
	}
}

func TestCatchUpNamesEveryProblem(t *testing.T) {
	p := planMust(t, Strategy{Stages: []Stage{planEverything("all")}}, planTarget(), planMembers(3))
	_, err := CatchUp(p, []string{"c000", "x", "y"}, map[string]string{"c002": "r", "c001": "r", "z": "r"})
	planWants(t, err, `missed: Invalid value: ["x","y"]: is not in the plan`, `joined: Invalid value: ["c001","c002"]: is in the plan already`)
}
