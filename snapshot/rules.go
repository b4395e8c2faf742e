package snapshot

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns everything that is wrong with the rules, which are at path:
// names that no namespace has, entries that name no kind. A nil path is "rules".
func (r Rules) Validate(path *field.Path) field.ErrorList {
	if path == nil {
		path = field.NewPath("rules")
	}
	var errs field.ErrorList
	for i, name := range r.Reserved {
		for _, m := range validation.IsDNS1123Label(name) {
			errs = append(errs, field.Invalid(path.Child("reserved").Index(i), name, m))
		}
	}
	errs = append(errs, validateKinds(r.Never, path.Child("never"))...)
	return append(errs, validateKinds(r.Only, path.Child("only"))...)
}

func validateKinds(kinds []GroupKind, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, k := range kinds {
		if k.Kind == "" && k.Group == "" {
			errs = append(errs, field.Required(path.Index(i).Child("kind"), "for example Secret; only a group that has a name can stand for all its kinds"))
		}
	}
	return errs
}

// Propagates tells whether an object may be placed on other clusters: the
// function [Propagates] says so, its kind and its namespace are not among those
// that the rules exclude.
func (r Rules) Propagates(obj *unstructured.Unstructured) bool {
	return obj != nil && r.propagates(IDOf(obj), obj.Object)
}

// Allows tells whether the rules let an object of that name be placed, whatever is
// in it: see [Rules.Propagates] for that.
func (r Rules) Allows(id ID) bool { return r.allows(id.Group, id.Kind) && !r.reserves(id) }

func (r Rules) propagates(id ID, obj map[string]any) bool {
	return r.Allows(id) && propagates(id, obj)
}

// allows tells whether objects of a kind are placed, as far as the host has a say.
func (r Rules) allows(group, kind string) bool {
	is := func(k GroupKind) bool { return k.Group == group && (k.Kind == "" || k.Kind == kind) }
	return !slices.ContainsFunc(r.Never, is) && (len(r.Only) == 0 || slices.ContainsFunc(r.Only, is))
}

// reserves tells whether an object is, or is in, a namespace that is never placed.
func (r Rules) reserves(id ID) bool {
	return reserved(id) || slices.Contains(r.Reserved, namespaceOf(id))
}

// reservedNames lists the namespaces that are never placed, for people.
func (r Rules) reservedNames() string {
	return strings.Join(append([]string{"kube-*", "fleet-*", "slipway-system"}, r.Reserved...), ", ")
}
