package snapshot

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateSelectors returns all problems of selectors: an empty list, a missing version or kind,
// both a name and a label selector, an invalid label selector, a reserved namespace by name, an
// unknown scope or a scope without effect, a duplicate selector. Field paths in errors start with
// path; nil is "selectors".
func ValidateSelectors(selectors []Selector, path *field.Path) field.ErrorList {
	return Rules{}.ValidateSelectors(selectors, path)
}

// ValidateSelectors is the function [ValidateSelectors] with the restrictions of the rules: a
// selector cannot name a namespace or a kind that is never placed.
func (r Rules) ValidateSelectors(selectors []Selector, path *field.Path) field.ErrorList {
	if path == nil {
		path = field.NewPath("selectors")
	}
	if len(selectors) == 0 {
		return field.ErrorList{field.Required(path, "at least one selector says what is to be placed")}
	}
	var errs field.ErrorList
	first := make(map[pick]int, len(selectors))
	for i, s := range selectors {
		errs = append(errs, r.validate(s, path.Index(i))...)
		if at, twice := first[s.pick()]; twice {
			errs = append(errs, field.Invalid(path.Index(i), field.OmitValueType{}, "selects what "+path.Index(at).String()+" selects already"))
			continue
		}
		first[s.pick()] = i
	}
	return append(errs, validateWithin(selectors, path)...)
}

// pick is the key by which selectors are compared. Their scopes do not count.
type pick struct{ group, version, kind, namespace, name, labels string }

func (s Selector) pick() pick {
	p := pick{group: s.Group, version: s.Version, kind: s.Kind, namespace: s.Namespace, name: s.Name}
	if s.LabelSelector != nil {
		b, _ := json.Marshal(s.LabelSelector) // it has only strings, and keys are sorted
		p.labels = string(b)
	}
	return p
}

func (r Rules) validate(s Selector, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Version == "" {
		errs = append(errs, field.Required(path.Child("version"), "for example v1"))
	}
	switch {
	case s.Kind == "":
		errs = append(errs, field.Required(path.Child("kind"), "for example Namespace"))
	case !r.allows(s.Group, s.Kind) || neverPlaced(s.Group, s.Kind):
		errs = append(errs, field.Invalid(path.Child("kind"), s.Kind, "objects of this kind are never placed"))
	}
	if s.Name != "" && s.LabelSelector != nil {
		errs = append(errs, field.Forbidden(path.Child("labelSelector"), "a selector has a name or a labelSelector, not both"))
	}
	errs = append(errs, r.validateNamespace(s, path)...)
	errs = append(errs, s.validateScope(path)...)
	return append(errs, validation.ValidateLabelSelector(s.LabelSelector, validation.LabelSelectorValidationOptions{}, path.Child("labelSelector"))...)
}

// validateNamespace reports problems with the namespaces that the selector names.
func (r Rules) validateNamespace(s Selector, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.isNamespace() && r.Reserves(ID{Kind: s.Kind, Name: s.Name}) {
		errs = append(errs, field.Invalid(path.Child("name"), s.Name, "the namespaces "+r.reservedNames()+" belong to the cluster and are never placed"))
	}
	switch {
	case s.Namespace != "" && s.isNamespace():
		errs = append(errs, field.Forbidden(path.Child("namespace"), "a Namespace is in no namespace"))
	case r.Reserves(ID{Namespace: s.Namespace}):
		errs = append(errs, field.Invalid(path.Child("namespace"), s.Namespace, "nothing in "+r.reservedNames()+" is ever placed"))
	}
	return errs
}

func (s Selector) validateScope(path *field.Path) field.ErrorList {
	at := path.Child("selectionScope")
	switch s.Scope {
	case "", NamespaceWithResources:
		return nil
	case NamespaceOnly, NamespaceWithResourceSelectors:
	default:
		return field.ErrorList{field.NotSupported(at, s.Scope, []Scope{NamespaceOnly, NamespaceWithResources, NamespaceWithResourceSelectors})}
	}
	if !s.isNamespace() {
		return field.ErrorList{field.Forbidden(at, "only a Namespace brings something along; leave it out for a "+s.Kind)}
	}
	if s.Scope == NamespaceWithResourceSelectors && s.Name == "" {
		return field.ErrorList{field.Required(path.Child("name"), "the scope NamespaceWithResourceSelectors needs the name of one Namespace")}
	}
	return nil
}

// validateWithin reports selectors that conflict with a selector that confines the selection to
// its namespace.
func validateWithin(selectors []Selector, path *field.Path) field.ErrorList {
	at, only := -1, ""
	for i, s := range selectors {
		if s.isNamespace() && s.Scope == NamespaceWithResourceSelectors {
			at, only = i, s.Name
			break
		}
	}
	if at < 0 {
		return nil
	}
	var errs field.ErrorList
	for i, s := range selectors {
		switch {
		case i != at && s.isNamespace():
			errs = append(errs, field.Forbidden(path.Index(i),
				path.Index(at).String()+" has the scope NamespaceWithResourceSelectors and must be the only selector of Namespaces"))
		case s.Namespace != "" && s.Namespace != only && only != "":
			errs = append(errs, field.Invalid(path.Index(i).Child("namespace"), s.Namespace,
				"must be "+only+", to which "+path.Index(at).String()+" confines what is selected"))
		}
	}
	return errs
}
