package drift

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift/internal/ownership"
)

// IsApplier reports whether people use the field manager to apply objects: kubectl with
// its commands, Helm, Terraform, Pulumi, and KubeFleet's agent. It reports false for
// controllers and for tools that reapply objects by themselves, such as Flux and Argo CD.
func IsApplier(manager string) bool { return ownership.IsApplier(manager) }

// TakeOver returns the managedFields of a live object after it removed the appliers, see
// [IsApplier], from the owners of fields that the manager applied. It returns nil if
// nothing changes. The ownership matters because an API server removes a field that the
// manager no longer applies only if no other manager owns the field. Fields that the
// manager did not apply keep their owners, and managers named in a rule keep their fields.
func TakeOver(live *unstructured.Unstructured, manager string, rules []IgnoreRule) []any {
	if live == nil {
		return nil
	}
	if out, changed := ownership.TakeOver(managedFields(live.Object), manager, managersOf(rules, live)); changed {
		return out
	}
	return nil
}

// managersOf returns the managers named in the rules that match an object.
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
