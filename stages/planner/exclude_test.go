package planner_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
)

// TestExcludePutsClustersIntoTheStageOfTheirGroup: two stages select all clusters, and each cluster
// is in the stage that has its group; without Exclude that is an error.
func TestExcludePutsClustersIntoTheStageOfTheirGroup(t *testing.T) {
	group := func(name string) []stages.Group {
		return []stages.Group{{Name: name, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"group": name}}}}
	}
	s := stages.Strategy{Unassigned: stages.UnassignedExclude, Stages: []stages.Stage{
		{Name: "one", Selector: &metav1.LabelSelector{}, Groups: group("a")},
		{Name: "two", Selector: &metav1.LabelSelector{}, Groups: group("b")},
	}}
	clusters := []placement.Cluster{
		{Name: "a1", Labels: map[string]string{"group": "a"}}, {Name: "b1", Labels: map[string]string{"group": "b"}}, {Name: "stray"},
	}
	target := stages.Target{Placement: "p", Snapshot: "s", Selection: "d", Default: "r"}
	p, err := planner.Plan(s, target, clusters)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Clusters) != 2 || p.Clusters[0].Name != "a1" || p.Clusters[1].Name != "b1" || p.Stages[0].Groups[0].Len != 1 {
		t.Errorf("the plan has %+v", p.Clusters)
	}
	if w := strings.Join(p.Warnings, "\n"); !strings.Contains(w, "no stage selects are left out: stray") {
		t.Errorf("warnings %q", w)
	}
	s.Unassigned = stages.UnassignedError
	if _, err := planner.Plan(s, target, clusters); err == nil || !strings.Contains(err.Error(), "in stages one and two") {
		t.Errorf("error = %v", err)
	}
}
