package stages

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
)

// Rounding is a classic source of mistakes: the table holds what other systems
// do differently.
func TestNewPlanRounding(t *testing.T) {
	tests := []struct {
		size                   int
		concurrency, failures  *intstr.IntOrString
		wantConcurrency, wantF int
		warning                bool
	}{
		{size: 10, wantConcurrency: 1, wantF: 0},
		{size: 10, concurrency: planStr("25%"), failures: planStr("25%"), wantConcurrency: 2, wantF: 3},
		{size: 5, concurrency: planStr("25%"), failures: planStr("25%"), wantConcurrency: 1, wantF: 2},
		{size: 3, concurrency: planStr("1%"), failures: planStr("1%"), wantConcurrency: 1, wantF: 1},
		{size: 3, concurrency: planStr("99%"), failures: planStr("99%"), wantConcurrency: 2, wantF: 3, warning: true},
		{size: 3, concurrency: planStr("100%"), failures: planStr("0%"), wantConcurrency: 3, wantF: 0},
		{size: 7, concurrency: planStr("50%"), failures: planStr("50%"), wantConcurrency: 3, wantF: 4},
		{size: 100, concurrency: planStr("33%"), failures: planStr("33%"), wantConcurrency: 33, wantF: 33},
		// A budget beyond the size is not turned into none, nor clamped.
		{size: 4, concurrency: planNum(9), failures: planNum(10), wantConcurrency: 9, wantF: 10, warning: true},
		{size: 4, concurrency: planNum(1), failures: planNum(3), wantConcurrency: 1, wantF: 3},
		{size: 1, concurrency: planStr("50%"), failures: planStr("100%"), wantConcurrency: 1, wantF: 1, warning: true},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d/%v/%v", tt.size, tt.concurrency, tt.failures), func(t *testing.T) {
			st := planEverything("all")
			st.MaxConcurrency, st.MaxFailures = tt.concurrency, tt.failures
			p := planMust(t, Strategy{Stages: []Stage{st}}, planTarget(), planMembers(tt.size))
			got := p.Stages[0]
			if got.MaxConcurrency != tt.wantConcurrency || got.Groups[0].MaxConcurrency != tt.wantConcurrency {
				t.Errorf("maxConcurrency is %d, in the group %d, want %d", got.MaxConcurrency, got.Groups[0].MaxConcurrency, tt.wantConcurrency)
			}
			if got.MaxFailures != tt.wantF || got.Groups[0].MaxFailures != -1 {
				t.Errorf("maxFailures is %d, in the group %d, want %d and -1", got.MaxFailures, got.Groups[0].MaxFailures, tt.wantF)
			}
			if warned := len(p.Warnings) > 0; warned != tt.warning {
				t.Errorf("warnings: %q", p.Warnings)
			}
		})
	}
}

func TestNewPlanRoundsGroupsOverTheGroup(t *testing.T) {
	st := planEverything("all")
	st.Groups = []Group{
		{Name: "a", Selector: planSel("g", "a"), MaxConcurrency: planStr("50%"), MaxFailures: planStr("50%")},
		{Name: "b", Selector: planSel("g", "b")},
		{Name: "c", Selector: planSel("g", "c"), MaxConcurrency: planStr("50%"), MaxFailures: planNum(7)},
	}
	clusters := append(planMembers(5, "g=a"), planMember("x", "g=b"))
	p := planMust(t, Strategy{Stages: []Stage{st}}, planTarget(), clusters)
	want := []PlannedGroup{
		{Name: "a", First: 0, Len: 5, MaxConcurrency: 2, MaxFailures: 3},
		{Name: "b", First: 5, Len: 1, MaxConcurrency: 1, MaxFailures: -1},
		{Name: "c", First: 6, Len: 0, MaxConcurrency: 1, MaxFailures: 7},
	}
	if diff := cmp.Diff(want, p.Stages[0].Groups); diff != "" {
		t.Error(diff)
	}
	if p.Stages[0].MaxConcurrency != 0 || p.Stages[0].MaxFailures != 0 {
		t.Errorf("a stage with groups has the cap %d and the budget %d", p.Stages[0].MaxConcurrency, p.Stages[0].MaxFailures)
	}
	st.MaxConcurrency, st.MaxFailures = planStr("50%"), planStr("50%")
	p = planMust(t, Strategy{Stages: []Stage{st}}, planTarget(), clusters)
	if p.Stages[0].MaxConcurrency != 3 || p.Stages[0].MaxFailures != 3 {
		t.Errorf("half of the stage is %d and %d", p.Stages[0].MaxConcurrency, p.Stages[0].MaxFailures)
	}
}

