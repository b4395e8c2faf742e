package drift_test

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-dev/slipway/drift"
)

// choices makes decisions of bytes. When there are no more it decides for the
// smallest.
type choices struct{ data []byte }

func (c *choices) n(limit int) int {
	if len(c.data) == 0 || limit <= 1 {
		return 0
	}
	b := int(c.data[0])
	c.data = c.data[1:]
	return b % limit
}

func pickOf[T any](c *choices, all ...T) T { return all[c.n(len(all))] }

// gadget makes an object of the kind of testdata/objects/gadget-crd.yaml.
func (c *choices) gadget() *unstructured.Unstructured {
	spec := map[string]any{}
	for _, name := range gadgetFields() {
		if c.n(2) == 1 {
			spec[name] = c.field(name)
		}
	}
	meta := map[string]any{"name": "lamp", "namespace": "shop"}
	if c.n(3) == 1 {
		meta["labels"] = map[string]any{pickOf(c, "a", "example.com/b", "app.kubernetes.io/c"): c.text()}
	}
	if c.n(3) == 1 {
		meta["finalizers"] = c.texts()
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": meta, "spec": spec}}
}

func gadgetFields() []string {
	return []string{"size", "count", "ratio", "flag", "text", "amount", "port", "span", "at", "maybe", "list", "parts", "ends", "tags", "bag", "loose", "words", "free", "manifest", "unknown"}
}

func (c *choices) field(name string) any {
	switch name {
	case "size", "count":
		return pickOf[any](c, int64(3), int64(0), int64(math.MaxInt64), int64(math.MaxInt64-1))
	case "ratio":
		return pickOf[any](c, 0.5, int64(1), 1.0, 1e300, math.Copysign(0, -1), json.Number("18446744073709551616"))
	case "flag":
		return c.n(2) == 1
	case "amount":
		return pickOf[any](c, "1", int64(1), "1000m", 0.5, "500m", "none")
	case "port":
		return pickOf[any](c, int64(80), "80", "http")
	case "span":
		return pickOf[any](c, "1h", "60m", "soon")
	case "at":
		return pickOf[any](c, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "now")
	case "maybe":
		return pickOf[any](c, nil, "x", "")
	case "list":
		return c.some(pickOf(c, 3, 5, 24), func() any { return int64(c.n(4)) })
	case "tags":
		return c.texts()
	case "bag", "loose", "words":
		return c.table(name != "words")
	case "free", "unknown":
		return c.any(3)
	case "manifest":
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "creationTimestamp": nil}, "data": c.table(false)}
	case "parts":
		return c.keyed([]any{"a", "b", "c/d", `e"f`}, "name", c.part)
	case "pieces":
		return c.keyed([]any{int64(1), int64(2), int64(3)}, "id", func(o map[string]any) { c.maybe(o, "color", func() any { return pickOf[any](c, "grey", "red") }) })
	case "ends":
		return c.ends()
	}
	return c.text()
}

func (c *choices) part(o map[string]any) {
	c.maybe(o, "size", func() any { return c.field("amount") })
	c.maybe(o, "retries", func() any { return int64(c.n(4)) })
	c.maybe(o, "labels", func() any { return c.table(false) })
	c.maybe(o, "pieces", func() any { return c.field("pieces") })
	c.maybe(o, "more", func() any { return c.any(1) })
}

func (c *choices) maybe(o map[string]any, name string, value func() any) {
	if c.n(2) == 1 {
		o[name] = value()
	}
}

func (c *choices) some(limit int, value func() any) []any {
	l := []any{}
	for range c.n(limit + 1) {
		l = append(l, value())
	}
	return l
}

// texts are values that differ from one another.
func (c *choices) texts() []any {
	l := []any{}
	for _, s := range []string{"a", "b", "", "ü", "x/y~z"} {
		if c.n(2) == 1 {
			l = append(l, s)
		}
	}
	return l
}

func (c *choices) text() string { return pickOf(c, "", "a", "b", "ü", "\x1b[0m\u2028", "<&>", "1") }

func (c *choices) table(numbers bool) map[string]any {
	o := map[string]any{}
	for _, name := range []string{"a", "b/c", "~", "", "10", "9"} {
		if c.n(3) == 1 {
			if o[name] = any(c.text()); numbers {
				o[name] = int64(c.n(3))
			}
		}
	}
	return o
}

// keyed makes items with keys that differ, in any order.
func (c *choices) keyed(keys []any, name string, fill func(map[string]any)) []any {
	l := []any{}
	for _, k := range keys {
		if c.n(2) == 1 {
			o := map[string]any{name: k}
			fill(o)
			l = slices.Insert(l, c.n(len(l)+1), any(o))
		}
	}
	return l
}

func (c *choices) ends() []any {
	l := []any{}
	for _, host := range []string{"x", "y"} {
		for _, zone := range []string{"", "east", "west"} {
			if c.n(3) != 1 {
				continue
			}
			o := map[string]any{"host": host}
			if zone != "" {
				o["zone"] = zone
			}
			c.maybe(o, "weight", func() any { return int64(c.n(3)) })
			l = append(l, o)
		}
	}
	return l
}

