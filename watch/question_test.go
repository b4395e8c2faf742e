package watch_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
	"github.com/slipway-dev/slipway/watch"
)

func TestARequestNamesTheClustersThatItIsAbout(t *testing.T) {
	strategy := stages.Strategy{Profile: stages.Workflow, Stages: []stages.Stage{
		{Name: "first", Clusters: []string{"a1", "a2", "b1", "c1"}, Groups: []stages.Group{
			{Name: "a", Clusters: []string{"a1", "a2"}},
			{Name: "b", Clusters: []string{"b1"}, DependsOn: []string{"a"}},
			{Name: "c", Clusters: []string{"c1"}, DependsOn: []string{"b"}},
		}},
		{Name: "last", Clusters: []string{"z1", "z2", "z3", "z4", "z5", "z6", "z7"}},
	}}
	var all []placement.Cluster
	for name := range strings.FieldsSeq("a1 a2 b1 c1 z1 z2 z3 z4 z5 z6 z7") {
		all = append(all, placement.Cluster{Name: name})
	}
	p, err := planner.Plan(strategy, stages.Target{Placement: "web", Snapshot: "v1", Selection: "all", Default: "v1"}, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		when         approval.When
		stage, group string
		want         string
	}{
		{approval.Before, "first", "", "clusters to be updated: a1, a2, b1, c1"},
		{approval.After, "first", "", "clusters updated: a1, a2, b1, c1|stage last comes then, of 7 clusters: z1, z2, z3, z4, z5 and 2 more"},
		{approval.After, "last", "", "clusters updated: z1, z2, z3, z4, z5 and 2 more|nothing is left then: the run completes"},
		{approval.Before, "first", "b", "clusters to be updated: b1"},
		{approval.After, "first", "a", "clusters updated: a1, a2|group b comes then, of 1 clusters: b1"},
		{approval.After, "first", "c", "clusters updated: c1"},
		{approval.After, "first", "none", ""},
		{approval.After, "none", "", ""},
	} {
		r := &approval.Request{Name: "r", Binding: approval.Binding{When: c.when, Stage: c.stage, Group: c.group}}
		got := watch.Affected(p, r)
		if d := cmp.Diff(c.want, strings.Join(got, "|")); d != "" {
			t.Errorf("%s stage %s, group %s: %s", c.when, c.stage, c.group, d)
		}
		if question := watch.Question(p, r); question[0] != "Approve r?" || c.want != "" && !strings.HasSuffix(strings.Join(question, "|"), strings.Join(got, "|  ")) {
			t.Errorf("%q", question)
		}
	}
}
