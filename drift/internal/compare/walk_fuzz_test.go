package compare

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/internal/value"
	"github.com/slipway-dev/slipway/drift/schema"
)

// generator makes objects of the type custom, and often not quite of it.
type generator struct{ r *rand.Rand }

func (g generator) thing() *unstructured.Unstructured {
	spec := g.value(custom().Field("spec").Type, 0)
	meta := map[string]any{"name": "a"}
	for _, name := range []string{"labels", "annotations", "finalizers"} {
		if g.r.IntN(3) == 0 {
			meta[name] = g.value(nil, 1)
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing", "metadata": meta, "spec": spec, "extra": g.value(nil, 0),
	}}
}

func (g generator) value(t *schema.Type, depth int) any {
	if t == nil || g.r.IntN(12) == 0 {
		t = &schema.Type{Kind: schema.Kind(g.r.IntN(12))}
	}
	if depth > 4 {
		return nil
	}
	switch t.Kind {
	case schema.Struct:
		m := map[string]any{}
		for name, f := range t.Fields {
			if g.r.IntN(3) > 0 {
				m[name] = g.value(f.Type, depth+1)
			}
		}
		return m
	case schema.Map:
		m := map[string]any{}
		for range g.r.IntN(4) {
			m[[]string{"a", "b/c", "", "~1", "deployment.kubernetes.io/revision"}[g.r.IntN(5)]] = g.value(t.Elem, depth+1)
		}
		return m
	case schema.List:
		l := []any{}
		for range g.r.IntN(4) {
			l = append(l, g.value(t.Elem, depth+1))
		}
		return l
	}
	return g.plain()
}

func (g generator) plain() any {
	return []any{
		nil, true, false, "a", "b", "", "1", "1000m", "1h", "60m", "YQ==", "YQ=\n=", "2026-01-01T00:00:00Z",
		int64(0), int64(1), int64(3), 1.0, 0.5, "tcp",
	}[g.r.IntN(19)]
}

// change returns a copy with some changed values.
func (g generator) change(v any, depth int) any {
	if g.r.IntN(10) == 0 {
		return g.value(nil, depth)
	}
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for name, e := range v {
			if g.r.IntN(10) > 0 {
				m[name] = g.change(e, depth+1)
			}
		}
		return m
	case []any:
		l := make([]any, 0, len(v))
		for _, e := range v {
			l = append(l, g.change(e, depth+1))
		}
		if g.r.IntN(5) == 0 && len(l) > 0 {
			l = append(l, l[0])
		}
		return l
	}
	return v
}

// shuffle reorders the keyed lists without order of a spec, where all items have
// keys on both sides.
func (g generator) shuffle(o, hub *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	spec, _ := o.Object["spec"].(map[string]any)
	also, _ := hub.Object["spec"].(map[string]any)
	for name, key := range map[string]string{"parts": "name", "ports": "port"} {
		lacks := func(e any) bool {
			m, ok := e.(map[string]any)
			return !ok || m[key] == nil || !value.IsScalar(m[key]) || m["name"] != nil && !value.IsScalar(m["name"])
		}
		h, _ := also[name].([]any)
		if l, ok := spec[name].([]any); ok && !slices.ContainsFunc(l, lacks) && !slices.ContainsFunc(h, lacks) {
			g.r.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
		}
	}
	return o
}

func keyed(all []*Finding) []string {
	var out []string
	for _, f := range all {
		out = append(out, mark(f.Class)+fieldpath.KeyPath(f.Path)+fmt.Sprint(f.Hub, f.Member, f.InHub, f.InMember))
	}
	slices.Sort(out)
	return out
}

// resolve returns the value at a path.
func resolve(o any, path []fieldpath.Step, at fieldpath.Side) (any, bool) {
	for _, s := range path {
		switch v := o.(type) {
		case map[string]any:
			e, ok := v[s.Name]
			if !ok || s.Item {
				return nil, false
			}
			o = e
		case []any:
			i := s.Index(at)
			if !s.Item || i >= len(v) {
				return nil, false
			}
			o = v[i]
		default:
			return nil, false
		}
	}
	return o, true
}

func checkPaths(t *testing.T, all []*Finding, tree *Tree, member *unstructured.Unstructured) {
	t.Helper()
	for _, f := range all {
		if v, ok := resolve(member.Object, f.Path, fieldpath.MemberSide); f.InMember && (!ok || fmt.Sprint(v) != fmt.Sprint(f.Member)) {
			t.Errorf("%s does not lead to %v on the member but to %v", fieldpath.Pointer(f.Path, fieldpath.MemberSide), f.Member, v)
		}
		if v, ok := resolve(tree.Hub, f.Path, fieldpath.HubSide); f.InHub && (!ok || fmt.Sprint(v) != fmt.Sprint(f.Hub)) {
			t.Errorf("%s does not lead to %v on the hub but to %v", fieldpath.Pointer(f.Path, fieldpath.HubSide), f.Hub, v)
		}
		if !f.InHub && !f.InMember {
			t.Errorf("%s is on neither side", fieldpath.Pointer(f.Path, fieldpath.MemberSide))
		}
	}
}

func FuzzWalk(f *testing.F) {
	for i := range uint64(300) {
		f.Add(i)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		g := generator{rand.New(rand.NewPCG(seed, 1))}
		hub := g.thing()
		member := hub.DeepCopy()
		member.Object["spec"] = g.change(hub.Object["spec"], 0)
		member.Object["extra"] = g.change(hub.Object["extra"], 0)
		m, err := Compile(hub, Options{Type: custom()})
		if err != nil {
			t.Fatal(err)
		}
		for _, full := range []bool{false, true} {
			if all, _, _ := m.Compare(hub.Object, full, nil); len(all) > 0 {
				t.Errorf("an object differs from itself, full is %v: %s", full, strconv.Quote(summary(all)))
			}
		}
		partial, _, _ := m.Compare(member.Object, false, nil)
		full, _, _ := m.Compare(member.Object, true, nil)
		checkPaths(t, full, m, member)
		checkPaths(t, partial, m, member)
		in := keyed(full)
		for _, s := range keyed(partial) {
			if !slices.Contains(in, s) {
				t.Errorf("%s is in the partial comparison alone", s)
			}
		}
		if slices.ContainsFunc(m.Warnings, func(string) bool { return true }) {
			return
		}
		moved := g.shuffle(member, hub)
		if again, warned, _ := m.Compare(moved.Object, false, nil); len(warned) == 0 && !slices.Equal(keyed(again), keyed(partial)) {
			t.Errorf("lists in another order make a difference:\n%q\n%q", keyed(partial), keyed(again))
		}
	})
}
