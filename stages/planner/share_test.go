package planner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/inverse"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

func takes(name string, v *intstr.IntOrString) stages.Stage { return stages.Stage{Name: name, Take: v} }

func sizesOf(p *stages.Plan) (out []int) {
	for i := range p.Stages {
		out = append(out, p.Stages[i].Size())
	}
	return out
}

// A share is taken from the remaining clusters, rounded down but at least 1. A number is not
// adjusted.
func TestPercentagesOfTheRemainingClusters(t *testing.T) {
	for _, c := range []struct {
		clusters int
		shares   []*intstr.IntOrString
		want     []int
	}{
		{100, []*intstr.IntOrString{percent("10%"), percent("50%"), percent("100%")}, []int{10, 45, 45}},
		{100, []*intstr.IntOrString{number(1), percent("33%"), nil}, []int{1, 32, 67}},
		{9, []*intstr.IntOrString{percent("10%"), percent("10%"), nil}, []int{1, 1, 7}},
		{2, []*intstr.IntOrString{percent("99%"), percent("1%"), nil}, []int{1, 1, 0}},
		{3, []*intstr.IntOrString{number(5), percent("50%"), nil}, []int{3, 0, 0}},
		{1, []*intstr.IntOrString{percent("1%"), nil}, []int{1, 0}},
		{0, []*intstr.IntOrString{percent("1%"), nil}, []int{0, 0}},
	} {
		var s stages.Strategy
		for i, v := range c.shares {
			st := takes(fmt.Sprint("s", i), v)
			st.Rest = v == nil
			s.Stages = append(s.Stages, st)
		}
		p := mustPlan(t, s, testTarget(), clusters(c.clusters))
		if diff := cmp.Diff(c.want, sizesOf(p)); diff != "" {
			t.Errorf("shares %v of %d clusters: %s", c.shares, c.clusters, diff)
		}
	}
}

// A stage takes the first clusters by its sort key. It considers clusters that match its selector
// and that no other stage selects, even a later one. Groups divide the clusters that it took.
func TestSharesInOrder(t *testing.T) {
	fleet := []placement.Cluster{
		cluster("a", "order=3", "env=prod", "region=eu"), cluster("b", "env=prod", "region=eu"), cluster("c", "order=1", "env=prod", "region=us"),
		cluster("d", "order=2", "env=dev", "region=us"), cluster("e", "env=canary"), cluster("f", "order=1", "env=prod", "region=eu"), cluster("g", "env=canary"),
	}
	s := stages.Strategy{Stages: []stages.Stage{
		{Name: "first", Take: number(2), Selector: matchLabel("env", "prod"), SortKey: "order", Groups: []stages.Group{
			{Name: "eu", Selector: matchLabel("region", "eu")}, {Name: "us", Selector: matchLabel("region", "us")},
		}},
		{Name: "half", Take: percent("50%"), Selector: matchLabel("env", "prod"), SortKey: "order"},
		{Name: "canary", Selector: matchLabel("env", "canary")},
		{Name: "others", Rest: true},
	}}
	p := mustPlan(t, s, testTarget(), fleet)
	want := []string{"first/eu: f", "first/us: c", "half/: a", "canary/: e g", "others/: b d"}
	if diff := cmp.Diff(want, layoutOf(p)); diff != "" {
		t.Error(diff)
	}
	slices.Reverse(fleet)
	if again := mustPlan(t, s, testTarget(), fleet); again.Digest != p.Digest {
		t.Error("the plan depends on the order in which the clusters are given")
	}
	s.Stages[1].Take = percent("49%")
	if other := mustPlan(t, s, testTarget(), fleet); other.Digest == p.Digest {
		t.Error("the digest does not cover the share")
	}
	fleet[0].Labels["order"] = "x" // g, which is in stage canary
	mustPlan(t, s, testTarget(), fleet)
	fleet[1].Labels["order"] = "x"
	_, err := Plan(s, testTarget(), fleet)
	wantError(t, err, `["f=x"]: label order, which orders group eu of stage first, must be an integer`)
}

// A canary is named and the rest follows: the strategy has no other name of a cluster, and gates
// hold both stages.
func TestANamedCanaryAndTheRest(t *testing.T) {
	s := stages.Strategy{Stages: []stages.Stage{
		{Name: "canary", Clusters: []string{"c001"}, After: []stages.Task{{Type: stages.Approval}}}, {Name: "rest", Rest: true, Before: []stages.Task{{Type: stages.Approval}}},
	}}
	p := mustPlan(t, s, testTarget(), clusters(4))
	if diff := cmp.Diff([]string{"canary/: c001", "rest/: c000 c002 c003"}, layoutOf(p)); diff != "" || len(p.Stages[0].Gates)+len(p.Stages[1].Gates) != 2 {
		t.Error(diff, p.Stages)
	}
}

