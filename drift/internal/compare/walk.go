package compare

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/internal/kinds"
	"github.com/slipway-dev/slipway/drift/internal/value"
	"github.com/slipway-dev/slipway/drift/schema"
)

// walker compares one object of a member with a tree. It allocates only if there is a finding.
type walker struct {
	tree *Tree
	// explained reports whether a finding is no difference; nil explains nothing.
	explained func(*Finding) bool
	full      bool
	// member is the root of the compared object.
	member map[string]any
	position
	// probing walks only find out whether there is a difference; differs is their answer.
	probing, differs bool
	// whole is the number of lists and maps that are owned as a whole and contain the current
	// position.
	whole int
	// inside reports whether one of them is compared item by item; since is the value that
	// out.counted had before.
	inside bool
	since  int
	// work counts the compared fields and items.
	work   int
	out    findings
	extent extent
	// room is a buffer for the keys of an item.
	room [256]byte
}

// Compare compares the whole object of a member. If full is set, fields that only the member has
// are also differences. A finding that explained accepts is no difference; nil accepts none. The
// findings are within the limits of objects, otherwise there is an error. An equal object is not
// measured, because the walk goes no deeper than the hub's.
func (t *Tree) Compare(member map[string]any, full bool, explained func(*Finding) bool) ([]*Finding, []string, error) {
	w := walker{tree: t, explained: explained, full: full, member: member, extent: extent{left: trustedValues}}
	if t.measureAll {
		w.extent.left = 0
	}
	w.object(0, member)
	if w.extent.refused != nil {
		return nil, nil, w.extent.refused
	}
	return w.out.found, w.out.warnings, nil
}

// value compares a value of the member with the node.
func (w *walker) value(at uint32, item int32, v any) {
	n := &w.tree.nodes[at]
	switch n.kind {
	case kindMap:
		if m, ok := v.(map[string]any); ok {
			w.push(at, item)
			w.object(at, m)
			w.pop()
			return
		}
	case kindKeyed, kindSet, kindAtomic:
		if l, ok := v.([]any); ok {
			w.push(at, item)
			w.list(at, l)
			w.pop()
			return
		}
	default:
		if w.tree.same(at, v) {
			return
		}
	}
	w.differ(Changed, at, item, v)
}

func (w *walker) list(at uint32, l []any) {
	switch w.tree.nodes[at].kind {
	case kindKeyed:
		w.keyed(at, l)
	case kindSet:
		w.set(at, l)
	default:
		w.atomic(at, l)
	}
}

// object compares a map of the member with the node.
func (w *walker) object(at uint32, member map[string]any) {
	n := &w.tree.nodes[at]
	w.work += int(n.count)
	if n.is(wholly) {
		w.whole++
	}
	common := 0
	for i := n.first; i < n.first+n.count && !w.differs; i++ {
		c := &w.tree.nodes[i]
		v, ok := member[c.name]
		if ok {
			common++
		}
		if c.kind == kindString {
			if text, ok := v.(string); ok && text == c.text {
				continue
			}
		}
		if v == nil && c.kind != kindNull && (!ok || !c.nullable()) {
			w.absent(i, aField, member)
			continue
		}
		if !ok || c.is(optional) && value.IsUnset(w.tree.values[i], c.field) && value.Implied(v, c.field, c.typ, member, 0) {
			continue
		}
		w.value(i, aField, v)
	}
	if len(member) != common && !w.differs && (w.strict() || n.is(union)) {
		w.extras(at, member)
	}
	if n.is(wholly) {
		w.whole--
	}
}

// absent handles a field of the hub that the member lacks.
func (w *walker) absent(at uint32, item int32, parent map[string]any) {
	if w.understood(at, parent) {
		return
	}
	w.add(Finding{Class: Missing, Hub: w.tree.values[at], InHub: true, Note: w.pruned(at)}, at, item)
}

