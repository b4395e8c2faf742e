package fleet_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// A snapshot from before the host's rules is not rolled out against them, and clusters keep their
// existing objects of it.
func TestARollbackBringsNothingThatRulesExclude(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		defer running(t, e)()
		w.capture(e, "v0")
		w.capture(e, "v1")
		ranTo(t, e, specOf("r", 1), stages.Completed)
		strict := w.newEngine(fleet.Config{Name: "strict", Rules: snapshot.Rules{Never: []snapshot.GroupKind{{Kind: "ConfigMap"}}}})
		refused(t, w.store, "a rollback", func() error {
			_, err := strict.CreateRun(t.Context(), specOf("back", 0))
			return err
		}, "snapshot example-placement-0-snapshot", "Config.Rules", "ConfigMap.v1 test-namespace/test-cm")
		if got := w.value("member1"); got != "v1" {
			t.Errorf("member1 holds %s", got)
		}
	})
}

// An override cannot make a Secret for which the member would issue a service account token; a
// selector omits such an object, too.
func TestAnOverrideMakesNothingThatIsNeverPlaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) {
			p.Overrides = []placement.Override{{
				Name: "o", Namespace: "test-namespace",
				Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "Secret", Name: "login"}},
				Rules: []placement.Rule{
					{ClusterSelector: &placement.ClusterSelector{}, Patches: []placement.Patch{{Op: placement.OpAdd, Path: "/type", Value: []byte(`"Opaque"`)}}},
					{ClusterSelector: &placement.ClusterSelector{}, Patches: []placement.Patch{{Op: placement.OpReplace, Path: "/type", Value: []byte(`"kubernetes.io/service-account-token"`)}}},
				},
			}}
		})
		login := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "login", "namespace": "test-namespace"},
		}}
		if err := w.source.Put(login); err != nil {
			t.Fatal(err)
		}
		w.capture(e, "v0")
		refused(t, w.store, "a token", func() error {
			_, err := e.CreateRun(t.Context(), specOf("r", 0))
			return err
		}, "member1", "Secret", "login", "override test-namespace/o: overrideRules[1]", "an object that is never placed")
	})
}

// An override that breaks the base64 of a Secret fails the plan, before any cluster is
// asked to read it.
func TestAnOverrideMakesNothingThatNoClusterReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) {
			p.Overrides = []placement.Override{{
				Name: "o", Namespace: "test-namespace",
				Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "Secret", Name: "login"}},
				Rules: []placement.Rule{
					{ClusterSelector: &placement.ClusterSelector{}, Patches: []placement.Patch{{Op: placement.OpReplace, Path: "/data/user", Value: []byte(`"YW5u"`)}}},
					{ClusterSelector: &placement.ClusterSelector{}, Patches: []placement.Patch{{Op: placement.OpReplace, Path: "/data/password", Value: []byte(`"hunter2!"`)}}},
				},
			}}
		})
		login := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "login", "namespace": "test-namespace"},
			"data": map[string]any{"user": "Ym9i", "password": "eHl6"},
		}}
		if err := w.source.Put(login); err != nil {
			t.Fatal(err)
		}
		w.capture(e, "v0")
		err := refused(t, w.store, "a run", func() error {
			_, err := e.CreateRun(t.Context(), specOf("r", 0))
			return err
		}, "member1", "Secret", "login", "override test-namespace/o: overrideRules[1]", "data[password]: Invalid value: must be base64")
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error quotes the value: %v", err)
		}
	})
}
