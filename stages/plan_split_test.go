package stages

import (
	"errors"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// However many processors divide the work on a large plan, it is the same plan,
// and the same problems are reported in the same order.
func TestPlanOfManyClustersIsTheSameOnAnyProcessors(t *testing.T) {
	s, target, clusters := planLarge(planSplitFrom + 11)
	s.Stages[0].Groups = []Group{
		{Name: "one", Selector: planSel("region", "eu"), MaxConcurrency: planStr("50%")},
		{Name: "two", Selector: planSel("order", "0"), MaxConcurrency: planStr("50%")},
	}
	s.Unassigned = UnassignedExclude
	for i := range clusters {
		if i%1000 == 0 {
			clusters[i].Labels["ring"] = "none"
		}
		if i%1500 == 0 {
			delete(clusters[i].Labels, "order")
		}
		if i%700 == 0 {
			clusters[i].Labels["ring"], clusters[i].Labels["region"] = "0", "us"
		}
	}
	var whole *Plan
	onProcessors(t, func(n int) {
		p, err := NewPlan(s, target, clusters)
		if err != nil {
			t.Fatal(err)
		}
		if whole == nil {
			whole = p
		}
		if p.Digest != whole.Digest || !slices.Equal(p.byName, whole.byName) {
			t.Errorf("on %d processors, not the plan that it is on one", n)
		}
		if diff := cmp.Diff(whole.Warnings, p.Warnings); diff != "" {
			t.Errorf("on %d processors, not the warnings that there are on one:\n%s", n, diff)
		}
	})
	if len(whole.Warnings) < 2 {
		t.Errorf("the warnings are %q, expected those of clusters left out and without the label", whole.Warnings)
	}

	sameProblems := func(what string, least int) {
		t.Helper()
		var whole []string
		onProcessors(t, func(n int) {
			_, err := NewPlan(s, target, clusters)
			problems := everyProblem(t, err)
			if whole == nil {
				whole = problems
			}
			if diff := cmp.Diff(whole, problems); diff != "" {
				t.Fatalf("%s: on %d processors, not as on one:\n%s", what, n, diff)
			}
		})
		if len(whole) < least {
			t.Errorf("%s: only the problems %q", what, whole)
		}
	}
	s.Unassigned = ""
	for i := range clusters {
		if i%900 == 0 {
			clusters[i].Labels["order"] = "0"
			clusters[i].Labels["ring"] = "0"
		}
	}
	sameProblems("clusters in no stage, in no group and in two", 3)
	for i := range clusters {
		switch i % 900 {
		case 1:
			clusters[i].Name = clusters[0].Name
		case 2:
			clusters[i].UID = "two words"
		case 3:
			clusters[i].Name = "Edge" + strconv.Itoa(i)
		}
	}
	sameProblems("names and UIDs", 3)
}

// onProcessors calls do while Go code runs on one processor, on two, on seven.
func onProcessors(t *testing.T, do func(n int)) {
	t.Helper()
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for _, n := range []int{1, 2, 7} {
		runtime.GOMAXPROCS(n)
		do(n)
	}
}

func everyProblem(t *testing.T, err error) (out []string) {
	t.Helper()
	var all utilerrors.Aggregate
	if !errors.As(err, &all) {
		t.Fatalf("the error is %v, expected an aggregate", err)
	}
	for _, e := range all.Errors() {
		out = append(out, e.Error())
	}
	return out
}
