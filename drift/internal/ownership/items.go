package ownership

import (
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
)

// index finds items of lists in sets, by the keys that a set uses.
type index map[*fieldpath.Set]*items[fieldpath.PathElement]

// maxShapes is the maximum number of combinations of key names in one list. A server writes one
// combination, or a few if some items lack keys.
const maxShapes = 16

// items are the elements of one list, with a value for each.
type items[E any] struct {
	shapes []shape[E]
	values map[string]E
}

// shape is a combination of key names with its elements by the text of their values.
type shape[E any] struct {
	names    []string
	elements map[string]E
}

// find returns the element of a set for a step.
func (x index) find(set *fieldpath.Set, s Step) (fieldpath.PathElement, bool) {
	if !s.Item {
		pe := fieldpath.PathElement{FieldName: &s.Name}
		return pe, has(set, pe)
	}
	if pe, ok := x.of(set).find(s.Value); ok {
		return pe, true
	}
	pe := fieldpath.PathElement{Index: &s.Index}
	return pe, has(set, pe)
}

// of returns the items of a list, which are indexed once.
func (x index) of(set *fieldpath.Set) *items[fieldpath.PathElement] {
	known := x[set]
	if known == nil {
		known = indexOf(set)
		x[set] = known
	}
	return known
}

func has(set *fieldpath.Set, pe fieldpath.PathElement) bool {
	if set.Members.Has(pe) {
		return true
	}
	_, ok := set.Children.Get(pe)
	return ok
}

func indexOf(set *fieldpath.Set) *items[fieldpath.PathElement] {
	x := newItems[fieldpath.PathElement]()
	add := func(pe fieldpath.PathElement) { x.add(pe, pe) }
	set.Members.Iterate(add)
	set.Children.Iterate(add)
	x.sort()
	return x
}

func newItems[E any]() *items[E] { return &items[E]{values: map[string]E{}} }

// sort sorts shapes with more keys first, because they are more specific.
func (x *items[E]) sort() {
	slices.SortStableFunc(x.shapes, func(a, b shape[E]) int { return len(b.names) - len(a.names) })
}

// add adds an element, unless it is no item of a list.
func (x *items[E]) add(pe fieldpath.PathElement, e E) {
	if pe.Value != nil {
		x.values[textOf((*pe.Value).Unstructured())] = e
	}
	if pe.Key == nil {
		return
	}
	names := make([]string, len(*pe.Key))
	values := make([]string, len(*pe.Key))
	for i, k := range *pe.Key {
		names[i], values[i] = k.Name, textOf(k.Value.Unstructured())
	}
	at := slices.IndexFunc(x.shapes, func(s shape[E]) bool { return slices.Equal(s.names, names) })
	if at < 0 {
		if len(x.shapes) == maxShapes {
			return
		}
		at = len(x.shapes)
		x.shapes = append(x.shapes, shape[E]{names, map[string]E{}})
	}
	x.shapes[at].elements[strings.Join(values, "\x00")] = e
}

// find returns the element for an item. If several elements name a subset of the item's keys, the
// one with the most keys is used.
func (x *items[E]) find(item any) (e E, ok bool) {
	fields, ok := item.(map[string]any)
	if !ok {
		e, ok = x.values[textOf(item)]
		return e, ok
	}
	for _, s := range x.shapes {
		if key, ok := s.keyOf(fields); ok {
			if e, ok = s.elements[key]; ok {
				return e, true
			}
		}
	}
	return e, false
}

// keyOf returns the text of the keys of an item. A null key is absent.
func (s *shape[E]) keyOf(item map[string]any) (string, bool) {
	values := make([]string, len(s.names))
	for i, name := range s.names {
		v, ok := item[name]
		if !ok || v == nil {
			return "", false
		}
		values[i] = textOf(v)
	}
	return strings.Join(values, "\x00"), true
}

// textOf returns the same text for equal values: 80 equals 80.0.
func textOf(v any) string {
	switch v := number(v).(type) {
	case string:
		return "s" + v
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		if i := int64(v); float64(i) == v {
			return strconv.FormatInt(i, 10)
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return "null"
}
