package planner

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/stages"
)

// Every cluster is found by its name, in a new plan and in a decoded one. Other names are not
// found.
func TestPositionFindsClustersAmongRemovedAndExcluded(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	for range 50 {
		target, clusters := testTarget(), clusters(0)
		target.Remove = map[string]string{}
		for i := range random.IntN(60) {
			name := fmt.Sprintf("%s-%d", []string{"eu", "us", "a-long-beginning"}[random.IntN(3)], i)
			switch random.IntN(4) {
			case 0:
				target.Remove[name] = "uid"
			case 1:
				clusters = append(clusters, cluster(name))
			default:
				clusters = append(clusters, cluster(name, "on=yes", "order="+strconv.Itoa(random.IntN(9))))
			}
		}
		s := stages.Strategy{Unassigned: stages.UnassignedExclude, Stages: []stages.Stage{{Name: "all", Selector: matchLabel("on", "yes"), SortKey: "order"}}}
		made := mustPlan(t, s, target, clusters)
		read, err := stages.DecodePlan(made.Encode())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []*stages.Plan{made, read} {
			wantPositions(t, p)
			for _, c := range clusters {
				if _, ok := p.Position(c.Name); ok != (c.Labels["on"] == "yes") {
					t.Errorf("%s, labels %v, is in the plan: %v", c.Name, c.Labels, ok)
				}
			}
		}
		if diff := gocmp.Diff(made, read, gocmp.AllowUnexported(stages.Plan{}, stages.CellMembers{})); diff != "" {
			t.Error(diff)
		}
	}
}

func wantPositions(t *testing.T, p *stages.Plan) {
	t.Helper()
	for pos, c := range p.Clusters {
		if got, ok := p.Position(c.Name); got != pos || !ok {
			t.Errorf("%s is at %d, %v, want %d", c.Name, got, ok, pos)
		}
		for _, name := range []string{c.Name + "0", c.Name[:len(c.Name)-1], "", "~"} {
			if got, ok := p.Position(name); ok && p.Clusters[got].Name != name {
				t.Errorf("%q is said to be at %d", name, got)
			}
		}
	}
}
