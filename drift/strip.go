package drift

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/drift/internal/compare"
	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/internal/kinds"
	"github.com/slipway-dev/slipway/drift/internal/ownership"
	"github.com/slipway-dev/slipway/drift/internal/value"
	"github.com/slipway-dev/slipway/drift/schema"
)

// Strip returns the object to apply if rules leave fields of obj to other managers.
// live is the member's object, or nil if the member has none; manager is the field
// manager that applies. A rule matches a field by its pointer, or if one of the rule's
// managers wrote the field last. Strip treats a matched field as follows:
//
//   - If the live object lacks it, the field keeps the value of obj.
//   - If another manager owns it on the live object, the field is omitted.
//   - If only manager owns it, the field gets the live value, because omitting it
//     would delete it on the member. This holds even if obj no longer has the field.
//   - If it has no owner, the field is omitted. If the live object has no managedFields,
//     the field gets the live value.
//
// A rule with classes must name Changed to omit or replace a field, and Stale to keep a
// field that obj lacks; a rule without classes does both. Strip keeps the fields that
// identify the object and the items of lists. It matches items by the keys of the built-in
// schemas or of the live object's managedFields, and otherwise by index if both lists
// have the same length. Invalid rules have no effect; see [ValidateIgnoreRules].
// Strip changes neither obj nor live; the result may share values with obj.
func Strip(obj, live *unstructured.Unstructured, rules []IgnoreRule, manager string) *unstructured.Unstructured {
	if obj == nil || live == nil || live.Object == nil || len(rules) == 0 {
		return obj
	}
	compiled, errs := compileIgnores(rules, field.NewPath("ignore"))
	active := narrowed(compiled, obj)
	if len(errs) > 0 || len(active) == 0 || compare.CheckLimits(live.Object) != nil {
		return obj
	}
	owners, _ := ownership.Parse(managedFields(live.Object))
	s := stripping{owners: owners, manager: manager}
	out, _ := s.object(obj.Object, live.Object, strand{
		typ:  schema.Builtin().Type(obj.GroupVersionKind()),
		aims: aimsOf(active),
	})
	return &unstructured.Unstructured{Object: out}
}

// aim is a rule with the rest of one of its patterns. An empty rest matches everything
// from here on.
type aim struct {
	rule *ignore
	rest fieldpath.Pattern
}

func aimsOf(rules []ignore) []aim {
	var aims []aim
	for i := range rules {
		r := &rules[i]
		for _, p := range r.patterns {
			aims = append(aims, aim{r, p})
		}
		if len(r.patterns) == 0 && len(r.rule.Managers) > 0 {
			aims = append(aims, aim{rule: r})
		}
	}
	return aims
}

// strand is a place in both objects.
type strand struct {
	typ  *schema.Type
	aims []aim
	path []ownership.Step
	// whole is set inside of an atomic list, in which no field can be omitted.
	whole bool
}

// below returns the strand that a step leads to.
func (p strand) below(s fieldpath.Step, obj, live any) strand {
	next := strand{whole: p.whole, typ: value.ElemOf(p.typ)}
	if !s.Item {
		_, next.typ = value.FieldOf(p.typ, s.Name)
	}
	for _, a := range p.aims {
		if len(a.rest) == 0 {
			next.aims = append(next.aims, a)
		} else if a.rest[0].Matches(s, obj, live) {
			next.aims = append(next.aims, aim{a.rule, a.rest[1:]})
		}
	}
	own := ownership.Step{Name: s.Name, Item: s.Item, Index: s.Member, Value: live}
	next.path = append(slices.Clip(p.path), own)
	return next
}

// reached reports whether a rule is about everything from here on.
func (p strand) reached() bool {
	return slices.ContainsFunc(p.aims, func(a aim) bool { return len(a.rest) == 0 })
}

type stripping struct {
	owners  *ownership.Fields
	manager string
}

// value returns the value to apply for v, and false to omit it.
func (s *stripping) value(v, live any, p strand) (any, bool) {
	if len(p.aims) == 0 || live == nil {
		return v, true
	}
	switch v := v.(type) {
	case map[string]any:
		if l, ok := live.(map[string]any); ok && len(v) > 0 {
			return s.object(v, l, p)
		}
	case []any:
		if l, ok := live.([]any); ok && len(v) > 0 {
			return s.list(v, l, p)
		}
	}
	return s.leaf(v, live, p)
}

// leaf returns the value to apply for a plain value or an atomic list, and false to omit it.
func (s *stripping) leaf(v, live any, p strand) (any, bool) {
	if !s.concerned(p, Changed) {
		return v, true
	}
	own, others := s.owners.Owners(p.path, s.manager)
	switch {
	case p.whole:
		return value.Copy(live), true
	case others, !own && s.owners.Known():
		return nil, false
	}
	return value.Copy(live), true
}