// UnassignedFinalStage adds a stage of the rest if it has clusters. With UnassignedExclude, the
// rest of a stage with groups is limited to the clusters that the groups select.
func TestTheRestAndUnassigned(t *testing.T) {
	s := stages.Strategy{Unassigned: stages.UnassignedFinalStage, Stages: []stages.Stage{takes("some", percent("50%"))}}
	if diff := cmp.Diff([]string{"some/: c000", "unassigned/: c001 c002"}, layoutOf(mustPlan(t, s, testTarget(), clusters(3)))); diff != "" {
		t.Error(diff)
	}
	s.Stages[0].Take = percent("100%")
	if diff := cmp.Diff([]string{"some/: c000 c001 c002"}, layoutOf(mustPlan(t, s, testTarget(), clusters(3)))); diff != "" {
		t.Error(diff)
	}
	s.Unassigned, s.Stages[0].Take = "", number(2)
	_, err := Plan(s, testTarget(), clusters(3))
	wantError(t, err, `["c002"]: in no stage`)
	fleet := append(clusters(2, "g=a"), cluster("x"))
	s = stages.Strategy{Unassigned: stages.UnassignedExclude, Stages: []stages.Stage{{Name: "r", Rest: true, Groups: []stages.Group{{Name: "a", Selector: matchLabel("g", "a")}}}}}
	p := mustPlan(t, s, testTarget(), fleet)
	if diff := cmp.Diff([]string{"r/a: c000 c001"}, layoutOf(p)); diff != "" || !strings.Contains(strings.Join(p.Warnings, "\n"), "left out: x") {
		t.Error(diff, p.Warnings)
	}
}

func TestWarningsOfShares(t *testing.T) {
	s := stages.Strategy{ProgressDeadline: metav1.Duration{Duration: 1}, Stages: []stages.Stage{takes("ten", number(10)), takes("late", percent("10%")), {Name: "rest", Rest: true}}}
	p := mustPlan(t, s, testTarget(), clusters(4))
	want := []string{"stage ten takes 10 clusters, and there are 4 left", "stage late has no clusters: none is left for it", "stage rest has no clusters: none is left for it"}
	if diff := cmp.Diff(want, p.Warnings); diff != "" {
		t.Error(diff)
	}
}

// In a run that catches up, a cluster is in the stage that took it. Clusters that joined are in no
// share, but in the rest or in a stage that takes all.
func TestSharesOfACatchUp(t *testing.T) {
	for _, last := range []stages.Stage{{Name: "last", Rest: true}, takes("last", percent("100%"))} {
		s := stages.Strategy{Stages: []stages.Stage{takes("first", percent("10%")), takes("second", number(20)), last}}
		fleet := clusters(100)
		p := mustPlan(t, s, testTarget(), fleet)
		target, err := CatchUp(p, []string{"c003", "c025", "c029", "c030"}, map[string]string{"a-new": "rev"})
		if err != nil {
			t.Fatal(err)
		}
		next := mustPlan(t, p.Strategy, target, []placement.Cluster{fleet[3], fleet[25], fleet[29], fleet[30], cluster("a-new")})
		want := []string{"first/: c003", "second/: c025 c029", "last/: a-new c030"}
		if diff := cmp.Diff(want, layoutOf(next)); diff != "" {
			t.Error(diff)
		}
		again, err := CatchUp(next, []string{"c029"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"first/: ", "second/: c029", "last/: "}, layoutOf(mustPlan(t, s, again, fleet[29:30]))); diff != "" {
			t.Error(diff)
		}
	}
	// A share that was taken before takes none of the clusters that were left out.
	s := stages.Strategy{Unassigned: stages.UnassignedExclude, Stages: []stages.Stage{takes("half", percent("50%"))}}
	fleet := clusters(10)
	target, err := CatchUp(mustPlan(t, s, testTarget(), fleet), []string{"c001"}, map[string]string{"c007": "rev", "c008": "rev"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"half/: c001"}, layoutOf(mustPlan(t, s, target, []placement.Cluster{fleet[1], fleet[7], fleet[8]}))); diff != "" {
		t.Error(diff)
	}
}

// A plan with shares can be rolled back and stored.
func TestSharesAreReturned(t *testing.T) {
	s := stages.Strategy{Rollback: &stages.RollbackPolicy{}, Stages: []stages.Stage{takes("first", number(1)), {Name: "rest", Rest: true}}}
	p := mustPlan(t, s, testTarget(), clusters(3))
	back, err := inverse.Reverse(p, inverse.Reversal{Run: "r", UID: "u", To: map[int]inverse.Earlier{0: {Snapshot: "s0", Revision: "r0"}, 1: {Snapshot: "s0", Revision: "r0"}, 2: {Snapshot: "s0", Revision: "r0"}}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"rest/: c002 c001", "first/: c000"}, layoutOf(back)); diff != "" {
		t.Error(diff)
	}
	for _, p := range []*stages.Plan{p, back} {
		header, pages := p.Encode()
		if read, err := stages.DecodePlan(header, pages); err != nil || read.Digest != p.Digest {
			t.Errorf("%v", err)
		}
	}
}

