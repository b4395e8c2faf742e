package drift_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/drift/internal/kinds"
	"github.com/slipway-dev/slipway/drift/schema"
)

// specimen is an object as people write it and as Kubernetes stores it.
type specimen struct {
	name      string
	hub, live *unstructured.Unstructured
	// manifests are the hub's object for either comparison.
	manifests map[drift.Comparison]*drift.Manifest
}

// specimens returns the objects for the tests of the built-in table.
func specimens(t testing.TB) (all []*specimen) {
	files, err := filepath.Glob("schema/testdata/*/*.yaml")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		docs := strings.Split(string(text), "\n---\n")
		s := &specimen{name: strings.TrimSuffix(filepath.Base(file), ".yaml"), hub: parsed(t, docs[0]), live: parsed(t, docs[1])}
		if s.hub.GetName() == "" {
			continue
		}
		s.prepare(t)
		all = append(all, s)
	}
	return all
}

func parsed(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	json, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(json); err != nil {
		t.Fatal(err)
	}
	return u
}

func (s *specimen) prepare(t testing.TB) {
	s.manifests = map[drift.Comparison]*drift.Manifest{}
	for _, c := range comparisons() {
		m, err := drift.Compile(s.hub, unbounded(c, nil))
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		s.manifests[c] = m
	}
}

// compare holds the entries against the objects, too.
func (s *specimen) compare(t *testing.T, c drift.Comparison, live map[string]any) []drift.Difference {
	t.Helper()
	u := &unstructured.Unstructured{Object: live}
	r, err := s.manifests[c].Compare(u, nil)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	for _, d := range r.Differences {
		checkDifference(t, d, s.hub, u)
	}
	return r.Differences
}

// The changes that Kubernetes makes to an object are no difference.
func TestSpecimensAreAsRequested(t *testing.T) {
	for _, s := range specimens(t) {
		for _, c := range comparisons() {
			if ds := s.compare(t, c, s.live.Object); len(ds) > 0 {
				t.Errorf("%s, %s: %s", s.name, c, compact(ds))
			}
		}
	}
}

// Both comparisons report every changed plain value of the hub's object, at its path or above.
func TestNoChangeIsMissed(t *testing.T) {
	for _, s := range specimens(t) {
		visit(s.hub.Object, "", func(at string, v any) {
			changed := otherThan(v)
			if changed == nil || !isCompared(at) {
				return
			}
			for _, c := range comparisons() {
				if ds := s.compare(t, c, s.with(t, at, changed)); !reportsAt(ds, at) {
					t.Errorf("%s, %s: %s is %v for %v, and reported is %s", s.name, c, at, changed, v, compact(ds))
				}
			}
		})
	}
}

// Both comparisons report every removed value, unless a server fills it in.
func TestNoLossIsMissed(t *testing.T) {
	for _, s := range specimens(t) {
		visit(s.hub.Object, "", func(at string, v any) {
			filled := compact(v) == "{}" || v == int64(0)
			if !isCompared(at) || at == "/metadata" || filled {
				return
			}
			live := runtime.DeepCopyJSON(s.live.Object)
			if err := put(live, at, nil, false); err != nil {
				t.Fatal(err)
			}
			list := at[:strings.LastIndexByte(at, '/')]
			_, item := s.at(list).([]any)
			for _, c := range comparisons() {
				if ds := s.compare(t, c, live); !reportsAt(ds, at) && (!item || !reportsBelow(ds, list)) {
					t.Errorf("%s, %s: %s is gone, and reported is %s", s.name, c, at, compact(ds))
				}
			}
		})
	}
}

// Full reports every additional value of the member, unless a server fills it in. Partial reports
// it inside of a value that is owned as a whole.
func TestNoAdditionIsMissed(t *testing.T) {
	for _, s := range specimens(t) {
		visit(s.hub.Object, "", func(at string, v any) {
			m, ok := v.(map[string]any)
			if !ok || !isCompared(at) || at == "/metadata" {
				return
			}
			typ, whole := s.typeAt(at)
			s.checkAdded(t, at+"/zzz", "x", whole, false)
			if typ == nil || typ.Kind != schema.Struct {
				return
			}
			live, _ := s.at(at).(map[string]any)
			for name, f := range typ.Fields {
				_, default_ := f.DefaultIn(live)
				if m[name] == nil && live[name] == nil && !f.ServerOwned && f.Derive == 0 && !default_ && name != "labels" {
					s.checkAdded(t, at+"/"+name, sample(f.Type, 3), whole, slices.Contains(typ.Union, name))
				}
			}
		})
	}
}

func (s *specimen) checkAdded(t *testing.T, at string, v any, whole, union bool) {
	t.Helper()
	live := s.with(t, at, v)
	if ds := s.compare(t, drift.Full, live); !reportsAt(ds, at) && !reportsBelow(ds, at) {
		t.Errorf("%s: %s is on the member, and reported is %s", s.name, at, compact(ds))
	}
	if ds := s.compare(t, drift.Partial, live); whole && len(ds) == 0 || len(ds) > 0 && !whole && !union {
		t.Errorf("%s: %s is on the member, and Partial says %s", s.name, at, compact(ds))
	}
}

