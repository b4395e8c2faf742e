package drift

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift/schema"
)

// Manifest is an object of the hub, prepared to be compared with the objects of
// many members. It is made by [Compile], never changes, keeps nothing of what it
// was made from, and may be used by any number of goroutines.
type Manifest struct {
	group, version, kind, namespace, name string

	comparison Comparison
	status     bool
	rules      rules
	typ        *schema.Type
	// hub is the cleaned copy of the hub's object. What is found points into it.
	hub map[string]any
	// folded are the keys of the data of a Secret that come from its stringData.
	folded map[string]bool

	// nodes are the fields and items of hub; the children of a node lie side by
	// side, those of a map sorted by name. values are what the hub says at each.
	nodes  []node
	values []any
	// lists and quantities belong to the nodes whose extra is an index into them.
	lists      []alignment
	quantities []resource.Quantity

	warnings []string
	out      *output

	// What follows is for a Cache, which tells manifests apart by what they say.
	// It reads the hub's object only when it is asked to.
	options    digest
	identified sync.Once
	identity   digest
}

// Compile checks an object of the hub and prepares it. Neither it nor o are
// changed or kept. The error names every problem of the options, or those of the
// object, up to twenty; it never holds a value.
func Compile(hub *unstructured.Unstructured, o Options) (*Manifest, error) {
	if hub == nil || hub.Object == nil {
		return nil, errors.New("drift: there is no object of the hub to compare with")
	}
	if err := bounded(hub.Object); err != nil {
		return nil, fmt.Errorf("drift: the hub's %s: %w", describe(hub), err)
	}
	out, err := newOutput(o, hub)
	if err != nil {
		return nil, err
	}
	m := newManifest(hub, o, out)
	c := compiler{m: m}
	c.root()
	if len(c.problems) > 0 {
		return nil, fmt.Errorf("drift: the hub's %s: %w", describe(hub), errors.Join(c.told()...))
	}
	m.nodes, m.values = slices.Clip(m.nodes), slices.Clip(m.values)
	return m, nil
}

func newManifest(hub *unstructured.Unstructured, o Options, out *output) *Manifest {
	kind := hub.GroupVersionKind()
	m := &Manifest{
		group: kind.Group, version: kind.Version, kind: kind.Kind,
		namespace: hub.GetNamespace(), name: hub.GetName(),
		comparison: o.Comparison, status: o.Status, out: out,
	}
	if m.comparison == "" {
		m.comparison = Partial
	}
	m.options = digestOf(appendOptions(nil, o))
	schemas := o.Schemas
	if schemas == nil {
		schemas = schema.Builtin()
	}
	m.typ = schemas.Type(kind)
	m.rules = rulesOf(kind.Group, kind.Kind, hub.Object)
	m.hub = m.cleaned(hub.Object)
	return m
}

// describe names an object in an error.
func describe(o *unstructured.Unstructured) string {
	name := o.GetName()
	if ns := o.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return fmt.Sprintf("%s %q", printable(o.GetKind(), maxKeyText), shortened(name))
}

// kind is how a node is compared.
type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindString
	// kindInt is a number that fits an int64, kindNumber any other.
	kindInt
	kindNumber
	// kindQuantity is held in the node, kindBigQuantity is not.
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

// flags are what else is to be known of a node.
type flags uint8

const (
	// optional nodes mean the same as their absence.
	optional flags = 1 << iota
	// virtual nodes are not in the hub's object; they are there so that what the
	// member has is looked at key by key.
	virtual
	// wholly marks maps where any key that only the member has is a difference.
	wholly
	// union marks maps where a field of the union is.
	union
	// system marks maps whose keys belong in part to the servers.
	system
	// object and metadata mark the root and what is below /metadata.
	object
	metadata
	// entry marks the values of a map without known fields: each is there by its
	// key, whatever it is.
	entry
)

// node is a field or an item of the hub's object. It fills a line of the cache.
type node struct {
	name string
	// text is a string as it is compared: that of Bytes is canonical.
	text  string
	field *schema.Field
	typ   *schema.Type
	// first and count are the children; of a plain value together a number.
	first, count uint32
	// extra is an index into the lists or quantities of the manifest.
	extra uint32
	kind  kind
	flags flags
	// exponent belongs to the number of a kindQuantity.
	exponent int8
}

