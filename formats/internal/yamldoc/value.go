package yamldoc

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Value is a node of a document with its path. Its methods read it as a type and report a
// mismatch. The zero Value has no node.
type Value struct {
	Doc  *Doc
	Node *yaml.Node
	Path string
	line int
}

// Fields are the known fields of an object with their readers.
type Fields map[string]func(Value)

// Ignore reads a field that has no meaning here.
func Ignore(Value) {}

// Metadata adds to known the fields of an object's metadata that API servers write.
func Metadata(known Fields) Fields {
	for _, name := range []string{
		"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "finalizers", "generation", "managedFields",
		"ownerReferences", "resourceVersion", "selfLink", "uid",
	} {
		known[name] = Ignore
	}
	return known
}

// Line is the line of the value, or of its alias.
func (v Value) Line() int { return v.line }

// Fail reports a problem with the value.
func (v Value) Fail(format string, args ...any) {
	v.Doc.Tell(v.line, v.Path, fmt.Sprintf(format, args...))
}

// OK reports whether the value itself has no problem.
func (v Value) OK() bool { return !v.Doc.broken[v.Path] }

// maxPath limits the length of a path, because hostile keys could make every path long.
const maxPath = 512

// below is the path of a field or an element.
func (v Value) below(name string) string {
	name = clipTo(name, maxPath)
	switch {
	case len(v.Path) > maxPath || name == "":
		return v.Path
	case v.Path == "" || name[0] == '[' || name[0] == '.':
		return v.Path + name
	default:
		return v.Path + "." + name
	}
}

// at returns the value of a node below v. For an alias it returns the aliased node, on the line
// of the alias.
func (v Value) at(n *yaml.Node, name string) Value {
	line := n.Line
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return Value{v.Doc, n, v.below(name), line}
}

// key returns the node of a key, which may be an alias.
func key(n *yaml.Node) *yaml.Node { return Value{}.at(n, "").Node }

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// IsNull reports whether the value is null.
func (v Value) IsNull() bool { return v.Node != nil && isNull(v.Node) }

// IsObject reports whether the value is an object.
func (v Value) IsObject() bool { return v.Node != nil && v.Node.Kind == yaml.MappingNode }

// IsList reports whether the value is a list.
func (v Value) IsList() bool { return v.Node != nil && v.Node.Kind == yaml.SequenceNode }

// IsString reports whether the value is a string.
func (v Value) IsString() bool {
	return v.Node != nil && v.Node.Kind == yaml.ScalarNode && v.Node.ShortTag() == "!!str"
}

// Len returns the number of elements of a list.
func (v Value) Len() int {
	if !v.IsList() {
		return 0
	}
	return len(v.Node.Content)
}

// All yields all entries of an object, including invalid ones; any other value has none. It
// reports nothing.
func (v Value) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for i := 0; v.IsObject() && i+1 < len(v.Node.Content); i += 2 {
			name := key(v.Node.Content[i]).Value
			if !yield(name, v.at(v.Node.Content[i+1], Clip(name))) {
				return
			}
		}
	}
}

// Field returns a field of an object, which may be null; false if it is missing.
func (v Value) Field(name string) (Value, bool) {
	for i := 0; v.IsObject() && i+1 < len(v.Node.Content); i += 2 {
		if key(v.Node.Content[i]).Value == name {
			return v.at(v.Node.Content[i+1], Clip(name)), true
		}
	}
	return Value{}, false
}

// Get returns a field of an object; false if it is missing or null.
func (v Value) Get(name string) (Value, bool) {
	child, ok := v.Field(name)
	if !ok || child.IsNull() {
		return Value{}, false
	}
	return child, true
}

// Peek returns the string at the end of a path of fields, or "". It reports nothing.
func (v Value) Peek(names ...string) string {
	for _, name := range names {
		v, _ = v.Get(name)
	}
	if !v.IsString() {
		return ""
	}
	return v.Node.Value
}

// Place returns the place of a path below v, such as spec.stages[0].name. If the path does not
// exist, the result has the line of its last existing part and no node, and must not be read.
func (v Value) Place(path string) Value {
	at := v
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		next, ok := at.Field(name)
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < at.Len() {
			next, ok = at.at(at.Node.Content[i], ""), true
		}
		if !ok {
			return Value{v.Doc, nil, v.below(path), at.line}
		}
		at = next
	}
	at.Path = v.below(path)
	return at
}