func TestNewPlanRemoval(t *testing.T) {
	s := Strategy{Stages: []Stage{planEverything("all")}, Removal: Removal{
		MaxConcurrency: planStr("50%"),
		Before:         []Task{{Type: Approval, Approval: &approval.Policy{ForbidStarter: true}}},
		After:          []Task{{Type: TimedWait, Wait: time.Minute}},
	}}
	target := planTarget()
	target.Remove = map[string]string{"z": "uid-z", "y": "", "x": "", "w": "", "v": ""}
	p := planMust(t, s, target, []placement.Cluster{planMember("a")})
	want := PlannedStage{
		Name: "remove", Remove: true, MaxConcurrency: 2, MaxFailures: -1,
		Groups: []PlannedGroup{{First: 1, Len: 5, MaxConcurrency: 2, MaxFailures: -1}},
		Gates: []PlannedGate{
			{When: approval.Before, Type: Approval, Policy: approval.Policy{ForbidStarter: true}},
			{When: approval.After, Type: TimedWait, Wait: time.Minute},
		},
	}
	if diff := cmp.Diff(want, p.Stages[1]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(PlannedCluster{Name: "z", UID: "uid-z", Revision: -1}, p.Clusters[5]); diff != "" {
		t.Error(diff)
	}
	if p := planMust(t, s, planTarget(), nil); len(p.Stages) != 1 {
		t.Error("there is a removal stage without clusters")
	}
}

func TestNewPlanRevisions(t *testing.T) {
	target := planTarget()
	target.Revision = map[string]string{"a": "z", "c": "b"}
	clusters := []placement.Cluster{planMember("a"), planMember("b"), planMember("c"), planMember("d")}
	p := planMust(t, Strategy{Stages: []Stage{planEverything("all")}}, target, clusters)
	if diff := cmp.Diff([]string{"b", "rev", "z"}, p.Revisions); diff != "" {
		t.Error(diff)
	}
	want := []PlannedCluster{{"a", "uid-a", 2, 0}, {"b", "uid-b", 1, 0}, {"c", "uid-c", 0, 0}, {"d", "uid-d", 1, 0}}
	if diff := cmp.Diff(want, p.Clusters); diff != "" {
		t.Error(diff)
	}
	s := Strategy{Unassigned: UnassignedExclude, Stages: []Stage{{Name: "some", Selector: planSel("x", "y")}}}
	if p := planMust(t, s, target, append(clusters, planMember("e", "x=y"))); len(p.Revisions) != 1 {
		t.Errorf("revisions that no cluster of the plan gets: %q", p.Revisions)
	}
	target.Default = ""
	target.Revision["b"], target.Revision["d"] = "x", "x"
	if _, err := NewPlan(Strategy{Stages: []Stage{planEverything("all")}}, target, clusters); err != nil {
		t.Errorf("every cluster is named and no default is needed, but: %v", err)
	}
}

func TestNewPlanWarnsOfDeadlineWithinSoak(t *testing.T) {
	s := Strategy{Stages: []Stage{planEverything("all")}, ProgressDeadline: time.Minute, MinHealthy: time.Minute}
	p := planMust(t, s, planTarget(), planMembers(1))
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "every cluster that changes fails") {
		t.Errorf("warnings: %q", p.Warnings)
	}
}
