package memory

import (
	"encoding/json"
	"maps"
	"reflect"
)

// tree is decoded JSON whose root is an object. Trees are shared between
// objects, clusters and callers, and therefore never changed: the functions
// here copy the maps on the path to a change and share the rest.
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

// equal reports whether two values are the same JSON. Numbers are compared by
// value, because one side may have been decoded by another decoder.
func equal(a, b any) bool {
	switch a := a.(type) {
	case tree:
		b, ok := b.(tree)
		return ok && equalTrees(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && equalLists(a, b)
	case string:
		b, ok := b.(string)
		return ok && a == b
	}
	return equalScalars(a, b)
}

func equalTrees(a, b tree) bool {
	if len(a) != len(b) {
		return false
	}
	if sameMap(a, b) {
		return true
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || !equal(v, w) {
			return false
		}
	}
	return true
}

func equalLists(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func equalScalars(a, b any) bool {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	return reflect.DeepEqual(a, b)
}

// number returns integers as int64 and other numbers as float64.
func number(v any) (any, bool) {
	switch n := v.(type) {
	case int64:
		return n, true
	case int:
		return int64(n), true
	case int32:
		return int64(n), true
	case float64:
		if i := int64(n); float64(i) == n {
			return i, true
		}
		return n, true
	case json.Number:
		if i, err := n.Int64(); err == nil {
			return i, true
		}
		f, err := n.Float64()
		return f, err == nil
	}
	return nil, false
}

// sameMap reports whether a and b are one map in memory.
func sameMap(a, b tree) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

// merge returns live with the values of applied: objects merge, everything
// else is replaced as a whole. It returns live itself when nothing changes.
func merge(live, applied tree) tree {
	out := edit{from: live}
	for k, v := range applied {
		old, ok := live[k]
		if below, both := subtrees(old, v); both {
			v = merge(below[0], below[1])
			if sameMap(v.(tree), below[0]) {
				continue
			}
		} else if ok && equal(old, v) {
			continue
		}
		out.set(k, v)
	}
	return out.result()
}

// prune returns live without what before has and now has not, except where
// one of the others has it too.
func prune(live, before, now tree, others []tree) tree {
	out := edit{from: live}
	for k, was := range before {
		value, ok := live[k]
		if !ok {
			continue
		}
		is, kept := now[k]
		below, both := subtrees(value, was)
		switch {
		case both && (!kept || isTree(is)):
			pruneBelow(&out, k, below[0], below[1], is, kept, others)
		case !kept && !anyHas(others, k):
			out.delete(k)
		}
	}
	return out.result()
}

func pruneBelow(out *edit, k string, live, before tree, now any, kept bool, others []tree) {
	inside, _ := now.(tree)
	next := prune(live, before, inside, below(others, k))
	switch {
	case !kept && len(next) == 0 && !anyHas(others, k):
		out.delete(k)
	case !sameMap(next, live):
		out.set(k, next)
	}
}

// surrender returns owned without the leaves that applied sets to another value than live has: a forced apply
// takes the field from its owners.
func surrender(owned, live, applied tree) tree {
	out := edit{from: owned}
	for k, v := range owned {
		wants, ok := applied[k]
		if !ok {
			continue
		}
		has, nested := subtrees(v, wants)
		switch {
		case nested:
			inLive, _ := live[k].(tree)
			if rest := surrender(has[0], inLive, has[1]); !sameMap(rest, has[0]) {
				out.set(k, rest)
			}
		case !equal(live[k], wants):
			out.delete(k)
		}
	}
	return out.result()
}

// intersect returns owned without the leaves that are missing or different in live, which other writers have
// taken.
func intersect(owned, live tree) tree {
	out := edit{from: owned}
	for k, v := range owned {
		has, nested := subtrees(v, live[k])
		switch {
		case nested:
			if rest := intersect(has[0], has[1]); !sameMap(rest, has[0]) {
				out.set(k, rest)
			}
		case !equal(v, live[k]):
			out.delete(k)
		}
	}
	return out.result()
}

// difference returns what now has and before has not, or has differently.
func difference(before, now tree) tree {
	out := tree{}
	for k, v := range now {
		old, ok := before[k]
		if below, both := subtrees(old, v); both {
			if d := difference(below[0], below[1]); len(d) > 0 {
				out[k] = d
			}
		} else if !ok || !equal(old, v) {
			out[k] = v
		}
	}
	return out
}

// edit copies a map when the first change is made.
type edit struct {
	from, to tree
}

func (e *edit) set(k string, v any) {
	e.copy()
	e.to[k] = v
}

func (e *edit) delete(k string) {
	e.copy()
	delete(e.to, k)
}

func (e *edit) copy() {
	if e.to == nil {
		e.to = maps.Clone(e.from)
	}
	if e.to == nil {
		e.to = tree{}
	}
}

func (e *edit) result() tree {
	if e.to == nil {
		return e.from
	}
	return e.to
}

func subtrees(a, b any) ([2]tree, bool) {
	x, ok := a.(tree)
	if !ok {
		return [2]tree{}, false
	}
	y, ok := b.(tree)
	return [2]tree{x, y}, ok
}

func isTree(v any) bool {
	_, ok := v.(tree)
	return ok
}

func anyHas(trees []tree, k string) bool {
	for _, t := range trees {
		if _, ok := t[k]; ok {
			return true
		}
	}
	return false
}

func below(trees []tree, k string) []tree {
	var out []tree
	for _, t := range trees {
		if b, ok := t[k].(tree); ok {
			out = append(out, b)
		}
	}
	return out
}
