package drift

import (
	"encoding/base64"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-dev/slipway/drift/schema"
)

// scalar fills the node of a plain value. One that is not what its type says is
// compared as it stands.
func (c *compiler) scalar(at int, v any, t *schema.Type) {
	n := &c.m.nodes[at]
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
		if i, ok := integer(v); ok {
			n.kind = kindInt
			n.setNumber(i)
		}
	}
}

// typed fills the node of a plain value that means the same in several spellings.
func (c *compiler) typed(n *node, v any, t *schema.Type) bool {
	text, isText := v.(string)
	n.text = text
	switch t.Kind {
	case schema.Quantity:
		return c.quantity(n, v)
	case schema.Duration:
		d, ok := duration(text)
		n.kind = kindDuration
		n.setNumber(int64(d))
		return isText && ok
	case schema.Time:
		_, ok := instant(text)
		n.kind = kindTime
		return isText && ok
	case schema.Bytes:
		canonical, ok := canonicalBytes(text)
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
	if d, ok := simpleQuantity(v); ok {
		n.kind, n.exponent = kindQuantity, d.exponent
		n.setNumber(d.digits)
		return true
	}
	q, ok := quantityOf(v)
	if ok {
		n.kind, n.extra = kindBigQuantity, uint32(len(c.m.quantities))
		c.m.quantities = append(c.m.quantities, q)
	}
	return ok
}

// same tells whether a plain value of the member means what the node says.
func (m *Manifest) same(at uint32, v any) bool {
	n := &m.nodes[at]
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
		return sameNumber(n.number(), v)
	case kindNumber:
		return sameNumber(m.values[at], v)
	case kindQuantity, kindBigQuantity:
		return m.sameQuantity(at, v)
	default:
		text, ok := v.(string)
		return ok && (text == n.text || sameText(n, text))
	}
}

// sameText tells whether two texts that differ mean the same.
func sameText(n *node, text string) bool {
	switch n.kind {
	case kindDuration:
		d, ok := duration(text)
		return ok && int64(d) == n.number()
	case kindTime:
		a, _ := instant(n.text)
		b, ok := instant(text)
		return ok && a.Equal(b)
	case kindBytes:
		return sameBytes(n.text, text)
	default:
		return false
	}
}

func (m *Manifest) sameQuantity(at uint32, v any) bool {
	n := &m.nodes[at]
	if text, ok := v.(string); ok && n.text != "" && text == n.text {
		return true
	}
	if n.kind == kindQuantity {
		if d, ok := simpleQuantity(v); ok {
			return d.digits == n.number() && d.exponent == n.exponent
		}
	}
	q, ok := quantityOf(v)
	if !ok {
		return false
	}
	if n.kind == kindQuantity {
		hub, ok := quantityOf(m.values[at])
		return ok && hub.Cmp(q) == 0
	}
	return m.quantities[n.extra].Cmp(q) == 0
}

func duration(text string) (time.Duration, bool) {
	if len(text) > 64 {
		return 0, false
	}
	d, err := time.ParseDuration(text)
	return d, err == nil
}

func instant(text string) (time.Time, bool) {
	if len(text) > 64 {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, text)
	return t, err == nil
}

// canonicalBytes returns base64 without line breaks and in its one true spelling.
func canonicalBytes(text string) (string, bool) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", false
	}
	return base64.StdEncoding.EncodeToString(b), true
}

// sameBytes tells whether base64 is that of a canonical text.
func sameBytes(canonical, text string) bool {
	if len(text) == len(canonical) && !strings.HasSuffix(text, "=") {
		return false
	}
	i := 0
	for j := range len(text) {
		if text[j] == '\r' || text[j] == '\n' {
			continue
		}
		if i == len(canonical) || canonical[i] != text[j] {
			return sameTail(canonical, text)
		}
		i++
	}
	return i == len(canonical)
}

// sameTail is sameBytes for texts that may differ in the bits that padding hides.
func sameTail(canonical, text string) bool {
	if !strings.HasSuffix(canonical, "=") {
		return false
	}
	c, ok := canonicalBytes(text)
	return ok && c == canonical
}

// certificate tells whether base64 holds one, and not a placeholder.
func certificate(text string) bool {
	b, err := base64.StdEncoding.DecodeString(text)
	return err == nil && strings.Contains(string(b), "-----BEGIN ")
}

// quantityOf parses a quantity. Texts that would cost more than they are worth,
// such as 1e999999999, are none.
func quantityOf(v any) (resource.Quantity, bool) {
	text, ok := quantityText(v)
	if !ok || len(text) > 64 || vast(text) {
		return resource.Quantity{}, false
	}
	q, err := resource.ParseQuantity(text)
	return q, err == nil
}

// vast tells whether a number has an exponent of more than two digits.
func vast(text string) bool {
	i := strings.IndexAny(text, "eE")
	return i >= 0 && len(strings.TrimLeft(text[i+1:], "+-0")) > 2
}
