package schema

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// The files in testdata/defaults contain an object of a user, and the result of the defaulters
// and conversions of Kubernetes 1.36.3.
func TestTableExplainsDefaults(t *testing.T) {
	explainAll(t, "testdata/defaults", 50)
}

// The files in testdata/filled also contain the additions of allocators, admission and
// controllers.
func TestTableExplainsFieldsSetByControllers(t *testing.T) {
	explainAll(t, "testdata/filled", 10)
}

func explainAll(t *testing.T, dir string, least int) {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.yaml")
	if err != nil || len(files) < least {
		t.Fatalf("%d files in %s, %v", len(files), dir, err)
	}
	for _, file := range files {
		hub, live := readPair(t, file)
		typ := Builtin().Type(hub.GroupVersionKind())
		if typ == nil {
			t.Errorf("%s: %s is not in the table", file, hub.GroupVersionKind())
			continue
		}
		for _, p := range unexplained(typ, hub.Object, live.Object, "") {
			t.Errorf("%s: %s", filepath.Base(file), p)
		}
	}
}

func readPair(t *testing.T, file string) (hub, live *unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var pair []*unstructured.Unstructured
	for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
		json, err := yaml.YAMLToJSON(doc)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(json); err != nil {
			t.Fatal(err)
		}
		pair = append(pair, u)
	}
	return pair[0], pair[1]
}

// unexplained lists the values in live that are neither in hub nor known additions. It has its
// own small comparison, so that the test depends on the table only.
func unexplained(t *Type, hub, live any, path string) []string {
	switch live := live.(type) {
	case nil:
		return nil
	case map[string]any:
		return unexplainedFields(t, asMap(hub), live, path)
	case []any:
		list, _ := hub.([]any)
		if len(list) != len(live) {
			return []string{fmt.Sprintf("%s: %v became %v", path, hub, live)}
		}
		var all []string
		for i := range live {
			all = append(all, unexplained(elemOf(t), list[i], live[i], fmt.Sprintf("%s[%d]", path, i))...)
		}
		return all
	}
	if !same(t, hub, live) {
		return []string{fmt.Sprintf("%s: %v became %v", path, hub, live)}
	}
	return nil
}

func unexplainedFields(t *Type, hub, live map[string]any, path string) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(live)) {
		at := path + "." + name
		if at == ".status" || at == ".metadata" {
			continue
		}
		f, inner := fieldOf(t, name)
		h, inHub := hub[name]
		d, defaulted := f.DefaultIn(live)
		switch {
		case t != nil && t.Kind == Struct && f == nil && !t.Open:
			all = append(all, at+" is not in the table")
		case inHub && inner != nil && inner.Kind == Map:
			all = append(all, unexplained(inner, withEntries(asMap(h), asMap(d)), live[name], at)...)
		case inHub:
			all = append(all, unexplained(inner, h, live[name], at)...)
		case f != nil && (f.ServerOwned || defaulted && same(inner, d, live[name])):
		case live[name] == nil || isHollow(f, live[name]):
		case asMap(live[name]) == nil || f != nil && f.Presence:
			all = append(all, fmt.Sprintf("%s: %v was added, the default is %v", at, live[name], d))
		default:
			all = append(all, unexplained(inner, map[string]any{}, live[name], at)...)
		}
	}
	return all
}

// withEntries adds the missing default entries of a map.
func withEntries(m, more map[string]any) map[string]any {
	all := maps.Clone(more)
	if all == nil {
		return m
	}
	maps.Copy(all, m)
	return all
}

func isHollow(f *Field, v any) bool {
	return (f == nil || !f.Presence) && (reflect.DeepEqual(v, map[string]any{}) || reflect.DeepEqual(v, []any{}))
}

func fieldOf(t *Type, name string) (*Field, *Type) {
	if f := t.Field(name); f != nil {
		return f, f.Type
	}
	return nil, elemOf(t)
}

func elemOf(t *Type) *Type {
	if t == nil {
		return nil
	}
	return t.Elem
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func same(t *Type, a, b any) bool {
	if t != nil && t.Kind == Quantity {
		x, errX := resource.ParseQuantity(fmt.Sprint(a))
		y, errY := resource.ParseQuantity(fmt.Sprint(b))
		return errX == nil && errY == nil && x.Cmp(y) == 0
	}
	if t != nil && t.Kind == Map && t.Elem != nil {
		x, y := asMap(a), asMap(b)
		for k := range y {
			if !same(t.Elem, x[k], y[k]) {
				return false
			}
		}
		return len(x) == len(y)
	}
	return reflect.DeepEqual(a, b)
}

// The reader of the table knows every flag, rule, default and type in it, because it skips
// unknown ones.
func TestEveryLineOfTheTableIsUnderstood(t *testing.T) {
	for _, block := range strings.Split(builtinText, "\n\n")[1:] {
		head, rest, _ := strings.Cut(strings.TrimSuffix(block, "\n"), "\n")
		for _, flag := range strings.Fields(head)[1:] {
			if name, _, _ := strings.Cut(flag, "="); !slices.Contains([]string{"kind", "whole", "open", "union"}, name) {
				t.Errorf("%s: flag %q", head, flag)
			}
		}
		for line := range strings.Lines(rest) {
			words := strings.Fields(line)
			if len(words) < 2 || line[0] != ' ' || line[1] == ' ' {
				t.Errorf("%s: line %q", head, line)
				continue
			}
			checkType(t, blockName(block), words[1])
			for _, flag := range words[2:] {
				checkFlag(t, head+line, flag)
			}
		}
	}
}

func checkFlag(t *testing.T, at, flag string) {
	t.Helper()
	known := []string{"presence", "unset", "server", "immutable", "sealed", "secret", "ordered", "unordered", "whole", "granular"}
	name, value, _ := strings.Cut(flag, "=")
	switch {
	case name == "default" && parseValue(value) != nil:
	case name == "derive" && ruleNamed(value) != noRule:
	case slices.Contains(known, flag):
	default:
		t.Errorf("%s: flag %q", at, flag)
	}
}

func checkType(t *testing.T, block, expr string) {
	t.Helper()
	expr = strings.TrimPrefix(expr, "*")
	for strings.HasSuffix(expr, "]") {
		i := strings.IndexByte(expr, '[')
		outer, _, _ := strings.Cut(expr[:i], "(")
		if !slices.Contains([]string{"list", "set", "keyed", "map"}, outer) {
			t.Errorf("%s: type %q", block, expr)
		}
		expr = expr[i+1 : len(expr)-1]
	}
	if expr == "any" || kindNamed(expr) != Unknown {
		return
	}
	if !strings.Contains(expr, ".") {
		expr = block[:strings.LastIndex(block, ".")+1] + expr
	}
	if builtin.block(expr) == "" {
		t.Errorf("%s: there is no type %q", block, expr)
	}
}
