package compare

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/internal/kinds"
	"github.com/slipway-dev/slipway/drift/internal/value"
	"github.com/slipway-dev/slipway/drift/schema"
)

// Tree is an object of the hub as nodes, ready for comparison with the objects of many members.
// It is immutable and may be used by any number of goroutines.
type Tree struct {
	// Hub is the cleaned copy of the hub's object. Findings point into it.
	Hub   map[string]any
	Type  *schema.Type
	Rules kinds.Rules
	// Warnings are about the hub's object.
	Warnings []string

	name               string
	status, measureAll bool
	// sets are the atomic lists of the kind whose order has no meaning.
	sets []kinds.Set
	// folded are the keys of the data of a Secret that come from its stringData.
	folded map[string]bool

	// nodes are the fields and items of hub. The children of a node are adjacent, and those of a map
	// are sorted by name. values are the hub's values, by node.
	nodes  []node
	values []any
	// lists and quantities belong to the nodes whose extra is an index into them.
	lists      []alignment
	quantities []resource.Quantity
}

// Options select the compared parts of an object.
type Options struct {
	// Type is the type of the kind, nil if unknown.
	Type *schema.Type
	// Status compares the top-level status too.
	Status bool
	// MeasureAll makes a comparison measure the whole member before it goes on from the first
	// difference, because the caller digests the values beside a difference, too.
	MeasureAll bool
}

// Compile copies an object within the limits and prepares it. The error names its problems, up to
// twenty, and never contains a value.
func Compile(hub *unstructured.Unstructured, o Options) (*Tree, error) {
	kind := hub.GroupVersionKind()
	t := &Tree{
		Type: o.Type, Rules: kinds.RulesOf(kind.Group, kind.Kind, hub.Object),
		name: hub.GetName(), status: o.Status, measureAll: o.MeasureAll, sets: kinds.SetsOf(kind.Group, kind.Kind),
	}
	t.Hub = t.cleaned(hub.Object)
	c := compiler{tree: t}
	c.root()
	if len(c.problems) > 0 {
		return nil, errors.Join(c.named()...)
	}
	t.nodes, t.values = slices.Clip(t.nodes), slices.Clip(t.values)
	return t, nil
}

// kind is the way in which a node is compared.
type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindString
	// kindInt is a number that fits an int64, kindNumber any other number.
	kindInt
	kindNumber
	// The node itself contains a kindQuantity, but not a kindBigQuantity.
	kindQuantity
	kindBigQuantity
	kindDuration
	kindTime
	kindBytes
	kindMap
	kindKeyed
	kindSet
	kindAtomic
)

// flags are further properties of a node.
type flags uint8

const (
	// optional nodes mean the same as their absence.
	optional flags = 1 << iota
	// orderless marks lists whose order has no meaning for any reader: see kinds.Set.
	orderless
	// wholly marks values that are owned as a whole although their keys or items are identified:
	// anything that only the member has there is a difference.
	wholly
	// union marks maps that contain fields of a union.
	union
	// system marks maps with keys that belong to servers.
	system
	// object marks the root, metadata everything below /metadata.
	object
	metadata
	// entry marks the values of a map without known fields: the presence of a key counts, whatever
	// its value.
	entry
)

// node is a field or an item of the hub's object. It fills a cache line.
type node struct {
	name string
	// text is a string in the form for comparison: Bytes are canonical.
	text  string
	field *schema.Field
	typ   *schema.Type
	// first and count locate the children; in a plain value they are together a number.
	first, count uint32
	// extra is an index into the lists or quantities of the tree.
	extra uint32
	kind  kind
	flags flags
	// exponent belongs to the number of a kindQuantity.
	exponent int8
}

func (n *node) setNumber(i int64) { n.first, n.count = uint32(uint64(i)>>32), uint32(uint64(i)) }
func (n *node) number() int64     { return int64(uint64(n.first)<<32 | uint64(n.count)) }
func (n *node) is(f flags) bool   { return n.flags&f != 0 }

// nullable reports whether null is a value here.
func (n *node) nullable() bool { return n.typ != nil && n.typ.Nullable }

// compiler turns an object into the nodes of a tree.
type compiler struct {
	tree     *Tree
	path     []fieldpath.Step
	problems []error
}

// reserve appends count nodes and returns the index of the first.
func (c *compiler) reserve(count int) int {
	first := len(c.tree.nodes)
	c.tree.nodes = append(c.tree.nodes, make([]node, count)...)
	c.tree.values = append(c.tree.values, make([]any, count)...)
	return first
}

// problem reports a problem of the value at the path. The text must not contain the value.
func (c *compiler) problem(text string) {
	c.problems = append(c.problems, fmt.Errorf("%s: %s", fieldpath.Describe(c.path), text))
}

// maxProblems is the maximum number of problems of an object in an error.
const maxProblems = 20

// named returns the problems for an error, and the number of the others.
func (c *compiler) named() []error {
	if more := len(c.problems) - maxProblems; more > 0 {
		return append(c.problems[:maxProblems:maxProblems], fmt.Errorf("and %d more", more))
	}
	return c.problems
}

// fill fills the node at an index from a value.
func (c *compiler) fill(at int, v any, t *schema.Type) {
	c.tree.nodes[at].typ, c.tree.values[at] = t, v
	switch v := v.(type) {
	case map[string]any:
		c.object(at, v, t)
	case []any:
		c.list(at, v, t)
	default:
		c.scalar(at, v, t)
		if value.IsUnset(v, c.tree.nodes[at].field) {
			c.tree.nodes[at].flags |= optional
		}
	}
}

// object fills the node of a map.
func (c *compiler) object(at int, v map[string]any, t *schema.Type) {
	names := make([]string, 0, len(v))
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if field, typ := value.FieldOf(t, name); !dropped(v[name], field, typ) {
			names = append(names, name)
		}
	}
	first := c.reserve(len(names))
	empty := true
	for i, name := range names {
		field, typ := value.FieldOf(t, name)
		if value.IsMap(t) {
			c.tree.nodes[first+i].flags |= entry
		}
		c.field(first+i, name, v[name], field, typ)
		empty = empty && c.tree.nodes[first+i].is(optional)
	}
	n := &c.tree.nodes[at]
	n.kind, n.first, n.count = kindMap, uint32(first), uint32(len(names))
	if empty && !n.present() {
		n.flags |= optional
	}
	if t != nil && t.Whole {
		n.flags |= wholly
	}
	if t != nil && slices.ContainsFunc(t.Union, func(u string) bool { return slices.Contains(names, u) }) {
		n.flags |= union
	}
}

// field fills the node of a field of a map.
func (c *compiler) field(at int, name string, v any, field *schema.Field, typ *schema.Type) {
	c.tree.nodes[at].name, c.tree.nodes[at].field = name, field
	c.path = append(c.path, fieldpath.Step{Name: name})
	c.fill(at, v, typ)
	c.path = c.path[:len(c.path)-1]
}

// present reports whether the empty value of a node differs from its absence.
func (n *node) present() bool { return n.is(entry) || value.HasPresence(n.field) }

// dropped reports whether a comparison ignores a value of the hub. It ignores a null, unless the
// type has null as a value, and a placeholder that a server replaces by a certificate.
func dropped(v any, f *schema.Field, t *schema.Type) bool {
	if v == nil {
		return t == nil || !t.Nullable && t.Kind != schema.Bytes
	}
	text, ok := v.(string)
	return ok && f != nil && f.ServerOwned && t != nil && t.Kind == schema.Bytes && !value.IsCertificate(text)
}
