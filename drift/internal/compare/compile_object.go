package compare

import (
	"errors"
	"maps"
	"slices"

	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/internal/kinds"
	"github.com/slipway-dev/slipway/drift/internal/value"
	"github.com/slipway-dev/slipway/drift/schema"
)

// root fills the node of the object itself. Its metadata has only fields that authors set, and
// always exists, so that it is compared key by key.
func (c *compiler) root() {
	c.reserve(1)
	root := maps.Clone(c.tree.Hub)
	for _, name := range [...]string{"apiVersion", "kind", "metadata"} {
		delete(root, name)
	}
	c.checkSecret(root)
	c.tree.nodes[0].flags |= object
	names := value.SortedKeys(root)
	names = append(names, "metadata")
	for _, name := range c.tree.Rules.KeyByKey() {
		if _, ok := root[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	c.rootFields(names, root)
	c.tree.nodes[0].flags &^= optional
}

func (c *compiler) rootFields(names []string, root map[string]any) {
	c.tree.nodes[0].typ, c.tree.values[0] = c.tree.Type, c.tree.Hub
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
	n := &c.tree.nodes[0]
	n.kind, n.first, n.count = kindMap, uint32(first), uint32(len(kept))
}

// describeRoot is describeField for a field of the object itself. The data of a Secret and a
// ConfigMap is known without a schema.
func (c *compiler) describeRoot(name string) (*schema.Field, *schema.Type) {
	f, t := value.FieldOf(c.tree.Type, name)
	bytes := name == "data" && c.tree.Rules.Has(kinds.SecretData) || name == "binaryData" && c.tree.Rules.Has(kinds.ByteData)
	if bytes && (t == nil || t.Elem == nil) {
		t = &schema.Type{Kind: schema.Map, Elem: &schema.Type{Kind: schema.Bytes}}
	}
	if slices.Contains(c.tree.Rules.KeyByKey(), name) && c.tree.Rules.Has(kinds.Tokens) {
		t = byKeys(t, schema.Keyed, "name")
	}
	return f, t
}

// byKeys returns the type of a list whose items are identified by keys, even if it is owned as a
// whole. An unknown list gets the given kind.
func byKeys(t *schema.Type, kind schema.ListKind, names ...string) *schema.Type {
	keyed := schema.Type{Kind: schema.List, List: kind}
	if t != nil {
		keyed = *t
	}
	keyed.Keys = nil
	for _, name := range names {
		keyed.Keys = append(keyed.Keys, schema.Key{Name: name})
	}
	return &keyed
}

// emptyOf returns an empty list or map.
func emptyOf(t *schema.Type) any {
	if t != nil && t.Kind == schema.List {
		return []any{}
	}
	return map[string]any{}
}

// missing fills a node for a field that the hub's object does not have.
func (c *compiler) missing(at int, name string, v any, t *schema.Type) {
	c.field(at, name, v, nil, t)
	c.tree.nodes[at].flags |= optional
}

// metadata fills the node of /metadata.
func (c *compiler) metadata(at int) {
	meta, _ := c.tree.Hub["metadata"].(map[string]any)
	n := &c.tree.nodes[at]
	n.name, n.kind, n.flags = "metadata", kindMap, metadata|optional
	c.tree.values[at] = meta
	names := [...]string{"annotations", "finalizers", "labels"}
	first := c.reserve(len(names))
	c.tree.nodes[at].first, c.tree.nodes[at].count = uint32(first), uint32(len(names))
	c.path = append(c.path, fieldpath.Step{Name: "metadata"})
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
	c.tree.nodes[at].flags |= system
}

// checkSecret refuses data that a server would refuse, without showing it.
func (c *compiler) checkSecret(root map[string]any) {
	if !c.tree.Rules.Has(kinds.ByteData) {
		return
	}
	for _, name := range [...]string{"data", "stringData", "binaryData"} {
		if c.tree.Rules.Has(kinds.SecretData) || name == "binaryData" {
			c.checkBytes(name, root[name])
		}
	}
}

func (c *compiler) checkBytes(name string, v any) {
	m, ok := v.(map[string]any)
	if !ok && v != nil {
		c.problems = append(c.problems, errors.New("/"+name+": the value must be a map"))
	}
	for _, key := range value.SortedKeys(m) {
		text, ok := m[key].(string)
		c.path = []fieldpath.Step{{Name: name}, {Name: key}}
		switch {
		case m[key] == nil:
		case !ok:
			c.problem("the value must be a text")
		case name != "stringData":
			if _, ok := value.CanonicalBase64(text); !ok {
				c.problem("the value must be base64")
			}
		}
		c.path = nil
	}
}

// cleaned returns a copy of the hub's object without the fields of servers.
func (t *Tree) cleaned(o map[string]any) map[string]any {
	c, _ := value.Copy(o).(map[string]any)
	if !t.status {
		delete(c, "status")
	}
	if t.Rules.Has(kinds.Aggregated) {
		delete(c, "rules")
	}
	if meta, ok := c["metadata"].(map[string]any); ok {
		kinds.CleanMetadata(meta)
	}
	if t.Rules.Has(kinds.SecretData) {
		text, _ := c["stringData"].(map[string]any)
		t.folded = make(map[string]bool, len(text))
		for key := range text {
			t.folded[key] = true
		}
		kinds.FoldStringData(c)
	}
	return c
}

// HubPointer returns the pointer of a path in the hub's original object: its stringData is
// compared as data.
func (t *Tree) HubPointer(path []fieldpath.Step) string {
	if len(t.folded) == 0 || len(path) == 0 || path[0].Name != "data" {
		return fieldpath.Pointer(path, fieldpath.HubSide)
	}
	data, _ := t.Hub["data"].(map[string]any)
	if len(path) == 1 && len(data) > len(t.folded) || len(path) > 1 && !t.folded[path[1].Name] {
		return fieldpath.Pointer(path, fieldpath.HubSide)
	}
	return fieldpath.Pointer(append([]fieldpath.Step{{Name: "stringData"}}, path[1:]...), fieldpath.HubSide)
}
