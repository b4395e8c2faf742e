package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// components are the schemas of an OpenAPI document.
type components struct {
	raw   map[string]json.RawMessage
	names map[schema.GroupVersionKind]string

	kinds sync.Map // of *Type by schema.GroupVersionKind

	mu     sync.Mutex
	nodes  int
	shared map[component]*Type
}

// component is a schema at one place of the built-in table, because the table's knowledge of a
// type depends on its place.
type component struct {
	name  string
	known *Type
}

// FromOpenAPI returns the types of a server's OpenAPI v3 document, which it serves for example at
// /openapi/v3/apis/apps/v1. For kinds of [Builtin], the document provides the existing fields and
// the merging of lists. The built-in table provides facts that no document has: the component
// that owns a field, lists whose order has a meaning, and dependencies on other fields.
//
// A kind is compiled on first use, and cached. Invalid parts of a schema are treated as unknown,
// and so are schemas that are nested deeper than 128 levels, and those beyond the first 200,000.
func FromOpenAPI(document []byte) (Source, error) {
	var doc struct {
		Swagger    string `json:"swagger"`
		OpenAPI    string `json:"openapi"`
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		return nil, fmt.Errorf("the OpenAPI document is not JSON: %w", err)
	}
	if doc.Swagger != "" {
		return nil, fmt.Errorf("the document is of OpenAPI %q: must be of version 3, as /openapi/v3 serves it", doc.Swagger)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.") {
		return nil, fmt.Errorf("openapi: %q: must be a version 3", doc.OpenAPI)
	}
	if doc.Components.Schemas == nil {
		return nil, errors.New("components.schemas: there is none in the OpenAPI document")
	}
	c := &components{raw: doc.Components.Schemas, shared: map[component]*Type{}}
	c.names = kindsOf(c.raw)
	return c, nil
}

// kindsOf finds the components that are objects of a kind. If two claim the same kind, the name
// decides.
func kindsOf(raw map[string]json.RawMessage) map[schema.GroupVersionKind]string {
	const extension = "x-kubernetes-group-version-kind"
	kinds := map[schema.GroupVersionKind]string{}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if !bytes.Contains(raw[name], []byte(extension)) {
			continue
		}
		var s struct {
			Kinds []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
		}
		if json.Unmarshal(raw[name], &s) != nil {
			continue
		}
		for _, kind := range s.Kinds {
			if _, ok := kinds[kind]; !ok {
				kinds[kind] = name
			}
		}
	}
	return kinds
}

// Type implements [Source].
func (c *components) Type(kind schema.GroupVersionKind) *Type {
	if known, ok := c.kinds.Load(kind); ok {
		return known.(*Type)
	}
	name, ok := c.names[kind]
	if !ok {
		return nil
	}
	t := c.compile(name, builtin.Type(kind))
	if t != nil && t.Kind != Struct {
		t = nil
	}
	c.kinds.Store(kind, t)
	return t
}

func (c *components) compile(name string, known *Type) *Type {
	c.mu.Lock()
	defer c.mu.Unlock()
	compiler := &compiler{resolve: c.resolve, nodes: c.nodes}
	defer func() { c.nodes = compiler.nodes }()
	if known == nil {
		known = unknownKind()
	}
	return c.named(compiler, name, known, 0)
}

// unknownKind returns the common fields of all kinds.
func unknownKind() *Type {
	t := &Type{Kind: Struct, Fields: map[string]*Field{}}
	t.addObjectFields()
	return t
}

// resolve follows a $ref.
func (c *components) resolve(compiler *compiler, ref string, known *Type, depth int) *Type {
	name, ok := strings.CutPrefix(ref, "#/components/schemas/")
	if !ok {
		return known
	}
	return c.named(compiler, unescape(name), known, depth)
}

// unescape decodes a part of a JSON pointer.
func unescape(name string) string {
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
}

// schema decodes a component.
func (c *components) schema(name string) object {
	d := json.NewDecoder(bytes.NewReader(c.raw[name]))
	d.UseNumber()
	var s object
	if d.Decode(&s) != nil {
		return nil
	}
	return s
}

// named compiles a component once for each place in the built-in table. A recursive component
// refers to its own incomplete type.
func (c *components) named(compiler *compiler, name string, known *Type, depth int) *Type {
	if kind, ok := wellKnown(name); ok {
		return plainOf(kind)
	}
	key := component{name, known}
	if t, ok := c.shared[key]; ok {
		return t
	}
	s := c.schema(name)
	if compiler.nodes++; s == nil || compiler.nodes > maxNodes || depth > maxDepth {
		return known
	}
	if ref := reference(s); ref != "" {
		return c.resolve(compiler, ref, known, depth+1)
	}
	t := &Type{Name: name}
	c.shared[key] = t
	compiler.fill(t, s, known, field.NewPath(name), depth)
	if t.Kind == Unknown && !t.Nullable {
		t = nil
		c.shared[key] = nil
	}
	return t
}

// plainOf returns a type without further facts, nil for an unknown kind.
func plainOf(kind Kind) *Type {
	if kind == Unknown {
		return nil
	}
	return &Type{Kind: kind}
}

// wellKnown returns the kind of a well-known component whose schema is not specific enough.
func wellKnown(name string) (Kind, bool) {
	rest, ok := strings.CutPrefix(name, "io.k8s.apimachinery.pkg.")
	if !ok {
		return Unknown, false
	}
	switch rest {
	case "api.resource.Quantity":
		return Quantity, true
	case "util.intstr.IntOrString":
		return IntOrString, true
	case "apis.meta.v1.Time", "apis.meta.v1.MicroTime":
		return Time, true
	case "apis.meta.v1.Duration":
		return Duration, true
	case "runtime.RawExtension", "apis.meta.v1.FieldsV1":
		return Unknown, true
	}
	return Unknown, false
}
