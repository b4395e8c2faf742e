package hub

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/stages"
)

// Of two runs that have not begun and whose requests would have one name exactly one is in the way of the other: the
// older one, as long as it may begin.
func TestOneOfTwoRunsThatHaveNotBegunIsRefused(t *testing.T) {
	const gate = `[{type: Approval}]`
	run := func(name, strategy string, second int64) *unstructured.Unstructured {
		u := objectAt(api.Key{Namespace: "web", Name: name})
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
				template := s.client.Cached(api.NamespaceScope.GVR(api.StrategyKind), api.Key{Namespace: "web", Name: api.StrategyOf(obj)})
				if template == nil {
					continue
				}
				strategy, err := kubefleet.StrategyOf(template)
				if err != nil {
					t.Fatal(err)
				}
				err = s.requests.NameProblem(t.Context(), api.KeyOf(obj), obj, &strategy)
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
	older, younger := objectAt(api.Key{Name: "x"}), objectAt(api.Key{Name: "x-before"})
	older.SetCreationTimestamp(metav1.Unix(1, 0))
	younger.SetCreationTimestamp(metav1.Unix(2, 0))
	s, _ := lonely(t, older, younger)
	asks := []stages.Task{{Type: stages.Approval}}
	before, after := stages.Strategy{Stages: []stages.Stage{{Name: "s1", Before: asks}}}, stages.Strategy{Stages: []stages.Stage{{Name: "s1", After: asks}}}
	release, err := s.requests.Reserve(t.Context(), api.KeyOf(younger), younger, &after)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.requests.Reserve(t.Context(), api.KeyOf(older), older, &before); err == nil || !errors.Is(err, backend.ErrPermanent) {
		t.Errorf("the older one begins, too: %v", err)
	}
	release()
	if _, err := s.requests.Reserve(t.Context(), api.KeyOf(older), older, &before); err != nil {
		t.Errorf("the younger one did not begin, and is in the way: %v", err)
	}
}
