package placement

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// walker is a cluster with a label of valid UTF-8 and one of invalid UTF-8.
var walker = Cluster{Name: "member-1", Labels: map[string]string{"region": "a/b~\"c", "raw": "\xff"}}

// compareWalk compares a walk of an object with json-patch, operation by operation: the same
// operations fail, and the others have the same result. It returns the number of successful
// operations.
func compareWalk(t *testing.T, doc any, patches []Patch) int {
	t.Helper()
	body, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	kept := decodeDocument(body)
	s := &selectedObject{body: body, overrides: []int{0}, decoded: func() document { return kept }}
	var apply []Patch
	for _, p := range patches {
		rule := Rule{Patches: append(slices.Clip(apply), p)}
		if len(rule.validate(field.NewPath("rule"))) > 0 {
			continue
		}
		compiled, err := compileRule(0, rule)
		if err != nil {
			t.Fatalf("%s: %v", show(rule.Patches), err)
		}
		if compareOnce(t, s, &compiled) {
			apply = rule.Patches
		}
	}
	return len(apply)
}

func compareOnce(t *testing.T, s *selectedObject, rule *compiledRule) bool {
	t.Helper()
	active := []activeRules{{rules: []activeRule{{compiledRule: rule}}}}
	kept := s.decoded()
	before := runtime.DeepCopyJSONValue(kept.value)
	got, _, ok := s.walk(active, &walker)
	want, _, err := s.byJSON(active, &walker)
	if !reflect.DeepEqual(before, kept.value) {
		t.Fatalf("%s: the object was changed by %s", s.body, rule)
	}
	if left := !kept.plain || !rule.plain || kept.depth+rule.depth > maxDepth || len(rule.ops) > maxSteps; left && !ok {
		return err == nil
	}
	if ok != (err == nil) && !strings.Contains(fmt.Sprint(rule), "KEY-raw}") {
		t.Fatalf("%s: %s is applied: %v; json-patch says %v", s.body, rule, ok, err)
	}
	if ok && !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: %s makes %v of it, json-patch %v", s.body, rule, got, want)
	}
	return ok
}

// String shows the operations of a rule.
func (r *compiledRule) String() string {
	var all []Patch
	for _, op := range r.ops {
		all = append(all, Patch{Op: op.op, Path: op.path, Value: op.value.raw})
	}
	return show(all)
}

func show(patches []Patch) string {
	b, err := json.Marshal(patches)
	if err != nil {
		return fmt.Sprint(patches)
	}
	return string(b)
}

// A walk of the decoded object has the same result as json-patch on its JSON.
func FuzzWalk(f *testing.F) {
	for _, c := range []struct{ doc, patches string }{
		{`{"spec":{"replicas":1}}`, `[{"op":"replace","path":"/spec/replicas","value":5}]`},
		{`{"a":[1,2]}`, `[{"op":"add","path":"/a/2","value":3},{"op":"add","path":"/a/-","value":{"b":null}},{"op":"remove","path":"/a/0"}]`},
		{`{"a":[1]}`, `[{"op":"remove","path":"/a/0"},{"op":"add","path":"/a/+0","value":[]},{"op":"add","path":"/a/00/-0","value":1.50}]`},
		{`{"a":[1]}`, `[{"op":"replace","path":"/a/-","value":1}]`},
		{`{"a":[1]}`, `[{"op":"add","path":"/a/-1","value":1}]`},
		{`{"a":null}`, `[{"op":"replace","path":"/a","value":null},{"op":"remove","path":"/a"}]`},
		{`{"a":null}`, `[{"op":"add","path":"/a/b","value":1}]`},
		{`{"a/b":{"c~d":1}}`, `[{"op":"add","path":"/a~1b/c~0d","value":1e400},{"op":"remove","path":"/a~1b/c~0d"}]`},
		{`{"a":{"~1":2}}`, `[{"op":"replace","path":"/a/~01","value":9007199254740993}]`},
		{`{"a":1}`, `[{"op":"add","path":"/b","value":{"x":1,"x":{"y":2}}},{"op":"remove","path":"/b/x/y"},{"op":"remove","path":"/b/x"}]`},
		{`{"a":1}`, `[{"op":"add","path":"/b","value":{"${MEMBER-CLUSTER-NAME}":["${MEMBER-CLUSTER-LABEL-KEY-region}"]}},{"op":"add","path":"/b/member-1/-","value":"<&>\u2028"}]`},
		{`{"a":1}`, `[{"op":"add","path":"/b","value":"${MEMBER-CLUSTER-LABEL-KEY-raw}"}]`},
		{`{"a":1}`, `[{"op":"add","path":"/b","value":{"member-1":1,"${MEMBER-CLUSTER-NAME}":2}}]`},
		{`{"metadata":{}}`, `[{"op":"add","path":"/metadata/labels","value":{}},{"op":"add","path":"/metadata/labels/x","value":"y"}]`},
	} {
		f.Add(c.doc, c.patches)
	}
	f.Fuzz(func(t *testing.T, doc, patches string) {
		var object map[string]any
		var ops []Patch
		if json.Unmarshal([]byte(doc), &object) != nil || object == nil || json.Unmarshal([]byte(patches), &ops) != nil {
			return
		}
		compareWalk(t, object, ops)
	})
}

