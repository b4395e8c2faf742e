package fleet_test

import (
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

const rbac = "rbac.authorization.k8s.io"

func roleBinding(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": rbac + "/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": name, "namespace": "test-namespace"},
	}}
}

// ofNamespace returns the tutorial's placement as a placement of its namespace's authors.
func ofNamespace(more ...snapshot.Selector) fleet.Placement {
	p := tutorialPlacement()
	p.Namespace = "test-namespace"
	p.Selectors = append([]snapshot.Selector{{Version: "v1", Kind: "ConfigMap", Namespace: "test-namespace", Name: "test-cm"}}, more...)
	return p
}

var envelopesOfNamespace = snapshot.Selector{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Kind: "ResourceEnvelope", Namespace: "test-namespace"}

// A placement of a namespace may not select objects, use envelopes with objects, or reach objects
// in other namespaces that its authors may not create. An administrator's placement brings existing
// objects and the contents of the envelopes that it selects.
func TestANamespacedPlacementMayNotCarryRoles(t *testing.T) {
	w := newEngineEnv(t)
	e := w.engine(w.store, "one")
	refused(t, w.store, "a role that is selected", func() error {
		return e.PutPlacement(t.Context(), ofNamespace(
			snapshot.Selector{Group: rbac, Version: "v1", Kind: "RoleBinding", Namespace: "test-namespace"},
			snapshot.Selector{Version: "v1", Kind: "ConfigMap", Namespace: "other"}))
	}, "selectors[1].kind: Forbidden: RoleBinding."+rbac, "ClusterResourcePlacement", "NamespaceRules", `selectors[2].namespace: Invalid value: "other": must be test-namespace`)
	w.puts(roleBinding("selected"), enveloped("grants", roleBinding("grant")))
	if err := e.PutPlacement(t.Context(), ofNamespace(envelopesOfNamespace)); err != nil {
		t.Fatal(err)
	}
	capture := func() error { w.holds("v0"); _, err := e.Placement(ep).Capture(t.Context()); return err }
	refused(t, w.store, "an envelope", capture, "test-namespace/grants", "data[grant.yaml]: Forbidden: RoleBinding.v1."+rbac+" test-namespace/grant", "NamespaceRules")
	must(0, e.PutPlacement(t.Context(), tutorialPlacement()))(t)
	if s := w.capture(e, "v0"); s.Objects != 4 {
		t.Errorf("a placement of an administrator brings %d objects", s.Objects)
	}
	must(0, e.PutPlacement(t.Context(), ofNamespace(envelopesOfNamespace)))(t)
	refused(t, w.store, "a snapshot that a placement of an administrator took", func() error {
		_, err := e.CreateRun(t.Context(), specOf("r", 0))
		return err
	}, "snapshot example-placement-0-snapshot has Namespace.v1 test-namespace", "Config.NamespaceRules")
	// An engine with rules that are newer than the placement takes no snapshot of it.
	lax := w.newEngine(fleet.Config{Name: "lax", NamespaceRules: &snapshot.Rules{}})
	must(0, lax.PutPlacement(t.Context(), ofNamespace(snapshot.Selector{Group: rbac, Version: "v1", Kind: "RoleBinding", Namespace: "test-namespace"})))(t)
	refused(t, w.store, "a role that was declared before", capture, "selectors[1].kind: Forbidden: RoleBinding."+rbac)
	must(lax.Placement(ep).Capture(t.Context()))(t)
	refused(t, w.store, "a snapshot that was taken before", func() error {
		_, err := e.CreateRun(t.Context(), specOf("r", 1))
		return err
	}, "snapshot example-placement-1-snapshot has RoleBinding.v1."+rbac+" test-namespace/selected", "Config.NamespaceRules", "roll out another snapshot")
}

// An override of a namespace neither changes nor removes an object that its authors may not create;
// an administrator's override may.
func TestAnOverrideOfANamespaceMayNotChangeRoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		e := w.engine(w.store, "one")
		w.puts(roleBinding("admins"))
		p := tutorialPlacement()
		p.Overrides = []placement.Override{replaceFor("canary", "mine"), {
			Name: "grant", Namespace: "test-namespace",
			Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "Secret", Name: "login"}, {Group: rbac, Version: "v1", Kind: "RoleBinding", Name: "admins"}},
			Rules:     []placement.Rule{{ClusterSelector: &placement.ClusterSelector{}, Type: placement.Delete}},
		}}
		refused(t, w.store, "an override of a role", func() error { return e.PutPlacement(t.Context(), p) },
			"overrides[1].resourceSelectors[1]: Forbidden: override test-namespace/grant may not change RoleBinding admins", "ClusterResourceOverride", "NamespaceRules")
		lax := w.newEngine(fleet.Config{Name: "lax", NamespaceRules: &snapshot.Rules{}})
		must(0, lax.PutPlacement(t.Context(), p))(t)
		w.capture(lax, "v0")
		refused(t, w.store, "an override that was frozen before", func() error {
			_, err := e.CreateRun(t.Context(), specOf("r", 0))
			return err
		}, "snapshot example-placement-0-snapshot", "override test-namespace/grant may not change RoleBinding admins", "roll out another snapshot")
		p.Overrides = []placement.Override{{
			Name:      "of-an-administrator",
			Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "Namespace", Name: "test-namespace"}},
			Rules:     []placement.Rule{{ClusterSelector: &placement.ClusterSelector{}, Patches: []placement.Patch{{Op: placement.OpAdd, Path: "/metadata/labels", Value: []byte(`{"a":"b"}`)}}}},
		}}
		if err := e.PutPlacement(t.Context(), p); err != nil {
			t.Error(err)
		}
	})
}

// The contents of an envelope of a namespace are not rolled out again after its authors have lost
// the right to bring them.
func TestStricterRulesBlockEarlierEnvelopeContents(t *testing.T) {
	w := newEngineEnv(t)
	e := w.engine(w.store, "one")
	must(0, e.PutPlacement(t.Context(), ofNamespace(envelopesOfNamespace)))(t)
	w.puts(enveloped("e", budget("1")))
	w.capture(e, "v0")
	w.puts(enveloped("e", configMap("of-envelope", "x")))
	w.capture(e, "v0")
	rules := snapshot.NamespaceRules()
	rules.Never = append(rules.Never, snapshot.GroupKind{Group: "policy"})
	strict := w.newEngine(fleet.Config{Name: "strict", NamespaceRules: &rules})
	refused(t, w.store, "an envelope of before", func() error {
		_, err := strict.CreateRun(t.Context(), specOf("back", 0))
		return err
	}, "snapshot example-placement-0-snapshot has PodDisruptionBudget.v1.policy test-namespace/limits", "Config.NamespaceRules")
	must(strict.CreateRun(t.Context(), specOf("forward", 1)))(t)
}
