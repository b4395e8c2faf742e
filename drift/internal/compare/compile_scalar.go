package compare

import (
	"github.com/slipway-dev/slipway/drift/internal/value"
	"github.com/slipway-dev/slipway/drift/schema"
)

// scalar fills the node of a plain value. A value that does not match its type is compared
// literally.
func (c *compiler) scalar(at int, v any, t *schema.Type) {
	n := &c.tree.nodes[at]
	if t != nil && c.typed(n, v, t) {
		return
	}
	switch v := v.(type) {
	case nil:
		n.kind, n.flags = kindNull, n.flags|optional
	case bool:
		n.kind = kindBool
		if v {
			n.count = 1
		}
	case string:
		n.kind, n.text = kindString, v
	default:
		n.kind = kindNumber
		if i, ok := value.Integer(v); ok {
			n.kind = kindInt
			n.setNumber(i)
		}
	}
}

// typed fills the node of a plain value that has several notations.
func (c *compiler) typed(n *node, v any, t *schema.Type) bool {
	text, isText := v.(string)
	n.text = text
	switch t.Kind {
	case schema.Quantity:
		return c.quantity(n, v)
	case schema.Duration:
		d, ok := value.ParseDuration(text)
		n.kind = kindDuration
		n.setNumber(int64(d))
		return isText && ok
	case schema.Time:
		_, ok := value.ParseTime(text)
		n.kind = kindTime
		return isText && ok
	case schema.Bytes:
		canonical, ok := value.CanonicalBase64(text)
		n.kind, n.text = kindBytes, canonical
		if v == nil {
			n.flags |= optional
		}
		return (isText || v == nil) && ok
	default:
		return false
	}
}

func (c *compiler) quantity(n *node, v any) bool {
	if d, ok := value.ParseSmallQuantity(v); ok {
		n.kind, n.exponent = kindQuantity, d.Exponent
		n.setNumber(d.Digits)
		return true
	}
	q, ok := value.ParseQuantity(v)
	if ok {
		n.kind, n.extra = kindBigQuantity, uint32(len(c.tree.quantities))
		c.tree.quantities = append(c.tree.quantities, q)
	}
	return ok
}

// same reports whether a plain value of the member means the same as the node.
func (t *Tree) same(at uint32, v any) bool {
	n := &t.nodes[at]
	switch n.kind {
	case kindNull:
		return v == nil
	case kindBool:
		b, ok := v.(bool)
		return ok && b == (n.count == 1)
	case kindInt:
		if i, ok := v.(int64); ok {
			return i == n.number()
		}
		return value.EqualNumbers(n.number(), v)
	case kindNumber:
		return value.EqualNumbers(t.values[at], v)
	case kindQuantity, kindBigQuantity:
		return t.sameQuantity(at, v)
	default:
		text, ok := v.(string)
		return ok && (text == n.text || sameText(n, text))
	}
}

// sameText reports whether two different texts mean the same.
func sameText(n *node, text string) bool {
	switch n.kind {
	case kindDuration:
		d, ok := value.ParseDuration(text)
		return ok && int64(d) == n.number()
	case kindTime:
		a, _ := value.ParseTime(n.text)
		b, ok := value.ParseTime(text)
		return ok && a.Equal(b)
	case kindBytes:
		return value.EqualBase64(n.text, text)
	default:
		return false
	}
}

func (t *Tree) sameQuantity(at uint32, v any) bool {
	n := &t.nodes[at]
	if text, ok := v.(string); ok && n.text != "" && text == n.text {
		return true
	}
	if n.kind == kindQuantity {
		if d, ok := value.ParseSmallQuantity(v); ok && (d.Digits == n.number() && d.Exponent == n.exponent || n.exponent >= milli) {
			return d.Digits == n.number() && d.Exponent == n.exponent
		}
	}
	q, ok := value.ParseQuantity(v)
	if !ok {
		return false
	}
	if n.kind == kindQuantity {
		hub, ok := value.ParseQuantity(t.values[at])
		return ok && value.Stored(hub, q)
	}
	return value.Stored(t.quantities[n.extra], q)
}

// milli is the exponent of the smallest quantity that an API server stores in a list of resources.
const milli = -3
