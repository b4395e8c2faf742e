package hub

import (
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/stages"
)

// The request of a run may have the name of one of another run only where the name of that is its beginning, up to a
// hyphen; so these are all that have to be asked.
func TestTheRunsThatARequestMayBeOf(t *testing.T) {
	for name, want := range map[string][]string{
		"web-before-prod": {"web", "web-before"}, "web-prod": {"web"}, "web": nil, "": nil, "-web": nil, "a--b": {"a", "a-"},
	} {
		if got := slices.Collect(runsOfRequest(name)); !slices.Equal(got, want) {
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

// Of two runs that have not begun and whose requests would have one name exactly one is in the way of the other: the
// older one, as long as it may begin.
func TestOneOfTwoRunsThatHaveNotBegunIsRefused(t *testing.T) {
	const gate = `[{type: Approval}]`
	run := func(name, strategy string, second int64) *unstructured.Unstructured {
		u := objectAt(key{Namespace: "web", Name: name})
		u.SetCreationTimestamp(metav1.Unix(second, 0))
		setSpec(u, strategy, "stagedRolloutStrategyName")
		return u
	}
	strategy := func(name, side string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		text := `{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: StagedUpdateStrategy, metadata: {name: ` + name + `, namespace: web},
			spec: {stages: [{name: s1, labelSelector: {}, ` + side + `StageTasks: ` + gate + `}]}}`
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		return u
	}
	early, late := strategy("early", "before"), strategy("late", "after")
	for name, c := range map[string]struct {
		x, other *unstructured.Unstructured
		change   func(x, other *unstructured.Unstructured)
		refused  [2]bool
	}{
		"x is older":          {run("x", "early", 1), run("x-before", "late", 2), nil, [2]bool{false, true}},
		"x is younger":        {run("x", "early", 2), run("x-before", "late", 1), nil, [2]bool{true, false}},
		"both in one second":  {run("x", "early", 1), run("x-before", "late", 1), nil, [2]bool{false, true}},
		"x asks after":        {run("x", "late", 1), run("x-before", "late", 2), nil, [2]bool{false, false}},
		"the strategy of x":   {run("x", "none", 1), run("x-before", "late", 2), nil, [2]bool{false, false}},
		"x was refused":       {run("x", "early", 1), run("x-before", "late", 2), func(x, _ *unstructured.Unstructured) { refuse(x) }, [2]bool{false, false}},
		"x is being deleted":  {run("x", "early", 1), run("x-before", "late", 2), func(x, _ *unstructured.Unstructured) { now := metav1.Now(); x.SetDeletionTimestamp(&now) }, [2]bool{false, false}},
		"a run of other name": {run("x", "early", 1), run("xx-before", "late", 2), nil, [2]bool{false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change != nil {
				c.change(c.x, c.other)
			}
			s, _ := lonely(t, c.x, c.other, early, late)
			var got [2]bool
			for i, obj := range []*unstructured.Unstructured{c.x, c.other} {
				template := s.seen(namespaceScope.gvr(strategyKind), key{Namespace: "web", Name: strategyOf(obj)})
				if template == nil {
					continue
				}
				strategy, err := kubefleet.StrategyOf(template)
				if err != nil {
					t.Fatal(err)
				}
				err = s.nameProblem(t.Context(), keyOf(obj), obj, &strategy)
				if got[i] = err != nil; got[i] && !errors.Is(err, backend.ErrPermanent) {
					t.Error(err)
				}
			}
			if got != c.refused {
				t.Errorf("refused are %v, want %v", got, c.refused)
			}
		})
	}
}

// refuse makes a run one that was refused.
func refuse(u *unstructured.Unstructured) {
	u.SetGeneration(1)
	u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Initialized", "status": "False", "observedGeneration": int64(1)}}}
}

// A run that is just being recorded is in the way of one that is older: they would both begin otherwise.
func TestARunThatIsJustBeginningIsInTheWay(t *testing.T) {
	older, younger := objectAt(key{Name: "x"}), objectAt(key{Name: "x-before"})
	older.SetCreationTimestamp(metav1.Unix(1, 0))
	younger.SetCreationTimestamp(metav1.Unix(2, 0))
	s, _ := lonely(t, older, younger)
	asks := []stages.Task{{Type: stages.Approval}}
	before, after := stages.Strategy{Stages: []stages.Stage{{Name: "s1", Before: asks}}}, stages.Strategy{Stages: []stages.Stage{{Name: "s1", After: asks}}}
	release, err := s.reserve(t.Context(), keyOf(younger), younger, &after)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.reserve(t.Context(), keyOf(older), older, &before); err == nil || !errors.Is(err, backend.ErrPermanent) {
		t.Errorf("the older one begins, too: %v", err)
	}
	release()
	if _, err := s.reserve(t.Context(), keyOf(older), older, &before); err != nil {
		t.Errorf("the younger one did not begin, and is in the way: %v", err)
	}
}