func TestValidateShares(t *testing.T) {
	s := stages.Strategy{Unassigned: stages.UnassignedFinalStage, Stages: []stages.Stage{
		takes("zero", number(0)), takes("over", percent("101%")), takes("text", percent("many")),
		{Name: "named", Take: number(1), Clusters: []string{"a"}},
		{Name: "both", Take: number(1), Rest: true},
		{Name: "again", Rest: true, Selector: matchLabel("a", "b")},
		{Name: "after", Clusters: []string{"b"}},
		{Name: "pause", Rest: true, Flow: stages.Flow{Pause: true}, Before: []stages.Task{{Type: stages.Approval}}},
	}}
	wantError(t, s.Validate(),
		`stages[0].take: Invalid value: "0": must be a number of at least 1, or a percentage from 1% to 100%`, `stages[1].take: Invalid value: "101%"`,
		`stages[2].take: Invalid value: "many"`, `stages[3].take: Forbidden: clusters that are picked by name`,
		`stages[4].take: Forbidden: a stage takes a share or has the rest`, `stages[5].rest: Forbidden: stage both has the rest already`,
		`stages[5].rest: Forbidden: the rest is all that no other stage has: leave out labelSelector`,
		`stages[4].rest: Forbidden: the rest must be the last stage that has clusters, and stage after comes after it: move stages[6] before it`,
		`unassigned: Forbidden: stage both has the rest`, `stages[7].pause: Forbidden: a pause picks no clusters`,
	)
	ok := stages.Strategy{Stages: []stages.Stage{takes("a", percent("1%")), {Name: "b", Rest: true}, {Name: "c", Flow: stages.Flow{Pause: true}, Before: []stages.Task{{Type: stages.Approval}}}}}
	if err := ok.Validate(); err != nil {
		t.Errorf("a pause after the rest: %v", err)
	}
}

// FuzzShares checks the laws of shares: every cluster is in one stage, in the order of the plan;
// the same input gives the same plan; a stage has at most its share; the clusters that it leaves
// come after the clusters that it took.
func FuzzShares(f *testing.F) {
	for i := range uint64(20) {
		f.Add(i, uint8(i*7), uint8(i*31))
	}
	f.Fuzz(func(t *testing.T, seed uint64, n, shape uint8) {
		random := rand.New(rand.NewPCG(seed, uint64(shape)))
		fleet := clusters(int(n))
		for i := range fleet {
			fleet[i].Labels["env"] = []string{"a", "b", "c"}[random.IntN(3)]
			if random.IntN(4) > 0 {
				fleet[i].Labels["order"] = fmt.Sprint(random.IntN(5))
			}
		}
		var s stages.Strategy
		for i := range 1 + random.IntN(4) {
			st := stages.Stage{Name: fmt.Sprint("s", i), SortKey: []string{"", "order"}[random.IntN(2)]}
			switch random.IntN(4) {
			case 0:
				st.Take = number(1 + random.IntN(20))
			case 1:
				st.Take = percent(fmt.Sprint(1+random.IntN(100), "%"))
			case 2:
				st.Take, st.Selector = percent("50%"), matchLabel("env", "b")
			default:
				st.Clusters, st.SortKey = []string{"c000"}, ""
				if i > 0 || n == 0 {
					st.Clusters = nil
				}
			}
			s.Stages = append(s.Stages, st)
		}
		s.Stages = append(s.Stages, stages.Stage{Name: "rest", Rest: true, SortKey: "order"})
		p := mustPlan(t, s, testTarget(), fleet)
		if len(p.Clusters) != len(fleet) {
			t.Fatalf("%d of %d clusters", len(p.Clusters), len(fleet))
		}
		random.Shuffle(len(fleet), func(i, j int) { fleet[i], fleet[j] = fleet[j], fleet[i] })
		if again := mustPlan(t, s, testTarget(), fleet); again.Digest != p.Digest {
			t.Fatal("the same input gives another plan")
		}
		seen, left := map[string]bool{}, len(fleet)
		for i, st := range p.Stages {
			for _, c := range p.Clusters[st.Groups[0].First:st.End()] {
				if seen[c.Name] {
					t.Fatalf("%s is in two stages", c.Name)
				}
				seen[c.Name] = true
			}
			if take := s.Stages[i].Take; take != nil && s.Stages[i].Selector == nil {
				want, percent, _ := values.ParseLimit(*take, 1)
				if percent {
					want = max(1, left*want/100)
				}
				if st.Size() > want {
					t.Fatalf("stage %d takes %d of %d, and %s are its share", i, st.Size(), left, take)
				}
			}
			left -= st.Size()
		}
	})
}
