package planner

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// orderCase has the stages of a plan, and the expected clusters in their order.
type orderCase struct {
	name     string
	stages   []stages.Stage
	clusters []placement.Cluster
	want     []string
	warnings []string
}

func (tt orderCase) run(t *testing.T) {
	p := mustPlan(t, stages.Strategy{Stages: tt.stages}, testTarget(), tt.clusters)
	if diff := cmp.Diff(tt.want, layoutOf(p)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(tt.warnings, p.Warnings); diff != "" {
		t.Error(diff)
	}
}

func TestNewPlanOrdersClusters(t *testing.T) {
	group := func(name string) stages.Group { return stages.Group{Name: name, Selector: matchLabel("group", name)} }
	sorted := group("b")
	sorted.SortKey = "rank"
	for _, tt := range []orderCase{{
		name:     "by name without a sort key",
		stages:   []stages.Stage{everything("all")},
		clusters: []placement.Cluster{cluster("c"), cluster("a"), cluster("b")},
		want:     []string{"all/: a b c"},
	}, {
		name:   "integers ascending as strconv.Atoi reads them, then names",
		stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, SortKey: "order"}},
		clusters: []placement.Cluster{
			cluster("a", "order=10"), cluster("b", "order=9"), cluster("c", "order=009"),
			cluster("d", "order=-3"), cluster("e", "order=+5"), cluster("f", "order=9223372036854775807"),
		},
		want: []string{"all/: d e b c a f"},
	}, {
		name:   "without the label last, by name, with a warning",
		stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, SortKey: "order"}},
		clusters: []placement.Cluster{
			cluster("d"), cluster("b"), cluster("z", "order=9223372036854775807"), cluster("a", "order=2"),
		},
		want:     []string{"all/: a z b d"},
		warnings: []string{"clusters of stage all without the label order come last: b, d"},
	}, {
		name: "groups with a sort key of their own or the stage's",
		stages: []stages.Stage{{
			Name: "all", Selector: &metav1.LabelSelector{}, SortKey: "order",
			Groups: []stages.Group{group("a"), sorted, group("empty")},
		}},
		clusters: []placement.Cluster{
			cluster("p", "group=a", "order=2", "rank=1"), cluster("q", "group=a", "order=1", "rank=2"),
			cluster("r", "group=b", "order=1", "rank=2"), cluster("s", "group=b", "order=2", "rank=1"),
		},
		want:     []string{"all/a: q p", "all/b: s r", "all/empty: "},
		warnings: []string{"group empty of stage all has no clusters"},
	}} {
		t.Run(tt.name, tt.run)
	}
}

func TestNewPlanPicksStages(t *testing.T) {
	for _, tt := range []orderCase{{
		name: "stages in the order of the strategy, an empty one with a warning",
		stages: []stages.Stage{
			{Name: "prod", Selector: matchLabel("env", "prod")},
			{Name: "none", Selector: nil},
			{Name: "test", Selector: matchLabel("env", "test")},
		},
		clusters: []placement.Cluster{cluster("a", "env=test"), cluster("b", "env=prod")},
		want:     []string{"prod/: b", "none/: ", "test/: a"},
		warnings: []string{"stage none has no clusters"},
	}, {
		name: "a selector with expressions",
		stages: []stages.Stage{
			{Name: "some", Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "env", Operator: metav1.LabelSelectorOpIn, Values: []string{"dev", "test"}},
			}}},
			{Name: "rest", Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "env", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"dev", "test"}},
			}}},
		},
		clusters: []placement.Cluster{cluster("a", "env=dev"), cluster("b", "env=prod"), cluster("c")},
		want:     []string{"some/: a", "rest/: b c"},
	}, {
		name:   "an equality of an empty value does not match a missing label",
		stages: []stages.Stage{{Name: "one", Selector: matchLabel("env", "")}, {Name: "two", Selector: matchLabel("x", "y")}},
		clusters: []placement.Cluster{
			cluster("a", "env="), cluster("b", "x=y"),
		},
		want: []string{"one/: a", "two/: b"},
	}, {
		name:     "no clusters at all",
		stages:   []stages.Stage{everything("all")},
		want:     []string{"all/: "},
		warnings: []string{"stage all has no clusters"},
	}} {
		t.Run(tt.name, tt.run)
	}
}

func TestNewPlanListsEveryProblem(t *testing.T) {
	s := stages.Strategy{Stages: []stages.Stage{
		{Name: "also", Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "both", Operator: metav1.LabelSelectorOpExists},
		}}},
		{Name: "canary", Selector: matchLabel("env", "canary"), SortKey: "order"},
		{Name: "prod", Selector: matchLabel("env", "prod"), Groups: []stages.Group{
			{Name: "eu", Selector: matchLabel("eu", "yes")}, {Name: "us", Selector: matchLabel("us", "yes")},
		}},
	}}
	clusters := []placement.Cluster{
		cluster("twice-1", "env=canary", "both=", "order=1"), cluster("twice-2", "env=canary", "both=", "order=1"),
		cluster("nowhere-1", "env=dev"), cluster("nowhere-2"),
		cluster("order-1", "env=canary", "order=one"), cluster("order-2", "env=canary", "order="),
		cluster("order-3", "env=canary", "order=1.5"), cluster("order-4", "env=canary", "order=1_000"),
		cluster("order-5", "env=canary", "order=9223372036854775808"),
		cluster("groups", "env=prod", "eu=yes", "us=yes"), cluster("groupless", "env=prod"),
		cluster("fine", "env=prod", "eu=yes"),
	}
	p, err := Plan(s, testTarget(), clusters)
	if p != nil {
		t.Error("there is a plan")
	}
	wantError(t, err,
		`plan of placement "web"`,
		`["twice-1","twice-2"]: in stages also and canary`,
		`["nowhere-1","nowhere-2"]: in no stage`,
		`["order-1=one","order-2=","order-3=1.5","order-4=1_000","order-5=9223372036854775808"]: label order, which orders stage canary, must be an integer`,
		`["groups"]: in groups eu and us of stage prod`,
		`["groupless"]: in no group of stage prod`,
	)
	if strings.Contains(err.Error(), "fine") {
		t.Error("the error names a cluster that has no problem")
	}
	slices.Reverse(clusters)
	if _, again := Plan(s, testTarget(), clusters); again.Error() != err.Error() {
		t.Errorf("the error depends on the order of the clusters:\n%v\n%v", err, again)
	}
}

