package compare

import (
	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/internal/kinds"
	"github.com/slipway-dev/slipway/drift/internal/value"
	"github.com/slipway-dev/slipway/drift/schema"
)

// reordered handles a list of the same items in another order.
func (w *walker) reordered(at uint32, l []any, matters bool) {
	n := &w.tree.nodes[at]
	ordered := n.typ != nil && n.typ.Ordered
	if n.is(orderless) || w.probing && !ordered || !w.full && !ordered && !matters {
		return
	}
	w.listDiffers(Order, at, l, "")
}

// keyed compares a list whose items are identified by keys.
func (w *walker) keyed(at uint32, l []any) {
	n := &w.tree.nodes[at]
	if n.is(wholly) {
		w.whole++
		defer func() { w.whole-- }()
	}
	if w.inOrder(n, l) {
		for i, e := range l {
			w.value(n.first+uint32(i), int32(i), e)
		}
		return
	}
	var small [placesHere]int32
	places, moved := w.align(n, l, small[:0])
	for i := range n.count {
		if j := places[i]; j >= 0 {
			w.value(n.first+i, j, l[j])
		} else {
			w.add(Finding{Class: Missing, Hub: w.tree.values[n.first+i], InHub: true}, n.first+i, noItem)
		}
	}
	for j, e := range l {
		w.extraItem(n, j, e, places[int(n.count)+j])
	}
	if moved {
		w.reordered(at, l, n.is(wholly))
	}
}

// set compares a list of plain values, which are either in it or not.
func (w *walker) set(at uint32, l []any) {
	n := &w.tree.nodes[at]
	if w.inOrder(n, l) {
		return
	}
	var small [placesHere]int32
	places, moved := w.align(n, l, small[:0])
	for i := range n.count {
		if places[i] == noPlace && w.tree.lists[n.extra].isFirst(i) {
			w.add(Finding{Class: Missing, Hub: w.tree.values[n.first+i], InHub: true}, n.first+i, noItem)
		}
	}
	for j, e := range l {
		if places[int(n.count)+j] == noPlace {
			w.extraItem(n, j, e, noPlace)
		}
	}
	if moved && n.typ.Ordered {
		w.reordered(at, l, false)
	}
}

// isFirst reports whether an item is the first of its key.
func (a *alignment) isFirst(i uint32) bool { return a.first[a.tuples[i]] == int32(i) }

// inOrder reports whether the member has the items of the hub in the same order.
func (w *walker) inOrder(n *node, l []any) bool {
	if int(n.count) != len(l) {
		return false
	}
	tuples := w.tree.lists[n.extra].tuples
	for i, e := range l {
		if !w.hasKeys(e, n.typ, tuples[i]) {
			return false
		}
	}
	return true
}

// hasKeys reports whether the keys of an item equal a tuple.
func (w *walker) hasKeys(item any, t *schema.Type, tuple string) bool {
	keys, ok := value.AppendKeys(w.room[:0], item, t)
	return ok && string(keys) == tuple
}

// The place of an item that the other side lacks, and of a further one with the same key.
const (
	noPlace  int32 = -1
	repeated int32 = -2
)

// placesHere is the number of items that fit into a buffer without an allocation.
const placesHere = 48

// align appends, for each item of the hub, its index on the member, and then for each item of the
// member its index on the hub. It returns the indexes and whether the common items are in another
// order.
func (w *walker) align(n *node, l []any, places []int32) (all []int32, moved bool) {
	for range int(n.count) + len(l) {
		places = append(places, noPlace)
	}
	hub, member := places[:n.count], places[n.count:]
	a := &w.tree.lists[n.extra]
	again, extras := false, 0
	highest := int32(-1)
	for j, e := range l {
		i := w.place(a, hub, e, n.typ)
		member[j] = i
		if i < 0 {
			again = again || i == repeated
			extras++
			continue
		}
		hub[i] = int32(j)
		moved = moved || i < highest
		highest = max(highest, i)
	}
	if again || extras > 1 && w.full && !w.probing && repeat(l, member, n.typ) {
		w.warn()
	}
	return places, moved
}

// repeat reports whether two items that only the member has have the same keys.
func repeat(l []any, places []int32, t *schema.Type) bool {
	seen := make(map[string]bool)
	var keys []byte
	for j, e := range l {
		if places[j] != noPlace {
			continue
		}
		var ok bool
		if keys, ok = value.AppendKeys(keys[:0], e, t); !ok {
			continue
		}
		if seen[string(keys)] {
			return true
		}
		seen[string(keys)] = true
	}
	return false
}

// place returns the index on the hub of an item of the member.
func (w *walker) place(a *alignment, hub []int32, item any, t *schema.Type) int32 {
	keys, ok := value.AppendKeys(w.room[:0], item, t)
	if !ok {
		return noPlace
	}
	i, ok := a.first[string(keys)]
	if !ok {
		return noPlace
	}
	for i >= 0 && hub[i] != noPlace {
		i = a.next[i]
	}
	if i < 0 {
		return repeated
	}
	return i
}

// extraItem compares an item that only the member has; place is no index of the hub's list.
func (w *walker) extraItem(n *node, j int, item any, place int32) {
	if place >= 0 || place == noPlace && !w.strict() || w.serverItem(n, item) {
		return
	}
	note := ""
	if place == repeated {
		note = "duplicate key"
	}
	w.extra(fieldpath.Step{Item: true, Hub: -1, Member: j, Keys: value.KeysOf(item, n.typ)}, item, nil, note)
}

// serverItem reports whether a server or controller adds an item itself.
func (w *walker) serverItem(n *node, item any) bool {
	if n.is(system) {
		name, _ := item.(string)
		return kinds.IsSystemFinalizer(name)
	}
	if w.tree.Rules.Has(kinds.TokenVolume) {
		return kinds.IsTokenItem(n.name, item)
	}
	return w.tree.Rules.Has(kinds.Tokens) && w.depth == 1 && kinds.IsTokenOf(w.tree.name, item)
}

// warn records duplicate keys in the current list.
func (w *walker) warn() {
	if !w.probing {
		w.out.warnings = append(w.out.warnings, duplicateKey("member", w.path(w.tree)))
	}
}
