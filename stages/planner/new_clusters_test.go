package planner

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/inverse"
)

// newGroups returns a stage of all clusters, with a group for new clusters and more groups for the
// others.
func newGroups(more ...stages.Group) stages.Stage {
	st := everything("all")
	st.Groups = append([]stages.Group{{Name: "new", New: true, MaxConcurrency: percent("100%")}}, more...)
	return st
}

// New clusters are only in the group for new clusters, even if other groups select them. Each cap
// applies to the clusters that its group has left.
func TestNewClustersAreAGroupOfTheirOwn(t *testing.T) {
	fleet := clusters(8, "region=eu")
	fleet[7].Labels["region"] = "us"
	everywhere := stages.Group{Name: "update", Selector: &metav1.LabelSelector{}, MaxConcurrency: percent("50%")}
	for _, c := range []struct {
		name   string
		stage  stages.Stage
		new    []string
		layout []string
		caps   []int
	}{
		{"some", newGroups(everywhere), []string{"c001", "c003"}, []string{"all/new: c001 c003", "all/update: c000 c002 c004 c005 c006 c007"}, []int{2, 3}},
		{"none", newGroups(everywhere), nil, []string{"all/new: ", "all/update: c000 c001 c002 c003 c004 c005 c006 c007"}, []int{1, 4}},
		{
			"beside others", newGroups(stages.Group{Name: "eu", Selector: matchLabel("region", "eu")}, stages.Group{Name: "us", Clusters: []string{"c007"}}),
			[]string{"c000", "c007"},
			[]string{"all/new: c000 c007", "all/eu: c001 c002 c003 c004 c005 c006", "all/us: "},
			[]int{2, 1, 1},
		},
		{
			"nowhere",
			stages.Stage{Name: "all", Selector: &metav1.LabelSelector{}},
			[]string{"c000"},
			[]string{"all/: c000 c001 c002 c003 c004 c005 c006 c007"},
			[]int{1},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := testTarget()
			target.New = map[string]bool{}
			for _, name := range c.new {
				target.New[name] = true
			}
			p := mustPlan(t, stages.Strategy{Stages: []stages.Stage{c.stage}}, target, fleet)
			if got := layoutOf(p); !slices.Equal(got, c.layout) {
				t.Errorf("the layout is %q, want %q", got, c.layout)
			}
			for i, g := range p.Stages[0].Groups {
				if g.MaxConcurrency != c.caps[i] || g.New != (g.Name == "new") {
					t.Errorf("group %q: at most %d, want %d; new %v", g.Name, g.MaxConcurrency, c.caps[i], g.New)
				}
			}
			if len(p.Warnings) > 0 {
				t.Errorf("there are warnings: %q", p.Warnings)
			}
		})
	}
}

// A group with UnprovenFirst begins with its unproven clusters. Among these, and among the others,
// the order is that of the group. Other groups ignore which clusters are unproven.
func TestUnprovenClustersComeFirst(t *testing.T) {
	fleet := clusters(6)
	for i, rank := range []string{"3", "1", "2", "6", "5"} { // the last has none
		fleet[i].Labels["rank"] = rank
	}
	first := func(g stages.Group) stages.Stage {
		st := everything("all")
		g.Name, g.UnprovenFirst = "update", true
		st.Groups = []stages.Group{g}
		return st
	}
	for _, c := range []struct {
		name     string
		stage    stages.Stage
		unproven []string
		layout   string
	}{
		{"by name", first(stages.Group{Selector: &metav1.LabelSelector{}}), []string{"c004", "c002"}, "all/update: c002 c004 c000 c001 c003 c005"},
		{"by rank", first(stages.Group{Selector: &metav1.LabelSelector{}, SortKey: "rank"}), []string{"c005", "c000", "c003"}, "all/update: c000 c003 c005 c001 c002 c004"},
		{
			"in a given order", first(stages.Group{Clusters: []string{"c005", "c001", "c000", "c003", "c002", "c004"}}),
			[]string{"c003", "c001"},
			"all/update: c001 c003 c005 c000 c002 c004",
		},
		{"all", first(stages.Group{Selector: &metav1.LabelSelector{}}), []string{"c000", "c001", "c002", "c003", "c004", "c005"}, "all/update: c000 c001 c002 c003 c004 c005"},
		{"none", first(stages.Group{Selector: &metav1.LabelSelector{}}), nil, "all/update: c000 c001 c002 c003 c004 c005"},
		{"without the setting", everything("all"), []string{"c004"}, "all/: c000 c001 c002 c003 c004 c005"},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := testTarget()
			target.Unproven = map[string]bool{}
			for _, name := range c.unproven {
				target.Unproven[name] = true
			}
			p := mustPlan(t, stages.Strategy{Stages: []stages.Stage{c.stage}}, target, fleet)
			if got := layoutOf(p); !slices.Equal(got, []string{c.layout}) {
				t.Errorf("the layout is %q, want %q", got, c.layout)
			}
		})
	}
}

// Unproven clusters that are not among the clusters, and groups that have none, are refused.
func TestInvalidUnprovenClusters(t *testing.T) {
	target := testTarget()
	target.Unproven = map[string]bool{"c000": true, "stranger": true}
	_, err := Plan(stages.Strategy{Stages: []stages.Stage{everything("all")}}, target, clusters(1))
	wantError(t, err, `target.unproven: Invalid value: ["stranger"]: is not among the clusters`)
	s := stages.Strategy{Stages: []stages.Stage{newGroups(stages.Group{Name: "update", Selector: &metav1.LabelSelector{}})}}
	s.Stages[0].Groups[0].UnprovenFirst = true
	wantError(t, s.Validate(), "stages[0].groups[0].unprovenFirst: Forbidden: no cluster of a group with new or pause is unproven")
}

// Invalid new clusters, and invalid groups for them, are refused with the name of the field.
func TestInvalidNewClusters(t *testing.T) {
	target := testTarget()
	target.New = map[string]bool{"c000": true, "stranger": true}
	s := stages.Strategy{Stages: []stages.Stage{newGroups(
		stages.Group{Name: "too", New: true},
		stages.Group{Name: "eu", New: true, Selector: &metav1.LabelSelector{}},
	)}}
	wantError(t, s.Validate(), "stages[0].groups[1].new: Forbidden: group new has the new clusters already", "stages[0].groups[2].new: Forbidden: the new clusters of the stage are picked as they are")
	_, err := Plan(stages.Strategy{Stages: []stages.Stage{everything("all")}}, target, clusters(1))
	wantError(t, err, `target.new: Invalid value: ["stranger"]: is not among the clusters`)
}

// The plan of a rollback has no new clusters.
func TestRollbackPlanHasNoNewClusters(t *testing.T) {
	s := stages.Strategy{Stages: []stages.Stage{newGroups(stages.Group{Name: "update", Selector: &metav1.LabelSelector{}})}, Rollback: &stages.RollbackPolicy{}}
	target := testTarget()
	target.New = map[string]bool{"c000": true}
	p := mustPlan(t, s, target, []placement.Cluster{cluster("c000"), cluster("c001")})
	back, err := inverse.Reverse(p, inverse.Reversal{Run: "r", UID: "u", To: map[int]inverse.Earlier{0: {}, 1: {Index: 1, Snapshot: "old", Revision: "old"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range back.Stages {
		for _, g := range st.Groups {
			if g.New {
				t.Errorf("stage %s has new clusters", st.Name)
			}
		}
	}
	head, pages := back.Encode()
	if _, err := stages.DecodePlan(head, pages); err != nil {
		t.Error(err)
	}
}