// Full reports a changed order of items with keys, and Partial only if the order matters. The
// order of a list that is owned as a whole is part of it, unless the order has no meaning.
func TestOnlyOrderThatMattersIsDrift(t *testing.T) {
	seen := 0
	for _, s := range specimens(t) {
		visit(s.hub.Object, "", func(at string, v any) {
			if l, ok := v.([]any); !ok || len(l) < 2 {
				return
			}
			items, _ := s.at(at).([]any)
			items = slices.Clone(items)
			slices.Reverse(items)
			typ, whole := s.typeAt(at)
			set := typ.List == schema.Set || s.isSet(at)
			want := map[drift.Comparison]bool{drift.Full: !set, drift.Partial: (whole || typ.Ordered) && !set}
			for _, c := range comparisons() {
				ds := s.compare(t, c, s.with(t, at, items))
				if reported := len(ds) > 0; reported != want[c] || reported && !reportsAt(ds, at) {
					t.Errorf("%s, %s: %s is turned around, and reported is %s", s.name, c, at, compact(ds))
				}
			}
			seen++
		})
	}
	if seen < 5 {
		t.Errorf("there are %d lists of two or more", seen)
	}
}

// The report of a change does not depend on the order of items with keys, except for entries
// about the order and for indexes.
func TestAChangeIsReportedInAnyOrder(t *testing.T) {
	for _, s := range specimens(t) {
		typ := schema.Builtin().Type(s.hub.GroupVersionKind())
		visit(s.hub.Object, "", func(at string, v any) {
			changed := otherThan(v)
			if changed == nil || !isCompared(at) {
				return
			}
			live := s.with(t, at, changed)
			moved, _ := turned(runtime.DeepCopyJSON(live), typ).(map[string]any)
			for _, c := range comparisons() {
				was, is := drift.Report{Differences: s.compare(t, c, live)}, drift.Report{Differences: s.compare(t, c, moved)}
				if !slices.Equal(byKeys(was), byKeys(is)) {
					t.Errorf("%s, %s: %s is %v, and reported is %s, in another order %s", s.name, c, at, changed, byKeys(was), byKeys(is))
				}
			}
		})
	}
}

// turned turns around all lists whose items have keys.
func turned(v any, t *schema.Type) any {
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			if f := t.Field(name); f != nil {
				v[name] = turned(e, f.Type)
			}
		}
	case []any:
		if t == nil {
			break
		}
		for i, e := range v {
			v[i] = turned(e, t.Elem)
		}
		if t.List == schema.Keyed {
			slices.Reverse(v)
		}
	}
	return v
}

// visit calls f with a pointer to each value, from the top.
func visit(v any, at string, f func(at string, v any)) {
	if at != "" {
		f(at, v)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			visit(v[name], at+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), f)
		}
	case []any:
		for i, e := range v {
			visit(e, at+"/"+strconv.Itoa(i), f)
		}
	}
}

// isCompared reports whether the value at a pointer is compared, under this pointer: a server
// stores stringData as data.
func isCompared(at string) bool {
	parts := segments(at)
	switch parts[0] {
	case "apiVersion", "kind", "status", "stringData":
		return false
	case "metadata":
		return len(parts) == 1 || slices.Contains([]string{"labels", "annotations", "finalizers"}, parts[1])
	}
	return true
}

// otherThan is another plain value of the same type, nil for a map or a list.
func otherThan(v any) any {
	switch v := v.(type) {
	case string:
		return v + "x"
	case int64:
		return v + 1
	case float64:
		return v + 1
	case bool:
		return !v
	}
	return nil
}

// at returns the value of the live object.
func (s *specimen) at(pointer string) any {
	v, _ := resolve(s.live.Object, pointer)
	return v
}

// with is the live object with another value.
func (s *specimen) with(t *testing.T, at string, v any) map[string]any {
	t.Helper()
	live := runtime.DeepCopyJSON(s.live.Object)
	if err := put(live, at, v, true); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	return live
}

// reportsAt reports whether there is an entry at a pointer or above it.
func reportsAt(ds []drift.Difference, at string) bool {
	return slices.ContainsFunc(ds, func(d drift.Difference) bool {
		return isBelow(at, d.Path) || d.HubPath != "" && isBelow(at, d.HubPath)
	})
}

// reportsBelow reports whether there is one at a pointer or below it.
func reportsBelow(ds []drift.Difference, at string) bool {
	return slices.ContainsFunc(ds, func(d drift.Difference) bool { return isBelow(d.Path, at) })
}

func isBelow(at, above string) bool { return at == above || strings.HasPrefix(at, above+"/") }

// typeAt returns the type of a path in the built-in table, and whether the path is at or inside
// of a value that is owned as a whole.
func (s *specimen) typeAt(at string) (t *schema.Type, whole bool) {
	t = schema.Builtin().Type(s.hub.GroupVersionKind())
	for _, name := range segments(at) {
		if f := t.Field(name); f != nil {
			t = f.Type
		} else if t != nil {
			t = t.Elem
		}
		// The versions of a definition have names, and are owned as a whole.
		whole = whole || t != nil && (t.Whole || t.Kind == schema.List && t.List == schema.Atomic)
	}
	return t, whole
}

// isSet reports whether a place is a list whose order means nothing.
func (s *specimen) isSet(at string) bool {
	kind := s.hub.GroupVersionKind()
	return slices.ContainsFunc(kinds.SetsOf(kind.Group, kind.Kind), func(set kinds.Set) bool {
		at := segments(at)
		return len(at) == len(set.Path) && !slices.ContainsFunc(set.Path, func(name string) bool {
			here := at[0]
			at = at[1:]
			return name != "*" && name != here
		})
	})
}

// sample is a value of a type.
func sample(t *schema.Type, depth int) any {
	if t == nil || depth == 0 {
		return "x"
	}
	switch t.Kind {
	case schema.Number, schema.IntOrString, schema.Quantity:
		return int64(77)
	case schema.Boolean:
		return true
	case schema.Map:
		return map[string]any{"x": sample(t.Elem, depth-1)}
	case schema.List:
		return []any{sample(t.Elem, depth-1)}
	case schema.Struct:
		m := map[string]any{}
		for name, f := range t.Fields {
			m[name] = sample(f.Type, depth-1)
		}
		return m
	default:
		return "x"
	}
}
