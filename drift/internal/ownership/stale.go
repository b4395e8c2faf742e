package ownership

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
)

// AppliedFields yields the fieldsV1 of the entries that server-side applies of a manager wrote,
// unchanged, among the first [MaxEntries]. It allocates nothing.
func AppliedFields(managed []any, manager string) iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) {
		for _, raw := range managed[:min(len(managed), MaxEntries)] {
			m, _ := raw.(map[string]any)
			if m["manager"] != manager || m["operation"] != Apply {
				continue
			}
			if sub, ok := m["subresource"]; ok && sub != "" {
				continue
			}
			fields, ok := m["fieldsV1"].(map[string]any)
			if ok && !yield(fields) {
				return
			}
		}
	}
}

// Same reports whether two fieldsV1 are equal. It allocates nothing.
func Same(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		other, ok := b[k]
		if !ok {
			return false
		}
		below, _ := v.(map[string]any)
		otherBelow, _ := other.(map[string]any)
		if !Same(below, otherBelow) {
			return false
		}
	}
	return true
}

// Dropped are fields that were applied and are missing in the object that is applied now. It is
// immutable and may be shared.
type Dropped struct{ set *fieldpath.Set }

// Without returns the applied fields that an object lacks. null counts as absent.
func Without(fieldsV1, object map[string]any) (Dropped, error) {
	left := MaxFields
	set, err := parseSet(fieldsV1, &left)
	if err != nil {
		return Dropped{}, err
	}
	return Dropped{lacking(set, object)}, nil
}

// Empty reports whether there are none.
func (d Dropped) Empty() bool { return d.set == nil || d.set.Empty() }

func lacking(set *fieldpath.Set, object any) *fieldpath.Set {
	out := &fieldpath.Set{}
	at := placesIn(object, set, true)
	for pe := range elements(set) {
		child, below := set.Children.Get(pe)
		s, ok := at.find(pe)
		switch {
		case !ok:
			if set.Members.Has(pe) {
				out.Members.Insert(pe)
			}
			if below {
				*out.Children.Descend(pe) = *child
			}
		case below:
			if rest := lacking(child, s.Value); !rest.Empty() {
				*out.Children.Descend(pe) = *rest
			}
		}
	}
	return out
}

// elements yields the members and children of a set, each once and in order.
func elements(set *fieldpath.Set) iter.Seq[fieldpath.PathElement] {
	var all []fieldpath.PathElement
	add := func(pe fieldpath.PathElement) { all = append(all, pe) }
	set.Members.Iterate(add)
	set.Children.Iterate(add)
	slices.SortFunc(all, fieldpath.PathElement.Compare)
	return slices.Values(slices.CompactFunc(all, fieldpath.PathElement.Equals))
}

// Key is a key of an item, or its value, with an empty name, in a set.
type Key struct {
	Name  string
	Value any
}

// Stale returns the paths of dropped fields that are still in a live object and that only the
// manager owns. A map or item is one path if it can be removed as a whole, unless split reports
// that its fields are separate.
func (f *Fields) Stale(d Dropped, manager string, live map[string]any, split func(path []Step) bool) [][]Step {
	w := staleWalk{split: split}
	w.walk(d.set, f.others(manager), live, nil)
	return w.found
}

// others returns the fields of all entries except the manager's applies.
func (f *Fields) others(manager string) *fieldpath.Set {
	all := &fieldpath.Set{}
	for i := range f.entries {
		if !f.entries[i].appliedBy(manager) {
			all = all.Union(f.entries[i].set)
		}
	}
	return all
}

type staleWalk struct {
	split func([]Step) bool
	found [][]Step
}

func (w *staleWalk) walk(set, others *fieldpath.Set, live any, path []Step) {
	at := placesIn(live, set, false)
	for pe := range elements(set) {
		s, ok := at.find(pe)
		if !ok {
			continue
		}
		here := append(slices.Clip(path), s)
		otherBelow, shared := others.Children.Get(pe)
		owned := others.Members.Has(pe)
		if set.Members.Has(pe) && !owned && !shared && !w.split(here) {
			w.found = append(w.found, here)
			continue
		}
		child, below := set.Children.Get(pe)
		if !below || owned && !shared {
			continue
		}
		if otherBelow == nil {
			otherBelow = &fieldpath.Set{}
		}
		w.walk(child, otherBelow, s.Value, here)
	}
}