// Rendering for one cluster does not change the objects of another cluster, even if both append to
// the same list of any length.
func TestWalkSharesNothingThatChanges(t *testing.T) {
	for length := range 9 {
		list := make([]any, length)
		obj := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "list": list,
		}}
		r, err := NewRenderer([]*unstructured.Unstructured{obj}, []Override{{
			Name:      "names",
			Selectors: []ObjectSelector{{Version: "v1", Kind: "ConfigMap", Name: "a"}},
			Rules: []Rule{{ClusterSelector: &ClusterSelector{}, Patches: []Patch{
				{Op: OpAdd, Path: "/list/-", Value: json.RawMessage(`"${MEMBER-CLUSTER-NAME}"`)},
			}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		names := []string{"member-1", "member-2"}
		var got []*unstructured.Unstructured
		for _, name := range names {
			objs, err := r.Render(Cluster{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, objs...)
		}
		for i, name := range names {
			if want := append(slices.Clone(list), name); !reflect.DeepEqual(got[i].Object["list"], want) {
				t.Errorf("%s gets %v, want %v", name, got[i].Object["list"], want)
			}
		}
	}
}

// Patches for which json-patch has special limits or behavior are left to json-patch.
func TestWalkLeavesToJSONPatch(t *testing.T) {
	deep := strings.Repeat("[", 6000) + strings.Repeat("]", 6000)
	add := func(path, value string) Patch {
		return Patch{Op: OpAdd, Path: path, Value: json.RawMessage(value)}
	}
	var nested any
	if err := json.Unmarshal([]byte(deep), &nested); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		doc     map[string]any
		patches []Patch
		apply   int
	}{
		"blanks before a list":     {map[string]any{}, []Patch{add("/a", "\r[1]"), add("/a/0", `2`)}, 1},
		"deeper than JSON may be":  {map[string]any{"a": map[string]any{"b": nested}}, []Patch{add("/a/c", `[]`), add("/a/b"+strings.Repeat("/0", 5999)+"/-", deep)}, 1},
		"a field twice":            {map[string]any{}, []Patch{add("/a", `{"b":1,"b":{"c":2}}`), add("/a/b/d", `3`)}, 2},
		"a number that is too big": {map[string]any{}, []Patch{add("/a", `1e400`), add("/b", `1`)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := compareWalk(t, c.doc, c.patches); got != c.apply {
				t.Errorf("%d of %d operations apply, want %d", got, len(c.patches), c.apply)
			}
		})
	}
}

// Random patches of random objects, many of which succeed.
func TestWalkIsJSONPatch(t *testing.T) {
	applied, all := 0, 0
	for seed := range uint64(4000) {
		g := patchGenerator{rand.New(rand.NewPCG(seed, 8))}
		doc := map[string]any{"spec": g.tree(4), "data": g.tree(2)}
		patches := make([]Patch, 1+g.IntN(8))
		for i := range patches {
			patches[i] = g.patch(doc)
		}
		all += len(patches)
		applied += compareWalk(t, doc, patches)
	}
	if applied < all/3 {
		t.Errorf("the walk applied %d of %d operations; the patches are to apply more often", applied, all)
	}
}

// patchGenerator draws objects and patches.
type patchGenerator struct{ *rand.Rand }

var patchNames = []string{"a", "b", "0", "1", "-", "a/b", "~", "é", "${x}"}

func (g patchGenerator) name() string { return patchNames[g.IntN(len(patchNames))] }

func (g patchGenerator) tree(depth int) any {
	kind := g.IntN(8)
	if depth == 0 {
		kind = g.IntN(5)
	}
	switch kind {
	case 0:
		return nil
	case 1:
		return g.name()
	case 2:
		return g.IntN(2) == 0
	case 3:
		return int64(g.IntN(100))
	case 4:
		return float64(g.IntN(100)) / 4
	case 5:
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.tree(depth-1))
		}
		return list
	default:
		object := map[string]any{}
		for range g.IntN(4) {
			object[g.name()] = g.tree(depth - 1)
		}
		return object
	}
}

// patch draws an operation whose path mostly leads somewhere.
func (g patchGenerator) patch(doc any) Patch {
	p := Patch{Op: []PatchOp{OpAdd, OpReplace, OpRemove}[g.IntN(3)]}
	for tree := doc; ; {
		var token string
		tree, token = g.step(tree)
		p.Path += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
		if tree == nil || g.IntN(3) == 0 {
			break
		}
	}
	if p.Op != OpRemove {
		value := g.tree(2)
		if g.IntN(8) == 0 {
			value = map[string]any{"${MEMBER-CLUSTER-NAME}": "${MEMBER-CLUSTER-LABEL-KEY-region}"}
		}
		p.Value, _ = json.Marshal(value)
	}
	return p
}

// step generates a step into a tree, and returns the value there.
func (g patchGenerator) step(tree any) (any, string) {
	switch t := tree.(type) {
	case map[string]any:
		if name := g.name(); g.IntN(8) == 0 {
			return t[name], name
		}
		if names := slices.Sorted(maps.Keys(t)); len(names) > 0 {
			name := names[g.IntN(len(names))]
			return t[name], name
		}
	case []any:
		i := g.IntN(len(t) + 2)
		if i < len(t) {
			return t[i], fmt.Sprint(i)
		}
		return nil, []string{"-", fmt.Sprint(len(t)), "01", "-1"}[g.IntN(4)]
	}
	return nil, g.name()
}
