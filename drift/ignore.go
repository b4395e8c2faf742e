package drift

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
	patterns []pattern
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

func compilePatterns(pointers []string, path *field.Path) ([]pattern, field.ErrorList) {
	var errs field.ErrorList
	var out []pattern
	for i, s := range pointers {
		p, err := parsePattern(s)
		if err != nil {
			errs = append(errs, field.Invalid(path.Index(i), shortened(s), err.Error()))
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

// allowsClass tells whether the rule is about a class.
func (i *ignore) allowsClass(c Class) bool {
	return len(i.rule.Classes) == 0 || slices.Contains(i.rule.Classes, c)
}

// drops tells whether the rule leaves out a difference that the trail leads to.
// owner finds who wrote it and is called only where that matters.
func (i *ignore) drops(c Class, t trail, owner func() string) bool {
	return i.allowsClass(c) &&
		(len(i.patterns) == 0 || slices.ContainsFunc(i.patterns, t.within)) &&
		(len(i.rule.Managers) == 0 || slices.Contains(i.rule.Managers, owner()))
}

// trims returns what of the rule's patterns is below the end of a trail, for a
// rule that needs nothing but the class to hold.
func (i *ignore) trims(c Class, t trail) []pattern {
	if len(i.rule.Managers) > 0 || !i.allowsClass(c) {
		return nil
	}
	var below []pattern
	for _, p := range i.patterns {
		if len(p) > len(t) && t.matches(p[:len(t)]) {
			below = append(below, p[len(t):])
		}
	}
	return below
}

// trail is a path with the values that each step leads to.
type trail []place

type place struct {
	step
	inHub, inMember any
}

// follow appends the trail of a path through two objects. What one of them does
// not have is nil.
func follow(t trail, path []step, hub, member any) trail {
	for _, s := range path {
		hub, member = s.in(hub, s.hub), s.in(member, s.member)
		t = append(t, place{s, hub, member})
	}
	return t
}

// in returns the value that a step leads to from v.
func (s step) in(v any, index int) any {
	if !s.item {
		m, _ := v.(map[string]any)
		return m[s.name]
	}
	l, _ := v.([]any)
	if index < 0 || index >= len(l) {
		return nil
	}
	return l[index]
}

// matches tells whether a pattern names the whole trail.
func (t trail) matches(p pattern) bool {
	for i, g := range p {
		if !g.matches(t[i].step, t[i].inHub, t[i].inMember) {
			return false
		}
	}
	return true
}

// within tells whether a pattern names the trail or something that it is in.
func (t trail) within(p pattern) bool { return len(p) <= len(t) && t.matches(p) }

// trimmed returns a value without what patterns name inside of it. The value is
// not changed. False is a value of which nothing is left.
func trimmed(v any, patterns []pattern) (any, bool) {
	if len(patterns) == 0 {
		return v, true
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, e := range v {
			if left, ok := trimmedBelow(e, step{name: name}, patterns); ok {
				out[name] = left
			}
		}
		return out, len(out) > 0 || len(v) == 0
	case []any:
		out := make([]any, 0, len(v))
		for i, e := range v {
			if left, ok := trimmedBelow(e, step{item: true, hub: i, member: i}, patterns); ok {
				out = append(out, left)
			}
		}
		return out, len(out) > 0 || len(v) == 0
	}
	return v, true
}

func trimmedBelow(v any, s step, patterns []pattern) (any, bool) {
	var below []pattern
	for _, p := range patterns {
		if !p[0].matches(s, v, v) {
			continue
		}
		if len(p) == 1 {
			return nil, false
		}
		below = append(below, p[1:])
	}
	return trimmed(v, below)
}
