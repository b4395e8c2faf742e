package stages

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
)

func planSel(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func planNum(n int) *intstr.IntOrString {
	v := intstr.FromInt32(int32(n))
	return &v
}

func planStr(s string) *intstr.IntOrString {
	v := intstr.FromString(s)
	return &v
}

// planCluster makes a cluster; labels are key=value.
func planMember(name string, labels ...string) placement.Cluster {
	c := placement.Cluster{Name: name, UID: "uid-" + name, Labels: map[string]string{}}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		c.Labels[k] = v
	}
	return c
}

func planMembers(n int, labels ...string) []placement.Cluster {
	out := make([]placement.Cluster, n)
	for i := range out {
		out[i] = planMember(fmt.Sprintf("c%03d", i), labels...)
	}
	return out
}

func planTarget() Target {
	return Target{Placement: "web", Index: 3, Snapshot: "snap", Decision: "dec", Default: "rev"}
}

func planEverything(name string) Stage { return Stage{Name: name, Selector: &metav1.LabelSelector{}} }

func planMust(t testing.TB, s Strategy, target Target, clusters []placement.Cluster) *Plan {
	t.Helper()
	p, err := NewPlan(s, target, clusters)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// planLayout is a plan's clusters as stage/group: names.
func planLayout(p *Plan) []string {
	var out []string
	for _, st := range p.Stages {
		for _, g := range st.Groups {
			var names []string
			for _, c := range p.Clusters[g.First : g.First+g.Len] {
				names = append(names, c.Name)
			}
			out = append(out, st.Name+"/"+g.Name+": "+strings.Join(names, " "))
		}
	}
	return out
}

// planWants checks that an error names everything in want.
func planWants(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q:\n%v", w, err)
		}
	}
}

