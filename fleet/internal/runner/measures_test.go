package runner

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/planner"
)

// A cluster of the run gets the check object of its own revision. Another cluster of the inventory
// gets that of the first cluster with content from the current stage on, from the start again after
// the last one. A cluster that is cleaned or unknown gets none.
func TestTheObjectOfACheck(t *testing.T) {
	plan, err := planner.Plan(stages.Strategy{Stages: []stages.Stage{
		{Name: "one", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "1"}}},
		{Name: "two", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "2"}}},
	}}, stages.Target{
		Placement: "p", Snapshot: "s", Selection: "d", Default: "r0", Revision: map[string]string{"b": "r1"}, Remove: map[string]string{"z": ""},
	}, []placement.Cluster{{Name: "a", Labels: map[string]string{"stage": "1"}}, {Name: "b", UID: "uid-b", Labels: map[string]string{"stage": "2"}}})
	if err != nil {
		t.Fatal(err)
	}
	var broken error
	m := &measures{plan: plan, inventory: func(context.Context) (map[string]placement.Cluster, error) {
		return map[string]placement.Cluster{"hub": {Name: "hub", UID: "uid-hub"}}, broken
	}}
	for name, c := range map[string]struct {
		stage             int
		of, task          string
		cluster, revision string
		problem           string
		broken            error
	}{
		"a cluster":                 {of: "b", cluster: "b", revision: "r1"},
		"the cluster of a task":     {task: "a", stage: 1, cluster: "a", revision: "r0"},
		"another in the first":      {task: "hub", cluster: "hub", revision: "r0"},
		"another in the second":     {task: "hub", stage: 1, cluster: "hub", revision: "r1"},
		"another after the updates": {task: "hub", stage: 2, cluster: "hub", revision: "r0"},
		"one that is cleaned":       {of: "z", stage: 2, problem: "the run removes the placement from cluster z"},
		"one that is unknown":       {task: "y", problem: "cluster y is not in the inventory"},
		"no inventory":              {task: "hub", problem: "no route", broken: errors.New("no route")},
	} {
		broken = c.broken
		got, problem := m.objectOf(t.Context(), c.stage, &check.Question{Where: check.Where{Cluster: c.of}, Check: &check.Check{Object: "job", Cluster: c.task}})
		if !strings.Contains(problem, c.problem) || (problem == "") != (c.problem == "") {
			t.Errorf("%s: problem %q, want %q", name, problem, c.problem)
		}
		if problem == "" && (got.Cluster.Name != c.cluster || got.Revision != c.revision || got.Object != "job") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
