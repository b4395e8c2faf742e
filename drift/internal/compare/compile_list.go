package compare

import (
	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/internal/kinds"
	"github.com/slipway-dev/slipway/drift/internal/value"
	"github.com/slipway-dev/slipway/drift/schema"
)

// alignment has the identities of the items of a keyed list or of a set.
type alignment struct {
	// tuples are the keys of the items, in their order, in the form of AppendKeys.
	tuples []string
	// first is the first index of a tuple, next the next index of the same tuple, or -1.
	first map[string]int32
	next  []int32
	// repeated reports whether a tuple occurs more than once.
	repeated bool
}

// list fills the node of a list.
func (c *compiler) list(at int, v []any, t *schema.Type) {
	if t != nil && t.Kind != schema.List {
		t = nil
	}
	if c.tree.Rules.Has(kinds.Definition) && len(c.path) == 2 && c.path[1].Name == "versions" {
		t = byKeys(t, schema.Keyed, "name")
	}
	set := c.setHere()
	if set != nil && set.Keys != nil {
		t = byKeys(t, schema.Atomic, set.Keys...)
	}
	var elem *schema.Type
	if t != nil {
		elem = t.Elem
	}
	first := c.reserve(len(v))
	for i, e := range v {
		c.path = append(c.path, fieldpath.Step{Item: true, Hub: i, Member: i})
		c.fill(first+i, e, elem)
		c.path = c.path[:len(c.path)-1]
	}
	n := &c.tree.nodes[at]
	n.typ = t
	n.kind, n.first, n.count = kindAtomic, uint32(first), uint32(len(v))
	if len(v) == 0 && !n.present() {
		n.flags |= optional
	}
	if set != nil {
		n.flags |= orderless
	}
	c.align(n, v, t)
}

// setHere returns the set for the list at the path, nil if it is none.
func (c *compiler) setHere() *kinds.Set {
	for i := range c.tree.sets {
		set := &c.tree.sets[i]
		if len(set.Path) != len(c.path) {
			continue
		}
		same := true
		for j, name := range set.Path {
			same = same && (name == "*" && c.path[j].Item || name == c.path[j].Name && !c.path[j].Item)
		}
		if same {
			return set
		}
	}
	return nil
}

// align makes a node a keyed list or a set, if all items have the required keys. Other lists are
// compared as a whole.
func (c *compiler) align(n *node, v []any, t *schema.Type) {
	if t == nil || t.List == schema.Atomic && len(t.Keys) == 0 {
		return
	}
	a := alignment{tuples: make([]string, len(v)), first: make(map[string]int32, len(v)), next: make([]int32, len(v))}
	var keys []byte
	last := make(map[string]int32)
	for i, e := range v {
		var ok bool
		if keys, ok = value.AppendKeys(keys[:0], e, t); !ok {
			return
		}
		a.add(int32(i), string(keys), last)
	}
	if a.repeated && t.List == schema.Atomic {
		return
	}
	if a.repeated {
		c.tree.Warnings = append(c.tree.Warnings, duplicateKey("hub", c.path))
	}
	n.kind, n.extra = kindKeyed, uint32(len(c.tree.lists))
	switch t.List {
	case schema.Set:
		n.kind = kindSet
	case schema.Atomic:
		n.flags |= wholly
	case schema.Keyed:
	}
	c.tree.lists = append(c.tree.lists, a)
}

// add adds the tuple of an item. last has the last index of each tuple.
func (a *alignment) add(i int32, tuple string, last map[string]int32) {
	a.tuples[i], a.next[i] = tuple, -1
	if before, ok := last[tuple]; ok {
		a.next[before], a.repeated = i, true
	} else {
		a.first[tuple] = i
	}
	last[tuple] = i
}

func duplicateKey(side string, path []fieldpath.Step) string {
	return "duplicate key in the list " + fieldpath.Pointer(path, fieldpath.MemberSide) + " of the " + side
}