func (n *node) setNumber(i int64) { n.first, n.count = uint32(uint64(i)>>32), uint32(uint64(i)) }
func (n *node) number() int64     { return int64(uint64(n.first)<<32 | uint64(n.count)) }
func (n *node) is(f flags) bool   { return n.flags&f != 0 }

// nullable tells whether null is a value here.
func (n *node) nullable() bool { return n.typ != nil && n.typ.Nullable }

// compiler turns an object into the nodes of a manifest.
type compiler struct {
	m        *Manifest
	path     []step
	problems []error
}

// reserve appends count nodes and returns the index of the first.
func (c *compiler) reserve(count int) int {
	first := len(c.m.nodes)
	c.m.nodes = append(c.m.nodes, make([]node, count)...)
	c.m.values = append(c.m.values, make([]any, count)...)
	return first
}

// problem says what is wrong with the value at the path. The text must not hold
// the value.
func (c *compiler) problem(text string) {
	c.problems = append(c.problems, fmt.Errorf("%s: %s", placeOf(c.path), text))
}

// maxProblems is how many problems of an object an error names.
const maxProblems = 20

// told returns the problems that are named, and how many more there are.
func (c *compiler) told() []error {
	if more := len(c.problems) - maxProblems; more > 0 {
		return append(c.problems[:maxProblems:maxProblems], fmt.Errorf("and %d more", more))
	}
	return c.problems
}

// fill makes the node at an index that of a value.
func (c *compiler) fill(at int, v any, t *schema.Type) {
	c.m.nodes[at].typ, c.m.values[at] = t, v
	switch v := v.(type) {
	case map[string]any:
		c.object(at, v, t)
	case []any:
		c.list(at, v, t)
	default:
		c.scalar(at, v, t)
		if unset(v, c.m.nodes[at].field) {
			c.m.nodes[at].flags |= optional
		}
	}
}

// object fills the node of a map.
func (c *compiler) object(at int, v map[string]any, t *schema.Type) {
	names := make([]string, 0, len(v))
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if field, typ := describeField(t, name); !dropped(v[name], field, typ) {
			names = append(names, name)
		}
	}
	first := c.reserve(len(names))
	empty := true
	for i, name := range names {
		field, typ := describeField(t, name)
		if isMap(t) {
			c.m.nodes[first+i].flags |= entry
		}
		c.field(first+i, name, v[name], field, typ)
		empty = empty && c.m.nodes[first+i].is(optional)
	}
	n := &c.m.nodes[at]
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
	c.m.nodes[at].name, c.m.nodes[at].field = name, field
	c.path = append(c.path, step{name: name})
	c.fill(at, v, typ)
	c.path = c.path[:len(c.path)-1]
}

// describeField returns what a type says of a key of a map.
func describeField(t *schema.Type, name string) (*schema.Field, *schema.Type) {
	if f := t.Field(name); f != nil {
		return f, f.Type
	}
	if t != nil && t.Kind == schema.Map {
		return nil, t.Elem
	}
	return nil, nil
}

// presence tells whether the empty value of a field is not its absence.
func presence(f *schema.Field) bool { return f != nil && f.Presence }

// present tells whether the empty value of a node is not its absence.
func (n *node) present() bool { return n.is(entry) || presence(n.field) }

// isMap tells whether a type is that of a map without known fields.
func isMap(t *schema.Type) bool { return t != nil && t.Kind == schema.Map }

// unset tells whether a value is one that a server does not tell from none.
func unset(v any, f *schema.Field) bool {
	return f != nil && f.Unset && (v == "" || v == false || v == int64(0))
}

// dropped tells whether a value of the hub stands for nothing: null where that
// is no value, and what waits for a server to fill it in.
func dropped(v any, f *schema.Field, t *schema.Type) bool {
	if v == nil {
		return t == nil || !t.Nullable && t.Kind != schema.Bytes
	}
	text, ok := v.(string)
	return ok && f != nil && f.ServerOwned && t != nil && t.Kind == schema.Bytes && !certificate(text)
}