func TestNewPlanChecksItsArguments(t *testing.T) {
	clusters := []placement.Cluster{
		cluster("a"), cluster("b"), cluster("b"), cluster("b"), cluster("Not_DNS"),
		{Name: "", UID: "u"},
		{Name: "odd", UID: "two words"},
		{Name: strings.Repeat("x", 64)},
	}
	target := stages.Target{
		Placement: "Web", Index: -1, Revision: map[string]string{"a": "", "gone": "rev", "lost": "rev"},
		Remove: map[string]string{"a": "", "No": "", "left": "\x00"},
	}
	_, err := Plan(stages.Strategy{}, target, clusters)
	wantError(t, err,
		"strategy.stages: Required",
		`clusters.name: Invalid value: ["","Not_DNS","xxx`, `clusters.uid: Invalid value: ["odd"]`,
		`clusters.name: Invalid value: ["b"]: a cluster must be given once`,
		`target.placement: Invalid value: "Web"`, "target.index: Invalid value: -1",
		"target.snapshot: Required", "target.selection: Required",
		`target.revision: Invalid value: ["a"]`, `target.revision: Invalid value: ["gone","lost"]: is not among the clusters`,
		"target.default: Required value: there are clusters without a revision of their own",
		`target.remove: Invalid value: ["No"]`, `target.remove: Invalid value: ["left"]`,
		`target.remove: Invalid value: ["a"]: a cluster that is picked cannot be removed too`,
	)
	if n := strings.Count(err.Error(), "given once"); n != 1 {
		t.Errorf("a cluster that is there three times is reported %d times", n)
	}
}

func TestNewPlanUnassigned(t *testing.T) {
	clusters := []placement.Cluster{cluster("b"), cluster("a", "env=prod"), cluster("c"), cluster("d")}
	s := stages.Strategy{Stages: []stages.Stage{{Name: "prod", Selector: matchLabel("env", "prod")}}}
	if _, err := Plan(s, testTarget(), clusters); err == nil {
		t.Error("by default a cluster in no stage is no error")
	}
	s.Unassigned = stages.UnassignedExclude
	p := mustPlan(t, s, testTarget(), clusters)
	if diff := cmp.Diff([]string{"prod/: a"}, layoutOf(p)); diff != "" {
		t.Error(diff)
	}
	want := []string{"clusters that no stage selects are left out: b, c, d", "stage prod never fails"}
	if diff := cmp.Diff(want[:1], p.Warnings); diff != "" {
		t.Error(diff)
	}
	s.Unassigned = stages.UnassignedFinalStage
	target := testTarget()
	target.Remove = map[string]string{"gone": ""}
	p = mustPlan(t, s, target, clusters)
	if diff := cmp.Diff([]string{"prod/: a", "unassigned/: b c d", "remove/: gone"}, layoutOf(p)); diff != "" {
		t.Error(diff)
	}
	if st := p.Stages[1]; st.MaxConcurrency != 1 || st.MaxFailures != 0 || st.Gates != nil {
		t.Errorf("the final stage is %+v", st)
	}
	if p := mustPlan(t, s, testTarget(), clusters[1:2]); len(p.Stages) != 1 {
		t.Error("there is a final stage without clusters")
	}
}

func TestNewPlanSharesNothing(t *testing.T) {
	s := rich()
	p := mustPlan(t, s, testTarget(), testFleet())
	s.Stages[0].Selector.MatchLabels["env"] = "other"
	s.Stages[0].MaxConcurrency.IntVal = 99
	s.Stages[1].After[1].Approval.Quorums[0].Count = 99
	if err := p.Verify(); err != nil {
		t.Error(err)
	}
}

func TestNewPlanDoesNotDependOnOrder(t *testing.T) {
	want := mustPlan(t, rich(), richTarget(), testFleet())
	for seed := range uint64(100) {
		clusters := testFleet()
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(clusters), func(i, j int) {
			clusters[i], clusters[j] = clusters[j], clusters[i]
		})
		before := slices.Clone(clusters)
		got := mustPlan(t, rich(), richTarget(), clusters)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(stages.Plan{}, stages.CellMembers{})); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		if diff := cmp.Diff(before, clusters); diff != "" {
			t.Fatalf("seed %d: the argument was changed: %s", seed, diff)
		}
	}
}

func TestClusterNamesAreDNSLabels(t *testing.T) {
	names := []string{"", "-", "a-", "-a", "a-b", "a--b", "0", "a.b", "A", "é", "a b", "a_b", strings.Repeat("a", 63), strings.Repeat("a", 64)}
	for _, name := range names {
		_, err := Plan(stages.Strategy{Stages: []stages.Stage{everything("all")}}, testTarget(), []placement.Cluster{{Name: name}})
		if want := len(validation.IsDNS1123Label(name)) == 0; (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}
