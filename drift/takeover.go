package drift

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift/internal/ownership"
)

// IsApplier reports whether a field manager is one by which people apply objects: kubectl with its commands, Helm,
// Terraform, Pulumi, and KubeFleet's agent. Controllers are none, nor are tools that apply again by themselves, such as
// those of Flux and Argo CD.
func IsApplier(manager string) bool { return ownership.IsApplier(manager) }

// TakeOver returns the managedFields of a live object in which the manager alone owns what it applied and appliers
// own too, see [IsApplier]; nil if they are so already. An API server removes a field that the manager applies no
// longer only if nobody else owns it. Fields that the manager did not apply stay with their owners, and so do those of
// managers that a rule names.
func TakeOver(live *unstructured.Unstructured, manager string, rules []IgnoreRule) []any {
	if live == nil {
		return nil
	}
	if out, changed := ownership.TakeOver(managedFields(live.Object), manager, managersOf(rules, live)); changed {
		return out
	}
	return nil
}

// managersOf are the managers that rules for an object name.
func managersOf(rules []IgnoreRule, obj *unstructured.Unstructured) (names []string) {
	gvk := obj.GroupVersionKind()
	matches := func(want, is string) bool { return want == "" || want == is }
	for i := range rules {
		r := &rules[i]
		if matches(r.Group, gvk.Group) && matches(r.Kind, gvk.Kind) && matches(r.Namespace, obj.GetNamespace()) && matches(r.Name, obj.GetName()) {
			names = slices.Concat(names, r.Managers)
		}
	}
	return names
}
