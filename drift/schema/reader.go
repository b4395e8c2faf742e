package schema

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
)

// reader parses blocks of a table. Because types may be recursive, it defers work that needs
// other types until all exist.
type reader struct {
	table *table
	fresh map[string]*Type
	later []func()
}

// finish does the deferred work.
func (r *reader) finish() {
	for _, f := range r.later {
		f()
	}
}

// named parses a block, or returns the earlier result.
func (r *reader) named(name string) *Type {
	if known := r.fresh[name]; known != nil {
		return known
	}
	if known := r.table.types[name]; known != nil {
		return known
	}
	text := r.table.block(name)
	fields := make([]Field, strings.Count(text, "\n"))
	t := &Type{Name: name, Kind: Struct, Fields: make(map[string]*Field, len(fields)+2)}
	r.fresh[name] = t
	pkg := name[:strings.LastIndex(name, ".")+1]
	head, rest, _ := strings.Cut(text, "\n")
	r.head(t, head)
	for line := range strings.SplitSeq(rest, "\n") {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(line, " "), " "); ok {
			f := &fields[0]
			fields = fields[1:]
			r.field(f, rest, pkg)
			t.Fields[name] = f
		}
	}
	return t
}

// head reads the flags of a block.
func (r *reader) head(t *Type, head string) {
	_, flags, _ := strings.Cut(head, " ")
	for flag := range strings.SplitSeq(flags, " ") {
		name, value, _ := strings.Cut(flag, "=")
		switch name {
		case "kind":
			t.Fields["apiVersion"] = &Field{Type: r.plain("string")}
			t.Fields["kind"] = &Field{Type: r.plain("string")}
		case "whole":
			t.Whole = true
		case "open":
			t.Open = true
		case "union":
			t.Union = strings.Split(value, ",")
		}
	}
}

// field reads the type and flags of a field.
func (r *reader) field(f *Field, text, pkg string) {
	expr, flags, _ := strings.Cut(text, " ")
	if rest, ok := strings.CutPrefix(expr, "*"); ok {
		expr, f.Presence = rest, true
	}
	f.Type = r.expr(expr, pkg)
	for flag := range strings.SplitSeq(flags, " ") {
		r.flag(f, flag)
	}
}

// flag reads a flag of a field, or of its type.
func (r *reader) flag(f *Field, flag string) {
	name, value, _ := strings.Cut(flag, "=")
	switch name {
	case "default":
		f.Default = parseValue(value)
	case "derive":
		f.Derive = ruleNamed(value)
	case "presence":
		f.Presence = true
	case "unset":
		f.Unset = true
	case "server":
		f.ServerOwned = true
	case "immutable":
		f.Immutable = true
	case "sealed":
		f.Sealed = true
	case "secret":
		f.Secret = true
	case "ordered":
		f.Type.Ordered = true
	case "unordered":
		f.Type.Unordered = true
	case "whole", "granular":
		r.setWhole(f, name == "whole")
	}
}

// setWhole changes the type of one field, and not of other fields with the same type.
func (r *reader) setWhole(f *Field, whole bool) {
	r.later = append(r.later, func() {
		own := *f.Type
		own.Whole = whole
		f.Type = &own
	})
}

// expr reads a type.
func (r *reader) expr(expr, pkg string) *Type {
	open := strings.IndexByte(expr, '[')
	if open < 0 {
		return r.word(expr, pkg)
	}
	elem := r.expr(expr[open+1:len(expr)-1], pkg)
	switch outer := expr[:open]; outer {
	case "map":
		return &Type{Kind: Map, Elem: elem}
	case "list":
		return &Type{Kind: List, Elem: elem}
	case "set":
		return &Type{Kind: List, List: Set, Elem: elem}
	default:
		return r.keyed(strings.TrimSuffix(strings.TrimPrefix(outer, "keyed("), ")"), elem)
	}
}

// keyed makes a list with keys. Their defaults come from the fields of the items.
func (r *reader) keyed(names string, elem *Type) *Type {
	t := &Type{Kind: List, List: Keyed, Elem: elem}
	for name := range strings.SplitSeq(names, ",") {
		t.Keys = append(t.Keys, Key{Name: name})
	}
	r.later = append(r.later, t.defaultKeys)
	return t
}

// defaultKeys fills in the values of missing keys.
func (t *Type) defaultKeys() {
	for i := range t.Keys {
		if f := t.Elem.Field(t.Keys[i].Name); f != nil && f.Derive == 0 {
			t.Keys[i].Default = f.Default
		}
	}
}

// word reads the name of a plain type or of a block.
func (r *reader) word(word, pkg string) *Type {
	switch {
	case word == "any":
		return nil
	case kindNamed(word) != Unknown:
		return r.plain(word)
	case strings.Contains(word, "."):
		return r.named(word)
	}
	return r.named(pkg + word)
}

// plain returns the shared type of a word.
func (r *reader) plain(word string) *Type {
	if known := r.table.types[word]; known != nil {
		return known
	}
	if r.fresh[word] == nil {
		r.fresh[word] = &Type{Kind: kindNamed(word)}
	}
	return r.fresh[word]
}

// kindNamed returns the kind that a word of the table stands for.
func kindNamed(word string) Kind {
	switch word {
	case "string":
		return String
	case "number":
		return Number
	case "boolean":
		return Boolean
	case "quantity":
		return Quantity
	case "intorstring":
		return IntOrString
	case "duration":
		return Duration
	case "time":
		return Time
	case "bytes":
		return Bytes
	}
	return Unknown
}

// parseValue parses a JSON value with the types of an unstructured object, nil if it is invalid.
func parseValue(text string) any {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil
	}
	return v
}
