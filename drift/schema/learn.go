package schema

import (
	"encoding/json"
	"math"
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// learn copies the facts about a type that only the built-in table has.
func (t *Type) learn(known *Type, s object) {
	if known == nil {
		return
	}
	if t.Kind == Unknown {
		*t = *known
		return
	}
	if t.Kind == String && isText(known.Kind) {
		t.Kind = known.Kind
	}
	if t.Kind != known.Kind {
		return
	}
	t.Union, t.Whole = known.Union, known.Whole
	if t.Kind == List && s["x-kubernetes-list-type"] == nil {
		t.List, t.Keys = known.List, known.Keys
	}
	if t.List == known.List {
		t.Ordered, t.Unordered = known.Ordered, known.Unordered
	}
}

// isText reports whether values of a kind are strings in JSON.
func isText(k Kind) bool {
	switch k {
	case Quantity, Duration, Time, Bytes:
		return true
	default:
		return false
	}
}

// learn copies the facts about a field that only the built-in table has. A default of a server's
// document counts only if it is not the zero value.
func (f *Field) learn(known *Field) {
	if known.Default != nil || known.Derive != noRule || isZero(f.Default) {
		f.Default = known.Default
	}
	f.Derive, f.Presence, f.Unset = known.Derive, known.Presence, known.Unset
	f.ServerOwned, f.Immutable, f.Sealed = known.ServerOwned, known.Immutable, known.Sealed
	f.Secret = f.Secret || known.Secret
}

func isZero(v any) bool {
	switch v := v.(type) {
	case object:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return v == nil || reflect.ValueOf(v).IsZero()
}

// defaultValue copies a default, so that no caller can change it, and converts its numbers to the
// types of unstructured objects.
func (c *compiler) defaultValue(v any, at *field.Path) any {
	out, ok := copyValue(v, 0)
	if !ok {
		c.fail(field.Invalid(at, describe(v), "must be JSON that is not nested too deep"))
		return nil
	}
	return out
}

func copyValue(v any, depth int) (any, bool) {
	if depth > maxDepth {
		return nil, false
	}
	switch v := v.(type) {
	case object:
		return copyObject(v, depth)
	case []any:
		return copyList(v, depth)
	case json.Number:
		return number(v)
	case int:
		return int64(v), true
	case string, bool, int64, nil:
		return v, true
	case float64:
		return v, !math.IsNaN(v) && !math.IsInf(v, 0)
	}
	return nil, false
}

func copyObject(v object, depth int) (any, bool) {
	out := make(object, len(v))
	for name, inner := range v {
		c, ok := copyValue(inner, depth+1)
		if !ok {
			return nil, false
		}
		out[name] = c
	}
	return out, true
}

func copyList(v []any, depth int) (any, bool) {
	out := make([]any, len(v))
	for i, inner := range v {
		c, ok := copyValue(inner, depth+1)
		if !ok {
			return nil, false
		}
		out[i] = c
	}
	return out, true
}

func number(n json.Number) (any, bool) {
	if i, err := n.Int64(); err == nil {
		return i, true
	}
	f, err := n.Float64()
	return f, err == nil
}

// complete adds the defaults of nested fields to a default, like a server. It changes v.
func complete(t *Type, v any, depth int) any {
	if t == nil || depth > maxDepth {
		return v
	}
	switch v := v.(type) {
	case object:
		completeObject(t, v, depth)
	case []any:
		for i := range v {
			v[i] = complete(t.Elem, v[i], depth+1)
		}
	}
	return v
}

func completeObject(t *Type, v object, depth int) {
	for name, inner := range v {
		if f := t.Field(name); f != nil {
			v[name] = complete(f.Type, inner, depth+1)
		} else {
			v[name] = complete(t.Elem, inner, depth+1)
		}
	}
	// These come last, because they are complete and shared.
	for name, f := range t.Fields {
		if f.Default != nil && f.Derive == noRule && v[name] == nil && !f.nullIn(v, name) {
			v[name] = f.Default
		}
	}
}

// nullIn reports whether a field is explicitly null.
func (f *Field) nullIn(v object, name string) bool {
	_, there := v[name]
	return there && f.Type != nil && f.Type.Nullable
}