func TestNewPlanOrdersClusters(t *testing.T) {
	group := func(name string) Group { return Group{Name: name, Selector: planSel("group", name)} }
	sorted := group("b")
	sorted.SortKey = "rank"
	tests := []struct {
		name     string
		stages   []Stage
		clusters []placement.Cluster
		want     []string
		warnings []string
	}{{
		name:     "by name without a sort key",
		stages:   []Stage{planEverything("all")},
		clusters: []placement.Cluster{planMember("c"), planMember("a"), planMember("b")},
		want:     []string{"all/: a b c"},
	}, {
		name:   "integers ascending as strconv.Atoi reads them, then names",
		stages: []Stage{{Name: "all", Selector: &metav1.LabelSelector{}, SortKey: "order"}},
		clusters: []placement.Cluster{
			planMember("a", "order=10"), planMember("b", "order=9"), planMember("c", "order=009"),
			planMember("d", "order=-3"), planMember("e", "order=+5"), planMember("f", "order=9223372036854775807"),
		},
		want: []string{"all/: d e b c a f"},
	}, {
		name:   "without the label last, by name, with a warning",
		stages: []Stage{{Name: "all", Selector: &metav1.LabelSelector{}, SortKey: "order"}},
		clusters: []placement.Cluster{
			planMember("d"), planMember("b"), planMember("z", "order=9223372036854775807"), planMember("a", "order=2"),
		},
		want:     []string{"all/: a z b d"},
		warnings: []string{"clusters of stage all without the label order come last: b, d"},
	}, {
		name: "stages in the order of the strategy, an empty one with a warning",
		stages: []Stage{
			{Name: "prod", Selector: planSel("env", "prod")},
			{Name: "none", Selector: nil},
			{Name: "test", Selector: planSel("env", "test")},
		},
		clusters: []placement.Cluster{planMember("a", "env=test"), planMember("b", "env=prod")},
		want:     []string{"prod/: b", "none/: ", "test/: a"},
		warnings: []string{"stage none has no clusters"},
	}, {
		name: "groups with a sort key of their own or the stage's",
		stages: []Stage{{
			Name: "all", Selector: &metav1.LabelSelector{}, SortKey: "order",
			Groups: []Group{group("a"), sorted, group("empty")},
		}},
		clusters: []placement.Cluster{
			planMember("p", "group=a", "order=2", "rank=1"), planMember("q", "group=a", "order=1", "rank=2"),
			planMember("r", "group=b", "order=1", "rank=2"), planMember("s", "group=b", "order=2", "rank=1"),
		},
		want:     []string{"all/a: q p", "all/b: s r", "all/empty: "},
		warnings: []string{"group empty of stage all has no clusters"},
	}, {
		name: "a selector with expressions",
		stages: []Stage{
			{Name: "some", Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "env", Operator: metav1.LabelSelectorOpIn, Values: []string{"dev", "test"}},
			}}},
			{Name: "rest", Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "env", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"dev", "test"}},
			}}},
		},
		clusters: []placement.Cluster{planMember("a", "env=dev"), planMember("b", "env=prod"), planMember("c")},
		want:     []string{"some/: a", "rest/: b c"},
	}, {
		name:   "an equality of an empty value does not match a missing label",
		stages: []Stage{{Name: "one", Selector: planSel("env", "")}, {Name: "two", Selector: planSel("x", "y")}},
		clusters: []placement.Cluster{
			planMember("a", "env="), planMember("b", "x=y"),
		},
		want: []string{"one/: a", "two/: b"},
	}, {
		name:     "no clusters at all",
		stages:   []Stage{planEverything("all")},
		want:     []string{"all/: "},
		warnings: []string{"stage all has no clusters"},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := planMust(t, Strategy{Stages: tt.stages}, planTarget(), tt.clusters)
			if diff := cmp.Diff(tt.want, planLayout(p)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.warnings, p.Warnings); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNewPlanListsEveryProblem(t *testing.T) {
	s := Strategy{Stages: []Stage{
		{Name: "canary", Selector: planSel("env", "canary"), SortKey: "order"},
		{Name: "also", Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "both", Operator: metav1.LabelSelectorOpExists},
		}}},
		{Name: "prod", Selector: planSel("env", "prod"), Groups: []Group{
			{Name: "eu", Selector: planSel("eu", "yes")}, {Name: "us", Selector: planSel("us", "yes")},
		}},
	}}
	clusters := []placement.Cluster{
		planMember("twice-1", "env=canary", "both=", "order=1"), planMember("twice-2", "env=canary", "both=", "order=1"),
		planMember("nowhere-1", "env=dev"), planMember("nowhere-2"),
		planMember("order-1", "env=canary", "order=one"), planMember("order-2", "env=canary", "order="),
		planMember("order-3", "env=canary", "order=1.5"), planMember("order-4", "env=canary", "order=1_000"),
		planMember("order-5", "env=canary", "order=9223372036854775808"),
		planMember("groups", "env=prod", "eu=yes", "us=yes"), planMember("groupless", "env=prod"),
		planMember("fine", "env=prod", "eu=yes"),
	}
	p, err := NewPlan(s, planTarget(), clusters)
	if p != nil {
		t.Error("there is a plan")
	}
	planWants(t, err,
		`plan of placement "web"`,
		`["twice-1","twice-2"]: in stages canary and also`,
		`["nowhere-1","nowhere-2"]: in no stage`,
		`["order-1=one","order-2=","order-3=1.5","order-4=1_000","order-5=9223372036854775808"]: label order, which orders stage canary, must be an integer`,
		`["groups"]: in groups eu and us of stage prod`,
		`["groupless"]: in no group of stage prod`,
	)
	if strings.Contains(err.Error(), "fine") {
		t.Error("the error names a cluster that has no problem")
	}
	slices.Reverse(clusters)
	if _, again := NewPlan(s, planTarget(), clusters); again.Error() != err.Error() {
		t.Errorf("the error depends on the order of the clusters:\n%v\n%v", err, again)
	}
}