// places finds the elements of one set in an object.
type places struct {
	fields map[string]any
	list   []any
	// partial lets an item without a key match any value of the key.
	partial bool
	shapes  []placedShape
	values  map[string]int
}

type placedShape struct {
	shape[fieldpath.PathElement]
	items map[string]int
}

// placesIn indexes an object or list, so that all lookups in it together take linear time.
func placesIn(v any, set *fieldpath.Set, partial bool) *places {
	p := &places{partial: partial}
	p.fields, _ = v.(map[string]any)
	p.list, _ = v.([]any)
	if p.list == nil {
		return p
	}
	for _, s := range indexOf(set).shapes {
		p.shapes = append(p.shapes, placedShape{s, map[string]int{}})
	}
	p.values = map[string]int{}
	for i, item := range p.list {
		p.place(i, item)
	}
	return p
}

// place records the index of an item. Of duplicates the first one counts.
func (p *places) place(i int, item any) {
	fields, ok := item.(map[string]any)
	if !ok {
		note(p.values, textOf(item), i)
		return
	}
	for _, s := range p.shapes {
		if key, ok := s.keyOf(fields); ok {
			note(s.items, key, i)
		} else if p.partial {
			note(s.items, s.partialKey(fields), i)
		}
	}
}

func note(m map[string]int, key string, i int) {
	if _, ok := m[key]; !ok {
		m[key] = i
	}
}

// partialKey returns the text of the keys that an item has.
func (s *shape[E]) partialKey(item map[string]any) string {
	values := make([]string, len(s.names))
	for i, name := range s.names {
		if v := item[name]; v != nil {
			values[i] = textOf(v)
		}
	}
	return strings.Join(values, "\x00")
}

// find returns the step and the value of an element.
func (p *places) find(pe fieldpath.PathElement) (Step, bool) {
	switch {
	case pe.FieldName != nil:
		v, ok := p.fields[*pe.FieldName]
		return Step{Name: *pe.FieldName, Value: v}, ok && v != nil
	case pe.Index != nil:
		return p.item(*pe.Index, *pe.Index < len(p.list), nil)
	case pe.Value != nil:
		v := (*pe.Value).Unstructured()
		i, ok := p.values[textOf(v)]
		return p.item(i, ok, []Key{{Value: v}})
	case pe.Key != nil:
		return p.keyed(pe)
	}
	return Step{}, false
}

func (p *places) item(i int, ok bool, keys []Key) (Step, bool) {
	if !ok || i < 0 {
		return Step{}, false
	}
	return Step{Item: true, Index: i, Value: p.list[i], Keys: keys}, true
}

func (p *places) keyed(pe fieldpath.PathElement) (Step, bool) {
	keys := make([]Key, len(*pe.Key))
	fields := make(map[string]any, len(keys))
	for i, k := range *pe.Key {
		keys[i] = Key{k.Name, k.Value.Unstructured()}
		fields[k.Name] = keys[i].Value
	}
	at := slices.IndexFunc(p.shapes, func(s placedShape) bool {
		return slices.EqualFunc(s.names, keys, func(name string, k Key) bool { return name == k.Name })
	})
	if at < 0 {
		return Step{}, false
	}
	s := p.shapes[at]
	if key, ok := s.keyOf(fields); ok {
		if i, ok := s.items[key]; ok {
			return p.item(i, true, keys)
		}
	}
	if !p.partial {
		return Step{}, false
	}
	return p.withoutOneKey(s, fields, keys)
}

// withoutOneKey finds an item without some keys, because their defaults are unknown here. It
// prefers to miss a stale field over a wrong report.
func (p *places) withoutOneKey(s placedShape, fields map[string]any, keys []Key) (Step, bool) {
	for lacks := range 1 << min(len(keys), 6) {
		some := map[string]any{}
		for i, k := range keys {
			if i >= 6 || lacks>>i&1 == 0 {
				some[k.Name] = fields[k.Name]
			}
		}
		if len(some) == 0 {
			continue
		}
		if i, ok := s.items[s.partialKey(some)]; ok {
			step, _ := p.item(i, true, keys)
			step.Value = completed(p.list[i], fields)
			return step, true
		}
	}
	return Step{}, false
}

// completed returns an item with its missing keys added.
func completed(item any, keys map[string]any) map[string]any {
	m, _ := item.(map[string]any)
	out := maps.Clone(m)
	maps.Copy(out, keys)
	return out
}