// understood reports whether the absence of a field means the same as the hub's value.
func (w *walker) understood(at uint32, parent map[string]any) bool {
	n := &w.tree.nodes[at]
	if n.is(optional) {
		return true
	}
	if v, ok := n.field.DefaultIn(parent); ok {
		return w.equal(at, aField, v)
	}
	if n.kind != kindMap || n.count == 0 || n.present() {
		return false
	}
	for i := n.first; i < n.first+n.count; i++ {
		if !w.understood(i, nil) {
			return false
		}
	}
	return true
}

// pruned notes that servers do not keep a field.
func (w *walker) pruned(at uint32) string {
	parent := w.tree.Type
	if w.depth > 0 {
		parent = w.tree.nodes[w.last().node].typ
	}
	if parent == nil || parent.Kind != schema.Struct || parent.Open || parent.Field(w.tree.nodes[at].name) != nil {
		return ""
	}
	return "pruned"
}

// equal reports whether a value equals the node, without anything besides.
func (w *walker) equal(at uint32, item int32, v any) bool {
	probing, differs := w.probing, w.differs
	w.probing, w.differs = true, false
	w.value(at, item, v)
	same := !w.differs
	w.probing, w.differs = probing, differs
	return same
}

// extras compares the keys that only the member's map has.
func (w *walker) extras(at uint32, member map[string]any) {
	n := &w.tree.nodes[at]
	children := w.tree.nodes[n.first : n.first+n.count]
	for name, v := range member {
		if w.differs {
			return
		}
		if hasChild(children, name) || n.foreign(name, w.tree.status) || !w.counts(n, name) {
			continue
		}
		f, t := value.FieldOf(n.typ, name)
		depth := value.MaxDepth
		if value.IsMap(n.typ) {
			depth = 0
		}
		if value.Implied(v, f, t, member, depth) || n.is(system) && w.copied(name, v) || w.added(n, name, v, t) {
			continue
		}
		w.extra(fieldpath.Step{Name: name}, v, f, "")
	}
}

func hasChild(children []node, name string) bool {
	_, ok := slices.BinarySearchFunc(children, name, func(n node, name string) int { return strings.Compare(n.name, name) })
	return ok
}

// foreign reports whether a key of the member is never compared.
func (n *node) foreign(name string, status bool) bool {
	switch {
	case n.is(system):
		return kinds.IsSystemKey(name)
	case n.is(metadata):
		return true
	case n.is(object):
		return name == "apiVersion" || name == "kind" || name == "status" && !status
	}
	return false
}

// strict reports whether values that only the member has are differences here.
func (w *walker) strict() bool { return w.full || w.probing || w.whole > 0 }

// counts reports whether a key that only the member has is compared.
func (w *walker) counts(n *node, name string) bool {
	return w.strict() || n.is(union) && slices.Contains(n.typ.Union, name)
}

// added reports whether a server adds an entry to a map that the hub has, for example to requests
// from limits.
func (w *walker) added(n *node, name string, v any, t *schema.Type) bool {
	if n.field == nil || n.field.Derive == 0 || n.typ == nil || n.typ.Kind != schema.Map {
		return false
	}
	d, _ := n.field.DefaultIn(w.outer())
	entries, _ := d.(map[string]any)
	e, ok := entries[name]
	return ok && value.Equal(e, v, t)
}

// outer returns the member's map that contains the current field, nil if the walk is in a
// default.
func (w *walker) outer() map[string]any {
	var v any = w.member
	for _, f := range w.frames[:w.depth-1] {
		switch o := v.(type) {
		case map[string]any:
			v = o[w.tree.nodes[f.node].name]
		case []any:
			if f.item < 0 || int(f.item) >= len(o) {
				return nil
			}
			v = o[f.item]
		}
	}
	m, _ := v.(map[string]any)
	return m
}

// copied reports whether a server copied a label from the template.
func (w *walker) copied(name string, v any) bool {
	if !w.tree.Rules.Has(kinds.Templated) || w.tree.nodes[w.last().node].name != "labels" {
		return false
	}
	label, ok, _ := unstructured.NestedString(w.member, "spec", "template", "metadata", "labels", name)
	text, isText := v.(string)
	return ok && isText && label == text
}
