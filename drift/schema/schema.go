// Package schema describes the fields of Kubernetes kinds: lists with keys, quantities, defaults
// of servers.
//
// A [Source] returns a [Type] for a kind. [Builtin] has the kinds of k8s.io/api; [FromCRD] reads
// a CustomResourceDefinition and [FromOpenAPI] the OpenAPI v3 document of a server; [Join]
// combines sources. A returned type never changes, so that it may be shared between goroutines.
// It is a tree, except for recursive types, such as the schemas in a CustomResourceDefinition:
// follow it along an object. An unknown part is a nil [*Type] or a nil [*Field]: it is compared
// by its structure alone, without effect on other parts.
//
// # The built-in table
//
// builtin.txt is written by the program in internal/generate from the Go source of k8s.io/api and
// from known.txt, which has facts that no public schema has: constant defaults, fields that
// servers and controllers fill in, lists whose order has a meaning. Defaults that depend on other
// fields are rules in derive.go. The objects in testdata/defaults are minimal ones as Kubernetes
// completed them; a test checks that the table explains every added field. After a new version of
// k8s.io/api, or a change of known.txt:
//
//	go generate ./drift/schema
package schema

import "k8s.io/apimachinery/pkg/runtime/schema"

// Source knows the types of some kinds. Its method may be called concurrently.
type Source interface {
	// Type returns the type of the objects of a kind, nil if it is unknown.
	Type(kind schema.GroupVersionKind) *Type
}

// SourceFunc makes a function a [Source].
type SourceFunc func(kind schema.GroupVersionKind) *Type

// Type calls f.
func (f SourceFunc) Type(kind schema.GroupVersionKind) *Type { return f(kind) }

// Join returns a source that asks each of sources in turn, until one knows the kind. A nil source
// knows no kind.
func Join(sources ...Source) Source {
	return SourceFunc(func(kind schema.GroupVersionKind) *Type {
		for _, s := range sources {
			if s == nil {
				continue
			}
			if t := s.Type(kind); t != nil {
				return t
			}
		}
		return nil
	})
}

// Kind is the kind of values that a type describes.
type Kind uint8

// The kinds of values.
const (
	// Unknown values are compared by structure: maps by key, lists as a whole.
	Unknown Kind = iota
	// String, Number and Boolean are plain values.
	String
	Number
	Boolean
	// Quantity is a resource.Quantity: 1000m equals 1, as text or number.
	Quantity
	// IntOrString is an integer or a string; 80 and "80" differ.
	IntOrString
	// Duration is a metav1.Duration: 60m equals 1h0m0s.
	Duration
	// Time is an RFC 3339 time: Z equals +00:00.
	Time
	// Bytes is base64: line breaks in it have no meaning.
	Bytes
	// Struct is a map with known Fields.
	Struct
	// Map is a map with values of one type.
	Map
	// List is a list of items of one type.
	List
)

// ListKind is the way in which the items of a list are identified.
type ListKind uint8

// The kinds of lists.
const (
	// Atomic lists are compared and owned as a whole, in their order.
	Atomic ListKind = iota
	// Set lists have plain values in no order.
	Set
	// Keyed lists have maps, identified by Keys.
	Keyed
)

// Key is a field that identifies the items of a keyed list.
type Key struct {
	Name string
	// Default is the value of an item that lacks the field, nil for none.
	Default any
}

// Type describes a value. The zero value knows nothing. It must not be changed after a Source
// returned it.
type Type struct {
	// Name is the name of the Go or OpenAPI type, for people; it may be empty.
	Name string
	Kind Kind

	// Fields are the fields of a Struct.
	Fields map[string]*Field
	// Union names fields of a Struct that exclude each other. If the member has a different field
	// of the union than the hub, every comparison reports a difference.
	Union []string
	// Open marks a Struct that keeps unknown fields; others prune them.
	Open bool
	// Embedded marks a Struct that is a whole Kubernetes object.
	Embedded bool

	// Elem describes the values of a Map and the items of a List.
	Elem *Type
	// Whole marks a Struct or Map that is owned as a whole: a field that only the member has is a
	// difference in any comparison.
	Whole bool

	// List and Keys describe a List.
	List ListKind
	Keys []Key
	// Ordered marks a Set or Keyed list whose order has a meaning (initContainers, env); Unordered
	// an Atomic list whose order has none (rules of a Role).
	Ordered, Unordered bool

	// Nullable marks a value for which null differs from absence.
	Nullable bool
}

// Field is a field of a Struct.
type Field struct {
	// Type is nil if only the name of the field is known.
	Type *Type
	// Default is the JSON value that a server sets if the field is absent, nil for none. It may
	// depend on other fields: use [Field.DefaultIn].
	Default any
	// Derive names the rule of a default that depends on the fields beside it, 0
	// for none.
	Derive Rule
	// Presence marks a field for which {} or [] differs from absence.
	Presence bool
	// Unset marks a plain value whose zero, 0, false or "", equals absence: the server's type does
	// not distinguish them, and does not store it.
	Unset bool
	// ServerOwned marks a field that a server or controller fills in, such as clusterIP or nodeName:
	// a value that only the member has is not a difference.
	ServerOwned bool
	// Immutable marks a field that a server does not let change.
	Immutable bool
	// Sealed marks a field that becomes immutable with an immutable: true beside it, like the data
	// of a ConfigMap. See [Field.ImmutableIn].
	Sealed bool
	// Secret marks a field whose value must not be shown.
	Secret bool
}

// Rule names a default that depends on other fields of the same Struct. Rules
// belong to the built-in table.
type Rule uint8

// Field returns a field of a Struct, or nil. It may be called on a nil Type.
func (t *Type) Field(name string) *Field {
	if t == nil {
		return nil
	}
	return t.Fields[name]
}