// concerned reports whether a rule is about a class of differences here.
func (s *stripping) concerned(p strand, c Class) bool {
	return slices.ContainsFunc(p.aims, func(a aim) bool {
		if len(a.rest) > 0 || !a.rule.allowsClass(c) {
			return false
		}
		if len(a.rule.rule.Managers) == 0 {
			return true
		}
		e, _ := s.owners.Owner(p.path)
		return slices.Contains(a.rule.rule.Managers, e.Manager)
	})
}

func (s *stripping) object(m, live map[string]any, p strand) (map[string]any, bool) {
	out := make(map[string]any, len(m))
	for name, v := range m {
		if fixed(p.path, name) {
			out[name] = v
			continue
		}
		if left, ok := s.value(v, live[name], p.below(fieldpath.Step{Name: name}, v, live[name])); ok {
			out[name] = left
		}
	}
	for name, v := range live {
		if _, ok := m[name]; !ok && !fixed(p.path, name) && s.adopts(v, p.below(fieldpath.Step{Name: name}, nil, v)) {
			out[name] = value.Copy(v)
		}
	}
	return out, len(out) > 0 || len(m) == 0
}

// adopts reports whether a field that only the live object has is kept.
func (s *stripping) adopts(live any, p strand) bool {
	if live == nil || p.whole || !s.concerned(p, Stale) {
		return false
	}
	own, others := s.owners.Owners(p.path, s.manager)
	return own && !others
}

// fixed reports whether rules do not apply to a field, because it identifies the object
// or because servers or this module write it.
func fixed(parent []ownership.Step, name string) bool {
	switch len(parent) {
	case 0:
		return name == "apiVersion" || name == "kind" || name == "status"
	case 1:
		return parent[0].Name == "metadata" && !kinds.IsComparedMetadata(name)
	case 2:
		return parent[0].Name == "metadata" && kinds.IsSystemKey(name)
	}
	return false
}

func (s *stripping) list(l, live []any, p strand) (any, bool) {
	t := s.aligned(p)
	if t == nil {
		return s.atomic(l, live, p)
	}
	p.typ = t
	places, left := value.Positions(live, t), map[string]bool{}
	out := make([]any, 0, len(l))
	for i, item := range l {
		key, ok := value.AppendKeys(nil, item, t)
		j, there := places[string(key)]
		left[string(key)] = true
		if !ok || !there {
			out = append(out, item)
			continue
		}
		at := fieldpath.Step{Item: true, Hub: i, Member: j, Keys: value.KeysOf(item, t)}
		if v, ok := s.value(item, live[j], p.below(at, item, live[j])); ok {
			out = append(out, identified(v, item, t))
		}
	}
	for j, item := range live {
		key, ok := value.AppendKeys(nil, item, t)
		at := fieldpath.Step{Item: true, Hub: -1, Member: j, Keys: value.KeysOf(item, t)}
		if ok && !left[string(key)] && s.adopts(item, p.below(at, nil, item)) {
			out = append(out, value.Copy(item))
		}
	}
	return out, len(out) > 0
}

// aligned returns the type of a list whose items have an identity, or nil.
func (s *stripping) aligned(p strand) *schema.Type {
	if p.typ != nil && p.typ.Kind == schema.List {
		if p.typ.List == schema.Atomic {
			return nil
		}
		return p.typ
	}
	names, set := s.owners.ListKeys(p.path)
	t := &schema.Type{Kind: schema.List, List: schema.Keyed, Elem: value.ElemOf(p.typ)}
	for _, name := range names {
		t.Keys = append(t.Keys, schema.Key{Name: name})
	}
	switch {
	case set:
		t.List = schema.Set
	case len(names) == 0:
		return nil
	}
	return t
}

// identified restores the keys of an item in v.
func identified(v, item any, t *schema.Type) any {
	m, ok := v.(map[string]any)
	before, _ := item.(map[string]any)
	if !ok || t.List != schema.Keyed {
		return v
	}
	for _, k := range t.Keys {
		value, had := before[k.Name]
		if _, has := m[k.Name]; had && !has {
			m[k.Name] = value
		}
	}
	return m
}

// atomic strips a list that has one owner: the whole list is omitted, or parts of it get
// the live values.
func (s *stripping) atomic(l, live []any, p strand) (any, bool) {
	if p.reached() || len(l) != len(live) {
		return s.leaf(l, live, p)
	}
	p.whole = true
	out := make([]any, len(l))
	for i, item := range l {
		out[i], _ = s.value(item, live[i], p.below(fieldpath.Step{Item: true, Hub: i, Member: i}, item, live[i]))
	}
	return out, true
}
