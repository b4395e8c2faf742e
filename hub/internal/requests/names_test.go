package requests

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// The request of a run may have the name of one of another run only where the name of that is its beginning, up to a
// hyphen; so these are all that have to be asked.
func TestTheRunsThatARequestMayBeOf(t *testing.T) {
	for name, want := range map[string][]string{
		"web-before-prod": {"web", "web-before"}, "web-prod": {"web"}, "web": nil, "": nil, "-web": nil, "a--b": {"a", "a-"},
	} {
		if got := slices.Collect(RunsOfRequest(name)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestRequestsOfTwoRunsThatHaveOneName(t *testing.T) {
	s := stages.Strategy{Stages: []stages.Stage{
		{Name: "y", Before: []stages.Task{{Type: stages.Approval}}},
		{Name: "before-z", After: []stages.Task{{Type: stages.TimedWait}, {Type: stages.Approval}}},
		{Name: "w", Before: []stages.Task{{Type: stages.ScheduledStart}}, After: []stages.Task{{Type: stages.TimedWait}}},
	}}
	gates := gatesOf(&s)
	if want := []gateName{{"y", approval.Before}, {"before-z", approval.After}}; !slices.Equal(gates, want) {
		t.Fatalf("the gates are %v, want %v", gates, want)
	}
	for name, want := range map[string]string{
		"x-before-y": "before stage y", "x-before-z": "after stage before-z", "x-y": "", "x-w": "", "x-before-before-y": "", "z-before-y": "",
	} {
		g, ok := sameRequest(name, "x", gates)
		if ok != (want != "") || ok && g.String() != want {
			t.Errorf("%s: %v %v, want %q", name, g, ok, want)
		}
	}
}

// Of two runs one is always the older, also where they were created in the same second.
func TestExactlyOneOfTwoRunsIsOlder(t *testing.T) {
	object := func(second int64, uid string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetCreationTimestamp(metav1.Unix(second, 0))
		u.SetUID(types.UID(uid))
		return u
	}
	for _, two := range [][2]*unstructured.Unstructured{
		{object(1, "b"), object(2, "a")}, {object(1, "a"), object(1, "b")},
	} {
		if !isOlder(two[0], two[1]) || isOlder(two[1], two[0]) {
			t.Errorf("%s of %v and %s of %v", two[0].GetUID(), two[0].GetCreationTimestamp(), two[1].GetUID(), two[1].GetCreationTimestamp())
		}
	}
}
