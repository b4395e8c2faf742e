package placement_test

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/placement"
)

// The override with the higher priority has the last word, whatever the names are.
func ExampleOverride() {
	settings := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "shop", "name": "settings"},
		"data": map[string]any{"level": "info"},
	}}
	level := func(name, level string, priority int32) placement.Override {
		return placement.Override{
			Name: name, Namespace: "shop", Priority: priority,
			Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "ConfigMap", Name: "settings"}},
			Rules: []placement.Rule{{
				ClusterSelector: &placement.ClusterSelector{}, // every cluster
				Patches:         []placement.Patch{{Op: placement.OpReplace, Path: "/data/level", Value: json.RawMessage(`"` + level + `"`)}},
			}},
		}
	}
	overrides := []placement.Override{level("incident", "debug", 10), level("team", "warn", 0)}
	fmt.Println("problems:", placement.ValidateOverrides(overrides, nil).ToAggregate())
	out, err := placement.Render([]*unstructured.Unstructured{settings}, overrides, placement.Cluster{Name: "eu-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out[0].Object["data"])
	// Output:
	// problems: <nil>
	// map[level:debug]
}

// A restriction protects a field even if a patch changes a path above it.
func ExampleRestriction() {
	role := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": map[string]any{"namespace": "shop", "name": "reader"},
		"rules": []any{map[string]any{"resources": []any{"pods"}, "verbs": []any{"get"}}},
	}}
	wider := placement.Override{
		Name: "wider", Namespace: "shop",
		Selectors: []placement.ObjectSelector{{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role", Name: "reader"}},
		Rules: []placement.Rule{{
			ClusterSelector: &placement.ClusterSelector{},
			Patches:         []placement.Patch{{Op: placement.OpReplace, Path: "/rules/0", Value: json.RawMessage(`{"resources":["pods"],"verbs":["*"]}`)}},
		}},
	}
	verbs := placement.Restriction{Group: "rbac.authorization.k8s.io", Kind: "*", Paths: []string{"/rules/*/verbs"}}
	_, err := placement.Render([]*unstructured.Unstructured{role}, []placement.Override{wider}, placement.Cluster{Name: "eu-1"}, verbs)
	fmt.Println(err)
	// Output:
	// cluster eu-1: Role shop/reader: override shop/wider: overrideRules[0]: jsonPatchOverrides[0]: replace /rules/0: the host forbids overrides to change /rules/*/verbs of *.rbac.authorization.k8s.io
}
