package value

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-dev/slipway/drift/schema"
)

// Equal reports whether two values of a type mean the same; null is absent.
func Equal(a, b any, t *schema.Type) bool {
	switch a := a.(type) {
	case map[string]any:
		m, ok := b.(map[string]any)
		return ok && equalMaps(a, m, t)
	case []any:
		l, ok := b.([]any)
		return ok && equalLists(a, l, t)
	}
	if text, ok := a.(string); ok && b == text {
		return true
	}
	return EqualNumbers(a, b) || a == nil && b == nil || equalBools(a, b) || t != nil && equalTyped(a, b, t)
}

func equalBools(a, b any) bool {
	x, ok := a.(bool)
	y, also := b.(bool)
	return ok && also && x == y
}

func equalMaps(a, b map[string]any, t *schema.Type) bool {
	common := 0
	for name, v := range a {
		e := b[name]
		_, typ := FieldOf(t, name)
		if !Equal(v, e, typ) {
			return false
		}
		if _, ok := b[name]; ok {
			common++
		}
	}
	for name, e := range b {
		if common == len(b) {
			return true
		}
		if _, ok := a[name]; !ok && e != nil {
			return false
		}
	}
	return true
}

func equalLists(a, b []any, t *schema.Type) bool {
	if len(a) != len(b) {
		return false
	}
	var elem *schema.Type
	if t != nil {
		elem = t.Elem
	}
	for i := range a {
		if !Equal(a[i], b[i], elem) {
			return false
		}
	}
	return true
}

// equalTyped reports whether two plain values are notations of the same value.
func equalTyped(a, b any, t *schema.Type) bool {
	if t.Kind == schema.Quantity {
		return equalQuantities(a, b)
	}
	x, ok := a.(string)
	y, also := b.(string)
	if !ok || !also {
		return false
	}
	switch t.Kind {
	case schema.Duration:
		d, ok := ParseDuration(x)
		e, also := ParseDuration(y)
		return ok && also && d == e
	case schema.Time:
		d, ok := ParseTime(x)
		e, also := ParseTime(y)
		return ok && also && d.Equal(e)
	case schema.Bytes:
		d, ok := CanonicalBase64(x)
		e, also := CanonicalBase64(y)
		return ok && also && d == e
	default:
		return false
	}
}

func equalQuantities(a, b any) bool {
	x, ok := ParseSmallQuantity(a)
	y, also := ParseSmallQuantity(b)
	if ok && also && (x == y || x.Exponent >= int8(resource.Milli)) {
		return x == y
	}
	p, ok := ParseQuantity(a)
	q, also := ParseQuantity(b)
	return ok && also && Stored(p, q)
}

// Stored reports whether a member has the quantity of the hub: an equal one, or its value rounded
// up to a thousandth, away from zero, by which an API server stores it in a list of resources.
func Stored(hub, member resource.Quantity) bool {
	if hub.Cmp(member) == 0 {
		return true
	}
	rounded := hub.DeepCopy()
	rounded.RoundUp(resource.Milli)
	return rounded.Cmp(member) == 0
}

// FieldOf returns the field and the type of a key of a map.
func FieldOf(t *schema.Type, name string) (*schema.Field, *schema.Type) {
	if f := t.Field(name); f != nil {
		return f, f.Type
	}
	if t != nil && t.Kind == schema.Map {
		return nil, t.Elem
	}
	return nil, nil
}

// HasPresence reports whether the empty value of a field differs from its absence.
func HasPresence(f *schema.Field) bool { return f != nil && f.Presence }

// IsMap reports whether a type is a map without known fields.
func IsMap(t *schema.Type) bool { return t != nil && t.Kind == schema.Map }

// IsUnset reports whether a server treats a value the same as an absent one.
func IsUnset(v any, f *schema.Field) bool {
	return f != nil && f.Unset && (v == "" || v == false || v == int64(0))
}

// ElemOf returns the type of the items or values of a type, nil if it is unknown.
func ElemOf(t *schema.Type) *schema.Type {
	if t == nil {
		return nil
	}
	return t.Elem
}

// Implied reports whether a value that only the member has comes from a server or has no meaning.
// A value below depth levels is not implied.
func Implied(v any, f *schema.Field, t *schema.Type, parent map[string]any, depth int) bool {
	if v == nil || IsUnset(v, f) {
		return true
	}
	if f != nil && f.ServerOwned {
		return true
	}
	if d, ok := f.DefaultIn(parent); ok && Equal(d, v, t) {
		return true
	}
	return depth > 0 && Hollow(v, f, t, depth-1)
}

// Hollow reports whether a value is empty, or has only implied parts.
func Hollow(v any, f *schema.Field, t *schema.Type, depth int) bool {
	if HasPresence(f) {
		return false
	}
	switch v := v.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		if IsMap(t) {
			depth = 0
		}
		for name, e := range v {
			field, typ := FieldOf(t, name)
			if !Implied(e, field, typ, v, depth) {
				return false
			}
		}
		return true
	}
	return false
}
