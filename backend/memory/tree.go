package memory

import (
	"maps"
	"reflect"
	"slices"
)

// tree is decoded JSON whose root is an object. Trees are shared between
// objects, clusters and callers, and therefore immutable: the functions here
// copy the maps on the path to a change and share the rest.
type tree = map[string]any

// deepCopy returns a copy of v that shares no map or list with it.
func deepCopy(v any) any {
	switch v := v.(type) {
	case tree:
		return copyTree(v)
	case []any:
		if v == nil {
			return v
		}
		c := make([]any, len(v))
		for i := range v {
			c[i] = deepCopy(v[i])
		}
		return c
	}
	return v
}

func copyTree(t tree) tree {
	if t == nil {
		return nil
	}
	c := make(tree, len(t))
	for k, v := range t {
		c[k] = deepCopy(v)
	}
	return c
}

// equal reports whether two values are the same JSON. Numbers are compared by value, because
// decoders use different types.
func equal(a, b any) bool {
	switch a := a.(type) {
	case tree:
		b, ok := b.(tree)
		return ok && (len(a) == len(b) && sameMap(a, b) || maps.EqualFunc(a, b, equal))
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case string:
		b, ok := b.(string)
		return ok && a == b
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	return reflect.DeepEqual(a, b)
}

// number returns integers as int64 and other numbers as float64.
func number(v any) (any, bool) {
	switch n := reflect.ValueOf(v); {
	case n.CanInt():
		return n.Int(), true
	case n.CanFloat():
		if f := n.Float(); float64(int64(f)) != f {
			return f, true
		}
		return int64(n.Float()), true
	}
	return nil, false
}

// sameMap reports whether a and b are one map in memory.
func sameMap(a, b tree) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

// merge returns live with the values of applied: objects merge, everything else is replaced as a
// whole. It returns live itself if nothing changes.
func merge(live, applied tree) tree {
	out := edit{from: live}
	for k, v := range applied {
		if below, value, nested := subtrees(live[k], v); nested {
			if merged := merge(below, value); !sameMap(merged, below) {
				out.set(k, merged)
			}
		} else if old, ok := live[k]; !ok || !equal(old, v) {
			out.set(k, v)
		}
	}
	return out.result()
}

// subtrees returns a and b as trees, and reports whether both are.
func subtrees(a, b any) (x, y tree, ok bool) {
	x, isX := a.(tree)
	y, isY := b.(tree)
	return x, y, isX && isY
}

// edit copies a map on the first change.
type edit struct {
	from, to tree
}

func (e *edit) set(k string, v any) {
	e.copy()
	e.to[k] = v
}

func (e *edit) delete(k string) {
	if _, ok := e.result()[k]; ok {
		e.copy()
		delete(e.to, k)
	}
}

func (e *edit) copy() {
	if e.to == nil {
		e.to = make(tree, len(e.from))
		maps.Copy(e.to, e.from)
	}
}

func (e *edit) result() tree {
	if e.to == nil {
		return e.from
	}
	return e.to
}
