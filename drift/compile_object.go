package drift

import (
	"errors"
	"maps"
	"slices"

	"github.com/slipway-dev/slipway/drift/schema"
)

// root fills the node of the object itself. Of its metadata only what people set
// is there, and that always, so that it is looked at key by key.
func (c *compiler) root() {
	c.reserve(1)
	root := maps.Clone(c.m.hub)
	for _, name := range [...]string{"apiVersion", "kind", "metadata"} {
		delete(root, name)
	}
	c.checkSecret(root)
	c.m.nodes[0].flags |= object
	names := sortedNames(root)
	names = append(names, "metadata")
	for _, name := range c.m.rules.keyByKey() {
		if _, ok := root[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	c.rootFields(names, root)
	c.m.nodes[0].flags &^= optional
}

func (c *compiler) rootFields(names []string, root map[string]any) {
	c.m.nodes[0].typ, c.m.values[0] = c.m.typ, c.m.hub
	kept := names[:0]
	for _, name := range names {
		f, t := c.describeRoot(name)
		if v, ok := root[name]; !ok || !dropped(v, f, t) {
			kept = append(kept, name)
		}
	}
	first := c.reserve(len(kept))
	for i, name := range kept {
		f, t := c.describeRoot(name)
		switch _, ok := root[name]; {
		case name == "metadata":
			c.metadata(first + i)
		case !ok:
			c.missing(first+i, name, emptyOf(t), t)
		default:
			c.field(first+i, name, root[name], f, t)
		}
	}
	n := &c.m.nodes[0]
	n.kind, n.first, n.count = kindMap, uint32(first), uint32(len(kept))
}

// describeRoot is describeField for a field of the object itself. What a Secret
// and a ConfigMap hold is known without a schema.
func (c *compiler) describeRoot(name string) (*schema.Field, *schema.Type) {
	f, t := describeField(c.m.typ, name)
	bytes := name == "data" && c.m.rules.has(secretData) || name == "binaryData" && c.m.rules.has(byteData)
	if bytes && (t == nil || t.Elem == nil) {
		t = &schema.Type{Kind: schema.Map, Elem: &schema.Type{Kind: schema.Bytes}}
	}
	if slices.Contains(c.m.rules.keyByKey(), name) && c.m.rules.has(tokens) {
		t = byName(t)
	}
	return f, t
}

// byName returns the type of a list whose items are told apart by their names,
// also where it is owned as a whole.
func byName(t *schema.Type) *schema.Type {
	named := schema.Type{Kind: schema.List, List: schema.Keyed}
	if t != nil {
		named = *t
	}
	named.Keys = []schema.Key{{Name: "name"}}
	return &named
}

// emptyOf returns an empty list or map.
func emptyOf(t *schema.Type) any {
	if t != nil && t.Kind == schema.List {
		return []any{}
	}
	return map[string]any{}
}

// missing fills a node that the hub's object does not have.
func (c *compiler) missing(at int, name string, v any, t *schema.Type) {
	c.field(at, name, v, nil, t)
	c.m.nodes[at].flags |= virtual | optional
}

// metadata fills the node of /metadata.
func (c *compiler) metadata(at int) {
	meta, _ := c.m.hub["metadata"].(map[string]any)
	n := &c.m.nodes[at]
	n.name, n.kind, n.flags = "metadata", kindMap, metadata|optional
	c.m.values[at] = meta
	names := [...]string{"annotations", "finalizers", "labels"}
	first := c.reserve(len(names))
	c.m.nodes[at].first, c.m.nodes[at].count = uint32(first), uint32(len(names))
	c.path = append(c.path, step{name: "metadata"})
	for i, name := range names {
		c.metadataField(first+i, name, meta[name])
	}
	c.path = c.path[:len(c.path)-1]
}

func (c *compiler) metadataField(at int, name string, v any) {
	text := &schema.Type{Kind: schema.String}
	t := &schema.Type{Kind: schema.Map, Elem: text}
	if name == "finalizers" {
		t = &schema.Type{Kind: schema.List, List: schema.Set, Elem: text}
	}
	if v == nil {
		c.missing(at, name, emptyOf(t), t)
	} else {
		c.field(at, name, v, nil, t)
	}
	c.m.nodes[at].flags |= system
}

// checkSecret refuses data that a server would refuse, without showing it.
func (c *compiler) checkSecret(root map[string]any) {
	if !c.m.rules.has(byteData) {
		return
	}
	for _, name := range [...]string{"data", "stringData", "binaryData"} {
		if c.m.rules.has(secretData) || name == "binaryData" {
			c.checkBytes(name, root[name])
		}
	}
}

func (c *compiler) checkBytes(name string, v any) {
	m, ok := v.(map[string]any)
	if !ok && v != nil {
		c.problems = append(c.problems, errors.New("/"+name+": the value must be a map"))
	}
	for _, key := range sortedNames(m) {
		text, ok := m[key].(string)
		c.path = []step{{name: name}, {name: key}}
		switch {
		case m[key] == nil:
		case !ok:
			c.problem("the value must be a text")
		case name != "stringData":
			if _, ok := canonicalBytes(text); !ok {
				c.problem("the value must be base64")
			}
		}
		c.path = nil
	}
}