func TestNewPlanChecksItsArguments(t *testing.T) {
	clusters := []placement.Cluster{
		planMember("a"), planMember("b"), planMember("b"), planMember("b"), planMember("Not_DNS"),
		{Name: "", UID: "u"}, {Name: "odd", UID: "two words"}, {Name: strings.Repeat("x", 64)},
	}
	target := Target{
		Placement: "Web", Index: -1, Revision: map[string]string{"a": "", "gone": "rev", "lost": "rev"},
		Remove: map[string]string{"a": "", "No": "", "left": "\x00"},
	}
	_, err := NewPlan(Strategy{}, target, clusters)
	planWants(t, err,
		"strategy.stages: Required",
		`clusters.name: Invalid value: ["","Not_DNS","xxx`, `clusters.uid: Invalid value: ["odd"]`,
		`clusters.name: Invalid value: ["b"]: a cluster must be given once`,
		`target.placement: Invalid value: "Web"`, "target.index: Invalid value: -1",
		"target.snapshot: Required", "target.decision: Required",
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
	clusters := []placement.Cluster{planMember("b"), planMember("a", "env=prod"), planMember("c"), planMember("d")}
	s := Strategy{Stages: []Stage{{Name: "prod", Selector: planSel("env", "prod")}}}
	if _, err := NewPlan(s, planTarget(), clusters); err == nil {
		t.Error("by default a cluster in no stage is no error")
	}
	s.Unassigned = UnassignedExclude
	p := planMust(t, s, planTarget(), clusters)
	if diff := cmp.Diff([]string{"prod/: a"}, planLayout(p)); diff != "" {
		t.Error(diff)
	}
	want := []string{"clusters that no stage selects are left out: b, c, d", "stage prod never fails"}
	if diff := cmp.Diff(want[:1], p.Warnings); diff != "" {
		t.Error(diff)
	}
	s.Unassigned = UnassignedFinalStage
	target := planTarget()
	target.Remove = map[string]string{"gone": ""}
	p = planMust(t, s, target, clusters)
	if diff := cmp.Diff([]string{"prod/: a", "unassigned/: b c d", "remove/: gone"}, planLayout(p)); diff != "" {
		t.Error(diff)
	}
	if st := p.Stages[1]; st.MaxConcurrency != 1 || st.MaxFailures != 0 || st.Gates != nil {
		t.Errorf("the final stage is %+v", st)
	}
	if p := planMust(t, s, planTarget(), clusters[1:2]); len(p.Stages) != 1 {
		t.Error("there is a final stage without clusters")
	}
}

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
	want := []PlannedCluster{{"a", "uid-a", 2}, {"b", "uid-b", 1}, {"c", "uid-c", 0}, {"d", "uid-d", 1}}
	if diff := cmp.Diff(want, p.Clusters); diff != "" {
		t.Error(diff)
	}
	target.Default = ""
	target.Revision["b"], target.Revision["d"] = "x", "x"
	if _, err := NewPlan(Strategy{Stages: []Stage{planEverything("all")}}, target, clusters); err != nil {
		t.Errorf("every cluster is named and no default is needed, but: %v", err)
	}
}

func TestNewPlanSharesNothing(t *testing.T) {
	s := planRich()
	p := planMust(t, s, planTarget(), planFleet())
	s.Stages[0].Selector.MatchLabels["env"] = "other"
	s.Stages[0].MaxConcurrency.IntVal = 99
	s.Stages[1].After[1].Approval.Quorums[0].Count = 99
	if err := p.Verify(); err != nil {
		t.Error(err)
	}
}

func TestNewPlanWarnsOfDeadlineWithinSoak(t *testing.T) {
	s := Strategy{Stages: []Stage{planEverything("all")}, ProgressDeadline: time.Minute, MinHealthy: time.Minute}
	p := planMust(t, s, planTarget(), planMembers(1))
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "every cluster that changes fails") {
		t.Errorf("warnings: %q", p.Warnings)
	}
}

