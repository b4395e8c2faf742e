package drift

import (
	"encoding/json"
	"strconv"

	"github.com/slipway-dev/slipway/drift/schema"
)

// alignment is what tells the items of a keyed list or of a set apart.
type alignment struct {
	// tuples are the keys of the items, in their order, as appendKeys writes them.
	tuples []string
	// first is where a tuple is first, next where the same one is again, or -1.
	first map[string]int32
	next  []int32
	// repeated tells whether there is one that is.
	repeated bool
}

// list fills the node of a list.
func (c *compiler) list(at int, v []any, t *schema.Type) {
	if t != nil && t.Kind != schema.List {
		t = nil
	}
	if c.m.rules.has(definition) && len(c.path) == 2 && c.path[1].name == "versions" {
		t = byName(t)
	}
	var elem *schema.Type
	if t != nil {
		elem = t.Elem
	}
	first := c.reserve(len(v))
	for i, e := range v {
		c.path = append(c.path, step{item: true, hub: i, member: i})
		c.fill(first+i, e, elem)
		c.path = c.path[:len(c.path)-1]
	}
	n := &c.m.nodes[at]
	n.typ = t
	n.kind, n.first, n.count = kindAtomic, uint32(first), uint32(len(v))
	if len(v) == 0 && !n.present() {
		n.flags |= optional
	}
	c.align(n, v, t)
}

// align makes a node that of a keyed list or of a set, where all items have what
// it takes. Other lists are compared as a whole.
func (c *compiler) align(n *node, v []any, t *schema.Type) {
	if t == nil || t.List == schema.Atomic && len(t.Keys) == 0 {
		return
	}
	a := alignment{tuples: make([]string, len(v)), first: make(map[string]int32, len(v)), next: make([]int32, len(v))}
	var keys []byte
	last := make(map[string]int32)
	for i, e := range v {
		var ok bool
		if keys, ok = appendKeys(keys[:0], e, t); !ok {
			return
		}
		a.add(int32(i), string(keys), last)
	}
	if a.repeated && t.List == schema.Atomic {
		return
	}
	if a.repeated {
		c.m.warnings = append(c.m.warnings, duplicateKey("hub", c.path))
	}
	n.kind, n.extra = kindKeyed, uint32(len(c.m.lists))
	switch t.List {
	case schema.Set:
		n.kind = kindSet
	case schema.Atomic:
		n.flags |= wholly
	case schema.Keyed:
	}
	c.m.lists = append(c.m.lists, a)
}

// add enters the tuple of an item. last is where each tuple was seen last.
func (a *alignment) add(i int32, tuple string, last map[string]int32) {
	a.tuples[i], a.next[i] = tuple, -1
	if before, ok := last[tuple]; ok {
		a.next[before], a.repeated = i, true
	} else {
		a.first[tuple] = i
	}
	last[tuple] = i
}

func duplicateKey(side string, path []step) string {
	return "duplicate key in the list " + pointerTo(path, memberSide) + " of the " + side
}

// appendKeys appends what tells an item of a list of type t apart, in a form that
// is the same for the same keys alone. False is an item that has none.
func appendKeys(b []byte, item any, t *schema.Type) ([]byte, bool) {
	if t.List == schema.Set {
		return appendKey(b, item)
	}
	m, ok := item.(map[string]any)
	if !ok {
		return b, false
	}
	for i := range t.Keys {
		v := keyOf(m, t, &t.Keys[i])
		if b, ok = appendKey(b, v); !ok {
			return b, false
		}
	}
	return b, len(t.Keys) > 0
}

// keyOf returns the value of a key of an item. Empty text is none where a server
// does not tell it from none.
func keyOf(m map[string]any, t *schema.Type, k *schema.Key) any {
	v := m[k.Name]
	if v == nil || v == "" && k.Default != nil && unset(v, t.Elem.Field(k.Name)) {
		return k.Default
	}
	return v
}

func appendKey(b []byte, v any) ([]byte, bool) {
	switch v := v.(type) {
	case nil:
		return append(b, '-'), true
	case bool:
		return strconv.AppendBool(b, v), true
	case string:
		b = strconv.AppendInt(append(b, 's'), int64(len(v)), 10)
		return append(append(b, ':'), v...), true
	case map[string]any, []any:
		return b, false
	}
	if i, ok := integer(v); ok {
		return append(strconv.AppendInt(append(b, 'i'), i, 10), ';'), true
	}
	if text, ok := v.(json.Number); ok {
		return append(append(append(b, 'n'), text...), ';'), true
	}
	f, ok := float(v)
	return append(strconv.AppendFloat(append(b, 'f'), f, 'g', -1, 64), ';'), ok
}

// keysOf returns what tells an item apart in a path.
func keysOf(item any, t *schema.Type) []keyValue {
	if t == nil {
		return nil
	}
	if t.List == schema.Set {
		return []keyValue{{value: item}}
	}
	m, ok := item.(map[string]any)
	if !ok {
		return nil
	}
	var keys []keyValue
	for _, k := range t.Keys {
		if v := keyOf(m, t, &k); v != nil {
			keys = append(keys, keyValue{name: k.Name, value: v})
		}
	}
	return keys
}
