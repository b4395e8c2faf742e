package lenient

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/backend"
)

func objectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{Object: out}
	if err := normalize(obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// normalize gives numbers the types of a decoded object.
func normalize(obj *unstructured.Unstructured) error {
	text, err := obj.MarshalJSON()
	if err != nil {
		return err
	}
	return obj.UnmarshalJSON(text)
}

// Apply drops the parts that the error names, and no others.
func TestPartsThatASchemaRefusesAreDropped(t *testing.T) {
	const head = "apiVersion: v1\nkind: X\n"
	for name, tc := range map[string]struct {
		object            string
		unknown, repeated []string
		left              []string
		want              string
	}{
		"a field":                 {"spec: {a: 1, b: 2}", []string{".spec.b"}, nil, []string{".spec.b"}, "spec: {a: 1}"},
		"a field of the object":   {"spec: {a: 1}\nextra: {x: 1}", []string{".extra"}, nil, []string{".extra"}, "spec: {a: 1}"},
		"a name with dots":        {"spec: {a: {x: 1}, a.b: {x: 1}}", []string{".spec.a.b.x"}, nil, []string{".spec.a.b.x"}, "spec: {a: {x: 1}, a.b: {}}"},
		"in an item by its key":   {`spec: {l: [{name: 'a"]', c: 1}, {name: b, c: 1}]}`, []string{`.spec.l[name="a\"]"].c`}, nil, []string{`.spec.l[name="a\"]"].c`}, `spec: {l: [{name: 'a"]'}, {name: b, c: 1}]}`},
		"in an item by two keys":  {"spec: {l: [{p: 80, c: 1}, {p: 80, q: UDP, c: 1}]}", []string{`.spec.l[p=80,q="TCP"].c`}, nil, []string{`.spec.l[p=80,q="TCP"].c`}, "spec: {l: [{p: 80}, {p: 80, q: UDP, c: 1}]}"},
		"in an item by its index": {"spec: {l: [{c: 1}, {c: 1}]}", []string{".spec.l[1].c"}, nil, []string{".spec.l[1].c"}, "spec: {l: [{c: 1}, {}]}"},
		"the last of a key counts": {
			"spec: {env: [{name: A, value: '1'}, {name: B}, {name: A, value: '2'}, {name: A, value: '3'}, {name: C}]}", nil,
			[]string{`.spec.env[name="A"]`},
			[]string{`.spec.env[name="A"]`},
			"spec: {env: [{name: B}, {name: A, value: '3'}, {name: C}]}",
		},
		"a key with a default": {"spec: {ports: [{p: 80, n: a}, {p: 80, q: TCP, n: b}, {p: 80, q: UDP, n: c}]}", nil, []string{`.spec.ports[p=80,q="TCP"]`}, []string{`.spec.ports[p=80,q="TCP"]`}, "spec: {ports: [{p: 80, q: TCP, n: b}, {p: 80, q: UDP, n: c}]}"},
		"a set":                {"spec: {s: [a, b, a]}", nil, []string{`.spec.s[="a"]`}, []string{`.spec.s[="a"]`}, "spec: {s: [b, a]}"},
		"what is not there":    {"spec: {a: 1}", []string{".spec.b", ".spec.a.c", ".x[1]", "", "[", ".spec[name="}, []string{`.spec.a[name="x"]`, ".spec"}, []string{".spec"}, ""},
	} {
		obj := objectOf(t, head+tc.object)
		before := obj.DeepCopy()
		refused := error(&backend.SchemaError{Unknown: tc.unknown, Repeated: tc.repeated})
		live, left, err := Apply(obj, func(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			err := refused
			refused = nil
			return o, err
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(tc.left, left); d != "" {
			t.Errorf("%s: what is left out (-want +got):\n%s", name, d)
		}
		if d := cmp.Diff(objectOf(t, head+tc.want).Object, live.Object); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		if d := cmp.Diff(before.Object, obj.Object); d != "" {
			t.Errorf("%s: the object was changed:\n%s", name, d)
		}
	}
}

// An object is applied again only if something was left out of it, and not without end.
func TestAnotherErrorStays(t *testing.T) {
	obj := objectOf(t, "apiVersion: v1\nkind: X\nspec: {a: 1}")
	for name, tc := range map[string]struct {
		err   error
		calls int
	}{
		"another error":                 {errors.New("busy"), 1},
		"a schema that names nothing":   {&backend.SchemaError{}, 1},
		"a field that is not there":     {&backend.SchemaError{Unknown: []string{".spec.b"}}, 1},
		"a field that is refused again": {&backend.SchemaError{Unknown: []string{".spec.a"}}, 2},
	} {
		calls := 0
		_, _, err := Apply(obj, func(*unstructured.Unstructured) (*unstructured.Unstructured, error) {
			calls++
			return nil, tc.err
		})
		if !errors.Is(err, tc.err) || calls != tc.calls {
			t.Errorf("%s: %d calls, %v", name, calls, err)
		}
	}
}

func FuzzDrop(f *testing.F) {
	f.Add(`{"kind":"X","apiVersion":"v1","spec":{"l":[{"name":"a","c":1}],"s":["a","a"]}}`, `.spec.l[name="a"].c`)
	f.Add(`{"kind":"X","apiVersion":"v1","spec":{"s":["a","a"]}}`, `.spec.s[="a"]`)
	f.Fuzz(func(t *testing.T, text, path string) {
		obj := &unstructured.Unstructured{}
		if obj.UnmarshalJSON([]byte(text)) != nil {
			t.Skip()
		}
		before := obj.DeepCopy()
		_, left := without(obj, &backend.SchemaError{Unknown: []string{path}})
		if !cmp.Equal(before.Object, obj.Object) {
			t.Error("the object was changed")
		}
		if len(left) > 1 {
			t.Errorf("%q", left)
		}
	})
}