// any returns a value without a known type.
func (c *choices) any(levels int) any {
	switch n := c.n(9); {
	case n == 0:
		return c.text()
	case n == 1:
		return int64(c.n(3))
	case n == 2:
		return c.n(2) == 1
	case n == 3:
		return 0.25
	case n == 4:
		return nil
	case levels == 0:
		return "deep"
	case n < 7:
		return c.some(3, func() any { return c.any(levels - 1) })
	}
	o := map[string]any{}
	for _, name := range []string{"a", "b/c", "~1", ""} {
		if c.n(2) == 1 {
			o[name] = c.any(levels - 1)
		}
	}
	return o
}

// altered makes the member's object: some fields as the hub has them, some
// others, some not there, and items of lists elsewhere.
func (c *choices) altered(hub *unstructured.Unstructured) *unstructured.Unstructured {
	o := runtime.DeepCopyJSON(hub.Object)
	spec, _ := o["spec"].(map[string]any)
	for _, name := range gadgetFields() {
		switch c.n(4) {
		case 1:
			spec[name] = c.field(name)
		case 2:
			delete(spec, name)
		}
	}
	parts, _ := spec["parts"].([]any)
	for _, p := range parts {
		if p, ok := p.(map[string]any); ok && c.n(2) == 1 {
			c.part(p)
		}
	}
	meta, _ := o["metadata"].(map[string]any)
	meta["uid"], meta["resourceVersion"] = "u-1", strconv.Itoa(c.n(9))
	if c.n(3) == 1 {
		meta["labels"] = map[string]any{"a": c.text()}
	}
	return &unstructured.Unstructured{Object: c.reordered(o)}
}

// reordered shuffles the keyed lists and the sets of o in place, and returns o.
func (c *choices) reordered(o map[string]any) map[string]any {
	spec, _ := o["spec"].(map[string]any)
	for _, name := range []string{"parts", "ends", "tags"} {
		c.shuffle(spec[name])
	}
	parts, _ := spec["parts"].([]any)
	for _, p := range parts {
		if p, ok := p.(map[string]any); ok {
			c.shuffle(p["pieces"])
		}
	}
	return o
}

func (c *choices) shuffle(v any) {
	l, _ := v.([]any)
	for i := range l {
		j := i + c.n(len(l)-i)
		l[i], l[j] = l[j], l[i]
	}
}

// tree is a value that can be changed at several places whose paths were found
// before.
type tree struct {
	fields map[string]*tree
	items  []*tree
	list   bool
	value  any
	gone   bool
}

func grow(v any) *tree {
	switch v := v.(type) {
	case map[string]any:
		t := &tree{fields: map[string]*tree{}}
		for name, e := range v {
			t.fields[name] = grow(e)
		}
		return t
	case []any:
		t := &tree{list: true}
		for _, e := range v {
			t.items = append(t.items, grow(e))
		}
		return t
	}
	return &tree{value: v}
}

func (t *tree) cut() any {
	switch {
	case t.fields != nil:
		o := map[string]any{}
		for name, c := range t.fields {
			if !c.gone {
				o[name] = c.cut()
			}
		}
		return o
	case t.list:
		l := []any{}
		for _, c := range t.items {
			if !c.gone {
				l = append(l, c.cut())
			}
		}
		return l
	}
	return t.value
}

// undone returns an object without the differences: it sets differing values, removes additional
// ones, and then adds missing ones in the order of their pointers.
func undone(t *testing.T, o map[string]any, all []drift.Difference) map[string]any {
	t.Helper()
	root := grow(o)
	var changes, additions []func()
	for _, d := range all {
		hub := grow(decoded(t, d.Hub))
		switch d.Class {
		case drift.Changed:
			at := root.at(t, segments(d.Path))
			changes = append(changes, func() { *at = *hub })
		case drift.Unmanaged, drift.Stale:
			at := root.at(t, segments(d.Path))
			changes = append(changes, func() { at.gone = true })
		case drift.Missing:
			parent, last := root.parent(t, d.KeyPath)
			additions = append(additions, func() { parent.add(last, hub) })
		}
	}
	for _, change := range append(changes, additions...) {
		change()
	}
	out, _ := root.cut().(map[string]any)
	return out
}

func decoded(t *testing.T, text json.RawMessage) any {
	t.Helper()
	if len(text) == 0 {
		return nil
	}
	n, err := objectsOf(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (t *tree) at(test *testing.T, path []string) *tree {
	test.Helper()
	for _, s := range path {
		if !t.list {
			t = t.fields[s]
		} else if i, err := strconv.Atoi(s); err == nil && i < len(t.items) {
			t = t.items[i]
		}
		if t == nil {
			test.Fatalf("%q leads nowhere", path)
		}
	}
	return t
}

// add adds a missing value at a step of a key path; an item without keys gets its index on the
// hub.
func (t *tree) add(s keyStep, v *tree) {
	if s.item {
		t.items = slices.DeleteFunc(t.items, func(item *tree) bool { return item.gone })
		at := len(t.items)
		if i, err := strconv.Atoi(s.name); err == nil {
			at = min(i, at)
		}
		t.list, t.fields, t.value = true, nil, nil
		t.items = slices.Insert(t.items, at, v)
		return
	}
	if t.fields == nil {
		*t = tree{fields: map[string]*tree{}}
	}
	t.fields[s.name] = v
}