// planRich is a strategy that uses everything, planFleet clusters for it.
func planRich() Strategy {
	return Strategy{
		Name: "rich", Unassigned: UnassignedFinalStage, Profile: Workflow, Attempts: 3,
		Backoff: time.Second, MaxBackoff: time.Minute, ProgressDeadline: time.Hour, MinHealthy: time.Second,
		Removal: Removal{MaxConcurrency: planNum(2), Deadline: time.Minute, After: []Task{{Type: Approval}}},
		Stages: []Stage{
			{Name: "canary", Selector: planSel("env", "canary"), SortKey: "order", MaxConcurrency: planNum(2),
				After: []Task{{Type: TimedWait, Wait: time.Hour}}},
			{Name: "prod", Selector: planSel("env", "prod"), MaxConcurrency: planStr("50%"), MaxFailures: planStr("10%"),
				Groups: []Group{
					{Name: "eu", Selector: planSel("region", "eu"), SortKey: "order", MaxFailures: planNum(1)},
					{Name: "us", Selector: planSel("region", "us"), MaxConcurrency: planStr("30%")},
				},
				Before: []Task{{Type: Approval}},
				After: []Task{{Type: TimedWait, Wait: time.Minute}, {Type: Approval, Approval: &approval.Policy{
					Quorums: []approval.Quorum{{Group: "sre", Count: 2}}, ForbidStarter: true, Expires: time.Hour,
				}}}},
		},
	}
}

func planFleet() []placement.Cluster {
	var out []placement.Cluster
	for i := range 40 {
		env, region := []string{"canary", "prod", "prod", "dev"}[i%4], []string{"eu", "us"}[i/4%2]
		c := planMember("c"+strconv.Itoa(i), "env="+env, "region="+region)
		if i%3 != 0 {
			c.Labels["order"] = strconv.Itoa(i * 7 % 11)
		}
		out = append(out, c)
	}
	return out
}

func planRichTarget() Target {
	t := planTarget()
	t.Revision, t.Remove = map[string]string{}, map[string]string{}
	for i := range 40 {
		if i%5 == 0 {
			t.Revision["c"+strconv.Itoa(i)] = "rev-" + strconv.Itoa(i%3)
			t.Remove["gone"+strconv.Itoa(i)] = "uid" + strconv.Itoa(i)
		}
	}
	return t
}

func TestNewPlanDoesNotDependOnOrder(t *testing.T) {
	want := planMust(t, planRich(), planRichTarget(), planFleet())
	for seed := range uint64(100) {
		clusters := planFleet()
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(clusters), func(i, j int) {
			clusters[i], clusters[j] = clusters[j], clusters[i]
		})
		before := slices.Clone(clusters)
		got := planMust(t, planRich(), planRichTarget(), clusters)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Plan{})); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		if diff := cmp.Diff(before, clusters); diff != "" {
			t.Fatalf("seed %d: the argument was changed: %s", seed, diff)
		}
	}
}

func TestPlanPositions(t *testing.T) {
	p := planMust(t, planRich(), planRichTarget(), planFleet())
	if p.Len() != 48 || p.Len() != len(p.Clusters) {
		t.Errorf("the plan has %d clusters", p.Len())
	}
	for i, st := range p.Stages {
		for j, g := range st.Groups {
			for pos := g.First; pos < g.First+g.Len; pos++ {
				if stage, group := p.StageOf(pos); stage != i || group != j {
					t.Errorf("position %d is in stage %d, group %d, want %d, %d", pos, stage, group, i, j)
				}
				if got, ok := p.Position(p.Clusters[pos].Name); got != pos || !ok {
					t.Errorf("%s is at %d, want %d", p.Clusters[pos].Name, got, pos)
				}
			}
		}
	}
	if _, ok := p.Position("nobody"); ok {
		t.Error("a cluster that is not in the plan has a position")
	}
	for _, pos := range []int{-1, p.Len()} {
		if stage, group := p.StageOf(pos); stage != -1 || group != -1 {
			t.Errorf("position %d is in stage %d, group %d", pos, stage, group)
		}
	}
}

