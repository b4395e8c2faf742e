package runs

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/stages"
)

// TestAuthorOfARollback: the author of a rollback is the user that the API server stamped, not
// the creator of the run. Without stamps there is no author.
func TestAuthorOfARollback(t *testing.T) {
	obj := objectAt(api.Key{Name: "r"})
	obj.SetGeneration(7)
	obj.SetAnnotations(map[string]string{manifests.CreatedBy: "ann", manifests.RollbackBy: "bob"})
	for stamped, want := range map[bool]string{true: "bob", false: ""} {
		got := rollbackOptions(obj, stamped)
		if got.By.Name != want || got.Reason != "spec.state of generation 7" || got.Name != "" {
			t.Errorf("stamped is %t: the rollback is asked for as %+v, want it to be by %q, for spec.state of generation 7", stamped, got, want)
		}
	}
	obj.SetAnnotations(map[string]string{manifests.CreatedBy: "ann"})
	if got := rollbackOptions(obj, true); got.By.Name != "" {
		t.Errorf("nobody was stamped, and the rollback is by %q", got.By.Name)
	}
}

// TestObjectsThatStartNoRun: no run begins for an object that shows a run, a copy of such an
// object, an object that claims to be a rollback, and an object with the state Rollback.
func TestObjectsThatStartNoRun(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*unstructured.Unstructured)
		state  v1beta1.State
		shows  bool
		want   string
	}{
		"a run":           {},
		"a run that runs": {state: v1beta1.StateRun},
		"the seal":        {change: func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{api.AnnotationSeal: "x"}) }, shows: true},
		"the label":       {change: func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{api.LabelRollbackOf: "r"}) }, want: "slipway.dev/rollback-of is for runs that the hub makes"},
		"the state":       {state: v1beta1.StateRollback, want: "begin the run with another state"},
	} {
		obj := objectAt(api.Key{Name: "r"})
		if c.change != nil {
			c.change(obj)
		}
		if got := api.ShowsRun(obj); got != c.shows {
			t.Errorf("%s: it shows a run is %t, want %t", what, got, c.shows)
		}
		text := ""
		if err := notBegun(kubefleet.Run{State: c.state}, obj); err != nil {
			text = err.Error()
		}
		if text != c.want && (c.want == "" || !strings.Contains(text, c.want)) {
			t.Errorf("%s: no run is begun because %q, want %q", what, text, c.want)
		}
	}
}

// TestOrdersOfARollbackAreItsOwn: a recreated object begins with the first generation again. Its
// commands must differ from the commands of the object before it, whatever its labels say.
func TestOrdersOfARollbackAreItsOwn(t *testing.T) {
	obj := objectAt(api.Key{Name: "r"})
	obj.SetGeneration(2)
	if got := commandID(obj, &stages.Plan{}); got != "state-2" {
		t.Errorf("the order of a run is %s", got)
	}
	if got := commandID(obj, &stages.Plan{Rollback: &stages.PlannedRollback{}}); got != "state-uid-of-r-2" {
		t.Errorf("the order of a run that takes back is %s", got)
	}
}

// objectAt is the object of a run.
func objectAt(k api.Key) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	u.SetGroupVersionKind(api.ScopeOf(k).GVK(api.RunKind))
	u.SetNamespace(k.Namespace)
	u.SetName(k.Name)
	u.SetUID(types.UID("uid-of-" + k.Name))
	return u
}
