package drift

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/internal/value"
)

// IgnoreRule leaves differences out of reports, and with [Strip] fields out of
// what is applied. What is set must all hold; of the values of a list, one. At
// least one of Pointers, Managers and Classes is needed.
type IgnoreRule struct {
	// Group, Kind, Namespace and Name narrow the rule to objects; empty is any.
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Pointers are JSON pointers (RFC 6901) to fields, which are ignored with
	// everything below them. The level * is any name or index. An item of a list
	// is named by its keys, [name=app] or [containerPort=80,protocol="UDP"], the
	// item of a set by its value, [="a"]; it may be named by its index on the
	// member too. The empty pointer is the whole object.
	Pointers []string `json:"pointers,omitempty"`
	// Managers are field managers: what one of them wrote last on the member is
	// ignored.
	Managers []string `json:"managers,omitempty"`
	// Classes are the classes of differences that are ignored.
	Classes []Class `json:"classes,omitempty"`
}

// ValidateIgnoreRules returns every problem of rules, with their indexes.
func ValidateIgnoreRules(rules []IgnoreRule, path *field.Path) field.ErrorList {
	_, errs := compileIgnores(rules, path)
	return errs
}

// ignore is a rule that is ready for use.
type ignore struct {
	rule     IgnoreRule
	patterns []fieldpath.Pattern
}

func compileIgnores(rules []IgnoreRule, path *field.Path) ([]ignore, field.ErrorList) {
	var errs field.ErrorList
	out := make([]ignore, len(rules))
	for i, r := range rules {
		at := path.Index(i)
		if len(r.Pointers)+len(r.Managers)+len(r.Classes) == 0 {
			errs = append(errs, field.Required(at, "a rule names pointers, managers or classes; the pointer \"\" is the whole object"))
		}
		patterns, wrong := compilePatterns(r.Pointers, at.Child("pointers"))
		errs = append(append(errs, wrong...), checkRule(r, at)...)
		out[i] = ignore{rule: r, patterns: patterns}
	}
	return out, errs
}

func compilePatterns(pointers []string, path *field.Path) ([]fieldpath.Pattern, field.ErrorList) {
	var errs field.ErrorList
	var out []fieldpath.Pattern
	for i, s := range pointers {
		p, err := fieldpath.ParsePattern(s)
		if err != nil {
			errs = append(errs, field.Invalid(path.Index(i), value.Shorten(s), err.Error()))
		}
		out = append(out, p)
	}
	return out, errs
}

func checkRule(r IgnoreRule, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, m := range r.Managers {
		if m == "" {
			errs = append(errs, field.Required(at.Child("managers").Index(i), "the name of a field manager"))
		}
	}
	known := []Class{Changed, Missing, Stale, Order, Unmanaged}
	for i, c := range r.Classes {
		if !slices.Contains(known, c) {
			errs = append(errs, field.NotSupported(at.Child("classes").Index(i), c, known))
		}
	}
	return errs
}

// narrowed returns the rules that are about an object.
func narrowed(all []ignore, obj *unstructured.Unstructured) []ignore {
	kind := obj.GroupVersionKind()
	return slices.DeleteFunc(slices.Clone(all), func(i ignore) bool {
		return !allows(i.rule.Group, kind.Group) || !allows(i.rule.Kind, kind.Kind) ||
			!allows(i.rule.Namespace, obj.GetNamespace()) || !allows(i.rule.Name, obj.GetName())
	})
}

func allows(want, is string) bool { return want == "" || want == is }

// allowsClass reports whether the rule is about a class.
func (i *ignore) allowsClass(c Class) bool {
	return len(i.rule.Classes) == 0 || slices.Contains(i.rule.Classes, c)
}

// drops reports whether the rule drops the difference at a trail. owner returns the manager of the field and
// is called only if the rule names managers.
func (i *ignore) drops(c Class, t fieldpath.Trail, owner func() string) bool {
	return i.allowsClass(c) &&
		(len(i.patterns) == 0 || slices.ContainsFunc(i.patterns, t.Within)) &&
		(len(i.rule.Managers) == 0 || slices.Contains(i.rule.Managers, owner()))
}

// trims returns what of the rule's patterns is below the end of a trail, for a
// rule that needs nothing but the class to hold.
func (i *ignore) trims(c Class, t fieldpath.Trail) []fieldpath.Pattern {
	if len(i.rule.Managers) > 0 || !i.allowsClass(c) {
		return nil
	}
	var below []fieldpath.Pattern
	for _, p := range i.patterns {
		if len(p) > len(t) && t.Matches(p[:len(t)]) {
			below = append(below, p[len(t):])
		}
	}
	return below
}