func TestStageOfPassesOverEmptyStages(t *testing.T) {
	s := Strategy{Stages: []Stage{{Name: "empty"}, planEverything("all"), {Name: "none"}}}
	p := planMust(t, s, planTarget(), planMembers(2))
	for pos := range 2 {
		if stage, group := p.StageOf(pos); stage != 1 || group != 0 {
			t.Errorf("position %d is in stage %d, group %d", pos, stage, group)
		}
	}
}

func TestDigestCoversEverythingButWarnings(t *testing.T) {
	base := planMust(t, planRich(), planRichTarget(), planFleet())
	changes := map[string]func(*Plan){
		"strategy":        func(p *Plan) { p.Strategy.Attempts++ },
		"placement":       func(p *Plan) { p.Placement += "x" },
		"index":           func(p *Plan) { p.Index++ },
		"snapshot":        func(p *Plan) { p.Snapshot += "x" },
		"decision":        func(p *Plan) { p.Decision += "x" },
		"stage":           func(p *Plan) { p.Stages[0].MaxConcurrency++ },
		"group":           func(p *Plan) { p.Stages[1].Groups[0].MaxFailures++ },
		"gate":            func(p *Plan) { p.Stages[1].Gates[0].Policy.ForbidStarter = true },
		"revisions":       func(p *Plan) { p.Revisions[0] += "x" },
		"cluster":         func(p *Plan) { p.Clusters[0].Name += "x" },
		"uid":             func(p *Plan) { p.Clusters[0].UID += "x" },
		"revision":        func(p *Plan) { p.Clusters[0].Revision++ },
		"order":           func(p *Plan) { slices.Reverse(p.Clusters) },
		"name to uid":     func(p *Plan) { c := &p.Clusters[0]; c.UID, c.Name = c.Name[1:]+c.UID, c.Name[:1] },
		"digest":          func(p *Plan) { p.Digest = "x" },
		"cluster missing": func(p *Plan) { p.Clusters = p.Clusters[1:] },
	}
	for name, change := range changes {
		p := planMust(t, planRich(), planRichTarget(), planFleet())
		change(p)
		if p.Verify() == nil {
			t.Errorf("%s: the digest did not notice", name)
		}
	}
	base.Warnings = nil
	if err := base.Verify(); err != nil {
		t.Error(err)
	}
}

func TestZeroPlanDoesNotPanic(t *testing.T) {
	var p Plan
	if _, ok := p.Position("a"); ok || p.Len() != 0 || p.Verify() == nil {
		t.Error("a zero plan has something")
	}
	p.StageOf(0)
	header, pages := p.Encode()
	if _, err := DecodePlan(header, pages); err == nil {
		t.Error("a zero plan was read")
	}
}

func BenchmarkNewPlan(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run("clusters="+strconv.Itoa(n), func(b *testing.B) {
			s, target, clusters := planLarge(n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := NewPlan(s, target, clusters); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// planLarge is n clusters in 31 stages that select a label's value each.
func planLarge(n int) (Strategy, Target, []placement.Cluster) {
	const stages = 31
	var s Strategy
	for i := range stages {
		s.Stages = append(s.Stages, Stage{
			Name: "ring" + strconv.Itoa(i), Selector: planSel("ring", strconv.Itoa(i)),
			SortKey: "order", MaxConcurrency: planStr("10%"),
		})
	}
	target := planTarget()
	target.Revision = map[string]string{}
	clusters := make([]placement.Cluster, n)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range clusters {
		c := placement.Cluster{Name: fmt.Sprintf("edge-%06d", i), UID: fmt.Sprintf("%036d", i), Labels: map[string]string{
			"ring": strconv.Itoa(random.IntN(stages)), "order": strconv.Itoa(random.IntN(n)), "region": "eu",
			"topology.kubernetes.io/zone": "a",
		}}
		target.Revision[c.Name] = "revision-" + strconv.Itoa(i%5)
		clusters[i] = c
	}
	random.Shuffle(n, func(i, j int) { clusters[i], clusters[j] = clusters[j], clusters[i] })
	return s, target, clusters
}
