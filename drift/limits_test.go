package drift

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestDuplicateKeysOfUnmanagedItemsAreWarnings(t *testing.T) {
	const head = "apiVersion: v1\nkind: Pod\nmetadata: {name: a"
	hub := head + "}\nspec: {containers: [{name: c}]}"
	for member, want := range map[string]string{
		head + "}\nspec: {containers: [{name: c}, {name: x, image: a}, {name: x, image: b}]}":             "duplicate key in the list /spec/containers of the member",
		head + ", finalizers: [example.org/f, example.org/f]}\nspec: {containers: [{name: c}]}":           "duplicate key in the list /metadata/finalizers of the member",
		head + ", finalizers: [example.org/f]}\nspec: {containers: [{name: c}, {name: x}, {name: y}]}":    "",
		head + "}\nspec: {containers: [{name: c}, {image: a}, {image: b}, {name: []}, {name: {}}, x, x]}": "duplicate key in the list /spec/containers of the member",
	} {
		for _, c := range []Comparison{Partial, Full} {
			r, err := Compare(decoded(t, hub), decoded(t, member), Options{Comparison: c})
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(r.Warnings, ", ")
			if c == Full && got != want || c == Partial && got != "" {
				t.Errorf("%s of %s: got the warnings %q", c, member, got)
			}
		}
	}
}

// decoded reads YAML as a server's client does: whole numbers are int64.
func decoded(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	b, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(b); err != nil {
		t.Fatal(err)
	}
	return o
}

// deep is a map in a map and so on.
func deep(levels int) any {
	v := any(map[string]any{})
	for range levels {
		v = map[string]any{"a": v}
	}
	return v
}

func TestTooDeepValuesAreErrorsIfCompared(t *testing.T) {
	hub := decoded(t, "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: a}\nspec: {size: 1}")
	for _, c := range []struct {
		comparison Comparison
		path       []string
		levels     int
		fails      bool
	}{
		{Partial, []string{"spec", "size"}, MaxDepth - 2, true},
		{Partial, []string{"spec", "size"}, MaxDepth - 3, false},
		{Partial, []string{"spec", "other"}, MaxDepth, false},
		{Partial, []string{"status"}, 100_000, false},
		{Full, []string{"status"}, 100_000, false},
		{Full, []string{"spec", "other"}, MaxDepth, true},
		{Full, []string{"spec", "other"}, MaxDepth - 3, false},
		{Full, []string{"metadata", "other"}, 100_000, false},
	} {
		member := hub.DeepCopy()
		at := member.Object
		for _, name := range c.path[:len(c.path)-1] {
			at = at[name].(map[string]any)
		}
		at[c.path[len(c.path)-1]] = deep(c.levels)
		m, err := Compile(hub, Options{Comparison: c.comparison})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Compare(member, nil); (err != nil) != c.fails {
			t.Errorf("%s, %v: got %v", c.comparison, c.path, err)
		}
	}
}
