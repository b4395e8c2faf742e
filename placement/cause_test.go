package placement_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/placement"
)

// If several rules change an object, Cause names the rule of the final state, even if a rule in
// between undid the change.
func TestCauseNamesTheDecisiveRule(t *testing.T) {
	set := func(value string) placement.Rule {
		return placement.Rule{ClusterSelector: &placement.ClusterSelector{}, Patches: []placement.Patch{{Op: placement.OpAdd, Path: "/data/key", Value: []byte(`"` + value + `"`)}}}
	}
	override := func(namespace, name string, rules ...placement.Rule) placement.Override {
		o := placement.Override{Namespace: namespace, Name: name, Rules: rules, Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "ConfigMap", Name: "cm"}}}
		if namespace == "" {
			o.Selectors = []placement.ObjectSelector{{Version: "v1", Kind: "Namespace", Name: "ns"}}
		}
		return o
	}
	bad := func(o *unstructured.Unstructured) bool {
		key, _, _ := unstructured.NestedString(o.Object, "data", "key")
		return key == "bad"
	}
	elsewhere := set("bad")
	elsewhere.ClusterSelector = nil
	for _, c := range []struct {
		name, key string
		overrides []placement.Override
		want      string
	}{
		{"the only one", "good", []placement.Override{override("ns", "o", set("bad"))}, "override ns/o: overrideRules[0]"},
		{"of two overrides", "good", []placement.Override{override("", "wide", set("other")), override("ns", "o", elsewhere, set("good"), set("bad"), set("bad"))}, "override ns/o: overrideRules[2]"},
		{"made again", "good", []placement.Override{override("", "wide", set("bad")), override("ns", "o", set("good"), set("bad"))}, "override ns/o: overrideRules[1]"},
		{"it was before", "bad", []placement.Override{override("ns", "o", set("bad"))}, ""},
		{"no rule selects it", "bad", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cm := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "cm", "namespace": "ns"}, "data": map[string]any{"key": c.key},
			}}
			r, err := placement.NewRenderer([]*unstructured.Unstructured{cm}, c.overrides)
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.Render(placement.Cluster{Name: "m"})
			if err != nil {
				t.Fatal(err)
			}
			if cause := r.Cause(placement.Cluster{Name: "m"}, got[0], bad); cause != c.want {
				t.Errorf("%q, want %q", cause, c.want)
			}
		})
	}
}
