package planner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// Rounding is a classic source of mistakes: the table has cases in which other systems differ.
func TestNewPlanRounding(t *testing.T) {
	tests := []struct {
		size                   int
		concurrency, failures  *intstr.IntOrString
		wantConcurrency, wantF int
		warning                bool
	}{
		{size: 10, wantConcurrency: 1, wantF: 0},
		{size: 10, concurrency: percent("25%"), failures: percent("25%"), wantConcurrency: 2, wantF: 3},
		{size: 5, concurrency: percent("25%"), failures: percent("25%"), wantConcurrency: 1, wantF: 2},
		{size: 3, concurrency: percent("1%"), failures: percent("1%"), wantConcurrency: 1, wantF: 1},
		{size: 3, concurrency: percent("99%"), failures: percent("99%"), wantConcurrency: 2, wantF: 3, warning: true},
		{size: 3, concurrency: percent("100%"), failures: percent("0%"), wantConcurrency: 3, wantF: 0},
		{size: 7, concurrency: percent("50%"), failures: percent("50%"), wantConcurrency: 3, wantF: 4},
		{size: 100, concurrency: percent("33%"), failures: percent("33%"), wantConcurrency: 33, wantF: 33},
		// A budget beyond the size is neither dropped nor clamped.
		{size: 4, concurrency: number(9), failures: number(10), wantConcurrency: 9, wantF: 10, warning: true},
		{size: 4, concurrency: number(1), failures: number(3), wantConcurrency: 1, wantF: 3},
		{size: 1, concurrency: percent("50%"), failures: percent("100%"), wantConcurrency: 1, wantF: 1, warning: true},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d/%v/%v", tt.size, tt.concurrency, tt.failures), func(t *testing.T) {
			st := everything("all")
			st.MaxConcurrency, st.MaxFailures = tt.concurrency, tt.failures
			p := mustPlan(t, stages.Strategy{Attempts: 1, Stages: []stages.Stage{st}}, testTarget(), clusters(tt.size))
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
	st := everything("all")
	st.Groups = []stages.Group{
		{Name: "a", Selector: matchLabel("g", "a"), MaxConcurrency: percent("50%"), MaxFailures: percent("50%")},
		{Name: "b", Selector: matchLabel("g", "b")},
		{Name: "c", Selector: matchLabel("g", "c"), MaxConcurrency: percent("50%"), MaxFailures: number(7)},
	}
	clusters := append(clusters(5, "g=a"), cluster("x", "g=b"))
	p := mustPlan(t, stages.Strategy{Stages: []stages.Stage{st}}, testTarget(), clusters)
	want := []stages.PlannedGroup{
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
	st.MaxConcurrency, st.MaxFailures = percent("50%"), percent("50%")
	p = mustPlan(t, stages.Strategy{Stages: []stages.Stage{st}}, testTarget(), clusters)
	if p.Stages[0].MaxConcurrency != 3 || p.Stages[0].MaxFailures != 3 {
		t.Errorf("half of the stage is %d and %d", p.Stages[0].MaxConcurrency, p.Stages[0].MaxFailures)
	}
}

func TestNewPlanRemoval(t *testing.T) {
	s := stages.Strategy{Stages: []stages.Stage{everything("all")}, Removal: stages.Removal{
		MaxConcurrency: percent("50%"),
		Before:         []stages.Task{{Type: stages.Approval, Approval: &approval.Policy{ForbidStarter: true}}},
		After:          []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Minute}}},
	}}
	target := testTarget()
	target.Remove = map[string]string{"z": "uid-z", "y": "", "x": "", "w": "", "v": ""}
	p := mustPlan(t, s, target, []placement.Cluster{cluster("a")})
	want := stages.PlannedStage{
		Name: "remove", Remove: true, MaxConcurrency: 2, MaxFailures: -1,
		Groups: []stages.PlannedGroup{{First: 1, Len: 5, MaxConcurrency: 2, MaxFailures: -1}},
		Gates: []stages.PlannedGate{
			{When: approval.Before, Type: stages.Approval, Policy: approval.Policy{ForbidStarter: true}},
			{When: approval.After, Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Minute}},
		},
	}
	if diff := cmp.Diff(want, p.Stages[1]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(stages.PlannedCluster{Name: "z", UID: "uid-z", Revision: -1}, p.Clusters[5]); diff != "" {
		t.Error(diff)
	}
	if p := mustPlan(t, s, testTarget(), nil); len(p.Stages) != 1 {
		t.Error("there is a removal stage without clusters")
	}
}