// Entries calls f for each entry of an object, and reports invalid entries: keys that some YAML
// parsers do not read as strings, and duplicates. If the value is no object, Entries reports that
// and returns false.
func (v Value) Entries(f func(name string, child Value)) bool {
	return v.entries(nil, func(_ *yaml.Node, name string, child Value) { f(name, child) })
}

// entries is Entries; a key that is a known field counts as a string.
func (v Value) entries(known Fields, f func(k *yaml.Node, name string, child Value)) bool {
	if !v.IsObject() {
		v.Fail("must be an object, not %s", v.Describe())
		return false
	}
	seen := make(map[string]int, len(v.Node.Content)/2)
	for i := 0; i+1 < len(v.Node.Content); i += 2 {
		at, k := v.Node.Content[i].Line, key(v.Node.Content[i])
		child := v.at(v.Node.Content[i+1], cmp.Or(Clip(k.Value), `""`))
		line, twice := seen[k.Value]
		switch {
		case k.Kind == yaml.ScalarNode && k.ShortTag() == "!!merge":
			v.Doc.Tell(at, v.Path, "merge keys (<<) are not read; write the fields out")
		case !isKey(k, known):
			v.Doc.Tell(at, v.Path, "keys must be strings; quote the key")
		case twice:
			v.Doc.Tell(at, child.Path, fmt.Sprintf("is there already, on line %d; leave one of the two", line))
		default:
			seen[k.Value] = at
			f(v.Node.Content[i], k.Value, child)
		}
	}
	return true
}

// isKey reports whether every YAML parser reads a key as a string, or whether it is a known field
// such as n.
func isKey(n *yaml.Node, known Fields) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && (n.Style != 0 || !isOldBoolean(n.Value) || known[n.Value] != nil)
}

// Object reads an object; if it is none, Object reports that and returns false. A null field
// counts as absent, as it does for an API server.
func (v Value) Object(known Fields, required ...string) bool {
	present := map[string]bool{}
	ok := v.entries(known, func(k *yaml.Node, name string, child Value) {
		read, found := known[name]
		switch {
		case !found:
			v.Doc.Tell(k.Line, child.Path, "unknown field; known are "+strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case !child.IsNull():
			present[name] = true
			read(child)
		}
	})
	for _, name := range required {
		if ok && !present[name] {
			v.at(v.Node, name).Fail("is required")
		}
	}
	return ok
}

// Each reads a list.
func (v Value) Each(f func(Value)) {
	if !v.IsList() {
		v.Fail("must be a list, not %s", v.Describe())
		return
	}
	for i, n := range v.Node.Content {
		f(v.at(n, "["+strconv.Itoa(i)+"]"))
	}
}

// List reads a list whose elements read reads.
func List[T any](v Value, read func(Value) T) (list []T) {
	v.Each(func(v Value) { list = append(list, read(v)) })
	return list
}

// Inner returns the only document in the text of a string, at the place of the string. It returns
// false if the text has no document or cannot be read.
func (v Value) Inner() (Value, bool) {
	var docs []*Doc
	for d := range parse([]byte(v.Node.Value), "") {
		if docs = append(docs, d); len(docs) > 1 {
			break
		}
	}
	if len(docs) != 1 || docs[0].IsEmpty() {
		return Value{}, false
	}
	relined(docs[0].root, func(int) int { return v.line })
	return Value{v.Doc, docs[0].root, v.Path, v.line}, true
}

// Document returns the value as a separate document, for example an item of a List.
func (v Value) Document() *Doc {
	d := New(v.Doc.File)
	d.root = v.Node
	return d
}

// Describe names the type of the value.
func (v Value) Describe() string {
	switch {
	case v.IsObject():
		return "an object"
	case v.IsList():
		return "a list"
	}
	switch v.Node.ShortTag() {
	case "!!int", "!!float":
		return "the number " + Clip(v.Node.Value)
	case "!!bool":
		return "a boolean"
	case "!!null":
		return "null"
	}
	return "a string"
}
