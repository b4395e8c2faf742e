package drift

import "github.com/slipway-dev/slipway/drift/schema"

// means tells whether two values of a type mean the same, null being absent.
func means(a, b any, t *schema.Type) bool {
	switch a := a.(type) {
	case map[string]any:
		m, ok := b.(map[string]any)
		return ok && sameMaps(a, m, t)
	case []any:
		l, ok := b.([]any)
		return ok && sameLists(a, l, t)
	}
	if text, ok := a.(string); ok && b == text {
		return true
	}
	return sameNumber(a, b) || a == nil && b == nil || sameBool(a, b) || t != nil && sameTyped(a, b, t)
}

func sameBool(a, b any) bool {
	x, ok := a.(bool)
	y, also := b.(bool)
	return ok && also && x == y
}

func sameMaps(a, b map[string]any, t *schema.Type) bool {
	common := 0
	for name, v := range a {
		e := b[name]
		_, typ := describeField(t, name)
		if !means(v, e, typ) {
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

func sameLists(a, b []any, t *schema.Type) bool {
	if len(a) != len(b) {
		return false
	}
	var elem *schema.Type
	if t != nil {
		elem = t.Elem
	}
	for i := range a {
		if !means(a[i], b[i], elem) {
			return false
		}
	}
	return true
}

// sameTyped tells whether two plain values are spellings of the same one.
func sameTyped(a, b any, t *schema.Type) bool {
	if t.Kind == schema.Quantity {
		return sameAmount(a, b)
	}
	x, ok := a.(string)
	y, also := b.(string)
	if !ok || !also {
		return false
	}
	switch t.Kind {
	case schema.Duration:
		d, ok := duration(x)
		e, also := duration(y)
		return ok && also && d == e
	case schema.Time:
		d, ok := instant(x)
		e, also := instant(y)
		return ok && also && d.Equal(e)
	case schema.Bytes:
		d, ok := canonicalBytes(x)
		e, also := canonicalBytes(y)
		return ok && also && d == e
	default:
		return false
	}
}

func sameAmount(a, b any) bool {
	x, ok := simpleQuantity(a)
	y, also := simpleQuantity(b)
	if ok && also {
		return x == y
	}
	p, ok := quantityOf(a)
	q, also := quantityOf(b)
	return ok && also && p.Cmp(q) == 0
}