// Clusters that left are named and are in no stage.
func TestNewPlanNamesClustersThatLeft(t *testing.T) {
	s := stages.Strategy{Stages: []stages.Stage{everything("all")}}
	target := testTarget()
	target.Left = []string{"z", "y"}
	picked := []placement.Cluster{cluster("a")}
	p := mustPlan(t, s, target, picked)
	if diff := cmp.Diff([]string{"y", "z"}, p.Left); diff != "" || p.Len() != 1 || len(p.Stages) != 1 {
		t.Errorf("the plan has %d clusters in %d stages\n%s", p.Len(), len(p.Stages), diff)
	}
	read, err := stages.DecodePlan(p.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.Left, read.Left); diff != "" {
		t.Error(diff)
	}
	if p.Digest == mustPlan(t, s, testTarget(), picked).Digest {
		t.Error("the digest does not cover them")
	}
	for want, left := range map[string][]string{
		"must be a DNS label":            {"A"},
		"must be given once":             {"z", "z"},
		"cannot be updated or removed":   {"a"},
		"must have at most 500 items":    make([]string, stages.MaxLeft+1),
		"a cluster that has left cannot": {"r"},
	} {
		target.Left, target.Remove = left, map[string]string{"r": ""}
		_, err := Plan(s, target, picked)
		wantError(t, err, want)
	}
}

func TestNewPlanRevisions(t *testing.T) {
	target := testTarget()
	target.Revision = map[string]string{"a": "z", "c": "b"}
	clusters := []placement.Cluster{cluster("a"), cluster("b"), cluster("c"), cluster("d")}
	p := mustPlan(t, stages.Strategy{Stages: []stages.Stage{everything("all")}}, target, clusters)
	if diff := cmp.Diff([]string{"b", "rev", "z"}, p.Revisions); diff != "" {
		t.Error(diff)
	}
	want := []stages.PlannedCluster{{Name: "a", UID: "uid-a", Revision: 2}, {Name: "b", UID: "uid-b", Revision: 1}, {Name: "c", UID: "uid-c", Revision: 0}, {Name: "d", UID: "uid-d", Revision: 1}}
	if diff := cmp.Diff(want, p.Clusters); diff != "" {
		t.Error(diff)
	}
	s := stages.Strategy{Unassigned: stages.UnassignedExclude, Stages: []stages.Stage{{Name: "some", Selector: matchLabel("x", "y")}}}
	if p := mustPlan(t, s, target, append(clusters, cluster("e", "x=y"))); len(p.Revisions) != 1 {
		t.Errorf("revisions that no cluster of the plan gets: %q", p.Revisions)
	}
	target.Default = ""
	target.Revision["b"], target.Revision["d"] = "x", "x"
	if _, err := Plan(stages.Strategy{Stages: []stages.Stage{everything("all")}}, target, clusters); err != nil {
		t.Errorf("every cluster is named and no default is needed, but: %v", err)
	}
}

func TestNewPlanWarnsOfDeadlineWithinSoak(t *testing.T) {
	s := stages.Strategy{Stages: []stages.Stage{everything("all")}, ProgressDeadline: metav1.Duration{Duration: time.Minute}, MinHealthy: metav1.Duration{Duration: time.Minute}}
	p := mustPlan(t, s, testTarget(), clusters(1))
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "every cluster that changes fails") {
		t.Errorf("warnings: %q", p.Warnings)
	}
}
