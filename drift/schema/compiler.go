package schema

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxDepth is the greatest depth of a schema, maxNodes the greatest number of schemas in a
	// document: more than any server accepts.
	maxDepth = 128
	maxNodes = 200_000
	// maxProblems is the maximum number of problems of a document in an error.
	maxProblems = 20
	// quantityPattern is the pattern that controller-gen writes for a resource.Quantity.
	quantityPattern = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`
)

// object is a JSON object.
type object = map[string]any

// compiler compiles JSON schemas with the extensions of Kubernetes to types.
type compiler struct {
	// resolve returns the type of the component at a $ref, or its well-known type by name. A nil
	// function follows no $ref.
	resolve func(c *compiler, ref string, known *Type, depth int) *Type
	nodes   int
	errs    field.ErrorList
}

// typ compiles a schema; known is the built-in type at the same place. An invalid schema gives
// nil, which is an unknown type.
func (c *compiler) typ(s object, known *Type, at *field.Path, depth int) *Type {
	if c.nodes++; c.nodes > maxNodes || depth > maxDepth {
		c.tooLarge(at, depth)
		return nil
	}
	if ref := reference(s); ref != "" && c.resolve != nil {
		return c.resolve(c, ref, known, depth)
	}
	t := &Type{}
	c.fill(t, s, known, at, depth)
	if t.Kind == Unknown && !t.Nullable {
		return nil
	}
	return t
}

func (c *compiler) tooLarge(at *field.Path, depth int) {
	if depth > maxDepth {
		c.fail(field.Forbidden(at, fmt.Sprintf("more than %d schemas are nested in one another", maxDepth)))
	} else if c.nodes == maxNodes+1 {
		c.fail(field.Forbidden(at, fmt.Sprintf("there are more than %d schemas", maxNodes)))
	}
}

func (c *compiler) fail(err *field.Error) {
	if len(c.errs) < maxProblems {
		c.errs = append(c.errs, err)
	}
}

// reference returns the target of a $ref, directly or as the only element of allOf.
func reference(s object) string {
	if ref, ok := s["$ref"].(string); ok {
		return ref
	}
	if all, ok := s["allOf"].([]any); ok && len(all) == 1 {
		if one, ok := all[0].(object); ok {
			ref, _ := one["$ref"].(string)
			return ref
		}
	}
	return ""
}

// fill compiles a schema that is no reference into t, which other types may already refer to.
func (c *compiler) fill(t *Type, s object, known *Type, at *field.Path, depth int) {
	t.Kind, t.Nullable = c.kindOf(s, at), s["nullable"] == true
	switch {
	case t.Kind == Map && known != nil && known.Kind == Struct:
		*t = *known // the table knows fields of a map in the document
		return
	case t.Kind == Struct:
		c.fillStruct(t, s, known, at, depth)
	case t.Kind == Map:
		t.Elem = c.elem(s, "additionalProperties", known, at, depth)
	case t.Kind == List:
		t.Elem = c.elem(s, "items", known, at, depth)
		c.fillList(t, s, at)
	}
	t.Whole = s["x-kubernetes-map-type"] == "atomic"
	t.learn(known, s)
}

// kindOf returns the kind of values that a schema describes.
func (c *compiler) kindOf(s object, at *field.Path) Kind {
	if s["x-kubernetes-int-or-string"] == true || s["format"] == "int-or-string" {
		if s["pattern"] == quantityPattern {
			return Quantity
		}
		return IntOrString
	}
	switch s["type"] {
	case "object":
		return objectKind(s)
	case "array":
		return List
	case "string":
		return stringKind(s["format"])
	case "integer", "number":
		return Number
	case "boolean":
		return Boolean
	case nil:
		if s["properties"] != nil || s["additionalProperties"] != nil || s["x-kubernetes-embedded-resource"] == true {
			return objectKind(s)
		}
		return Unknown
	}
	c.fail(field.NotSupported(at.Child("type"), describe(s["type"]), []string{"array", "boolean", "integer", "number", "object", "string"}))
	return Unknown
}

// objectKind returns whether the object is a map, or a struct with known fields.
func objectKind(s object) Kind {
	if more := s["additionalProperties"]; s["properties"] == nil && more != nil && more != false {
		return Map
	}
	return Struct
}

func stringKind(format any) Kind {
	switch format {
	case "date-time":
		return Time
	case "byte":
		return Bytes
	case "duration":
		return Duration
	}
	return String
}

// elem compiles the schema of items or entries; true allows any.
func (c *compiler) elem(s object, name string, known *Type, at *field.Path, depth int) *Type {
	var inner *Type
	if known != nil {
		inner = known.Elem
	}
	switch v := s[name].(type) {
	case object:
		return c.typ(v, inner, at.Child(name), depth+1)
	case nil, bool:
	default:
		c.fail(field.TypeInvalid(at.Child(name), describe(v), "must be a schema"))
	}
	return inner
}

// fillStruct compiles the fields of an object.
func (c *compiler) fillStruct(t *Type, s object, known *Type, at *field.Path, depth int) {
	t.Open = s["x-kubernetes-preserve-unknown-fields"] == true || s["additionalProperties"] == true
	t.Embedded = s["x-kubernetes-embedded-resource"] == true
	properties, ok := s["properties"].(object)
	if !ok && s["properties"] != nil {
		c.fail(field.TypeInvalid(at.Child("properties"), describe(s["properties"]), "must be an object"))
	}
	t.Fields = make(map[string]*Field, len(properties))
	for name, p := range properties {
		at := at.Child("properties").Key(name)
		if s, ok := p.(object); ok {
			t.Fields[name] = c.field(s, known.Field(name), at, depth+1)
		} else {
			c.fail(field.TypeInvalid(at, describe(p), "must be a schema"))
		}
	}
	if t.Embedded {
		t.addObjectFields()
	}
}

// addObjectFields adds the fields that every object has.
func (t *Type) addObjectFields() {
	meta := builtin.named("meta/v1.ObjectMeta")
	text := meta.Fields["name"].Type
	for _, name := range []string{"apiVersion", "kind"} {
		if t.Fields[name] == nil {
			t.Fields[name] = &Field{Type: text}
		}
	}
	t.Fields["metadata"] = &Field{Type: meta}
}

// field compiles a property.
func (c *compiler) field(s object, known *Field, at *field.Path, depth int) *Field {
	var typ *Type
	if known != nil {
		typ = known.Type
	}
	f := &Field{Type: c.typ(s, typ, at, depth), Secret: isSecret(s, 0)}
	if v, ok := s["default"]; ok && v != nil {
		f.Default = c.defaultValue(v, at.Child("default"))
	}
	if known != nil {
		f.learn(known)
		return f
	}
	f.Default = complete(f.Type, f.Default, 0)
	// OpenAPI has {} as the default of a struct that a server always writes; for other structs the
	// presence has a meaning.
	f.Presence = f.Type != nil && f.Type.Kind == Struct && f.Default == nil
	return f
}

// isSecret reports whether a schema, or the schema of its items, describes passwords.
func isSecret(s object, depth int) bool {
	if s["format"] == "password" {
		return true
	}
	for _, name := range []string{"items", "additionalProperties"} {
		if inner, ok := s[name].(object); ok && depth < maxDepth && isSecret(inner, depth+1) {
			return true
		}
	}
	return false
}

// fillList reads the identity of the items of a list.
func (c *compiler) fillList(t *Type, s object, at *field.Path) {
	at = at.Child("x-kubernetes-list-type")
	switch s["x-kubernetes-list-type"] {
	case nil:
		if key, ok := s["x-kubernetes-patch-merge-key"].(string); ok {
			t.setKeys([]string{key})
		}
	case "atomic":
	case "set":
		t.List = Set
	case "map":
		c.fillKeys(t, s, at)
	default:
		c.fail(field.NotSupported(at, describe(s["x-kubernetes-list-type"]), []string{"atomic", "map", "set"}))
	}
}

func (c *compiler) fillKeys(t *Type, s object, at *field.Path) {
	var names []string
	list, _ := s["x-kubernetes-list-map-keys"].([]any)
	for _, k := range list {
		name, ok := k.(string)
		if !ok || t.Elem != nil && t.Elem.Kind == Struct && !t.Elem.Open && len(t.Elem.Fields) > 0 && t.Elem.Field(name) == nil {
			c.fail(field.Invalid(at, describe(k), "x-kubernetes-list-map-keys must name fields of the items"))
			return
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		c.fail(field.Required(at, "a list of the type map needs x-kubernetes-list-map-keys"))
		return
	}
	t.setKeys(names)
}

func (t *Type) setKeys(names []string) {
	t.List = Keyed
	for _, name := range names {
		t.Keys = append(t.Keys, Key{Name: name})
	}
	t.defaultKeys()
}

// describe returns a value for an error, in limited length.
func describe(v any) any {
	switch v.(type) {
	case object:
		return "an object"
	case []any:
		return "a list"
	}
	return v
}
