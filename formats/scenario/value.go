package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// value is a place in a document: what stands there and its path. Its methods read
// it as a type and report what does not fit to the document.
type value struct {
	doc  *document
	node *yaml.Node
	path string
}

// fields are the fields that an object may have and what reads each.
type fields map[string]func(value)

func (v value) fail(format string, args ...any) {
	v.doc.report(v.node.Line, v.path, fmt.Sprintf(format, args...))
}

// maxPath bounds a path, which hostile keys would make long again and again.
const maxPath = 512

// at returns the value below v; the name of the field is part of its path.
func (v value) at(n *yaml.Node, name string) value {
	path := v.path + name
	switch {
	case len(v.path) > maxPath:
		path = v.path
	case v.path != "" && name != "" && name[0] != '[':
		path = v.path + "." + name
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return value{v.doc, n, path}
}

func (v value) isNull() bool { return v.node.ShortTag() == "!!null" }

// entries calls f for each entry of an object, and reports keys that are not
// strings or are there twice.
func (v value) entries(f func(key string, child value)) bool {
	if v.node.Kind != yaml.MappingNode {
		v.fail("must be an object, not %s", v.describe())
		return false
	}
	seen := make(map[string]int, len(v.node.Content)/2)
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.at(v.node.Content[i], "")
		child := v.at(v.node.Content[i+1], clip(key.node.Value))
		line, twice := seen[key.node.Value]
		switch {
		case key.node.Kind == yaml.ScalarNode && key.node.ShortTag() == "!!merge":
			v.doc.report(key.node.Line, v.path, "merge keys (<<) are not read; write the fields out")
		case key.node.Kind != yaml.ScalarNode || key.node.ShortTag() != "!!str":
			v.doc.report(key.node.Line, v.path, "keys must be strings; quote the key")
		case twice:
			v.doc.report(key.node.Line, child.path, fmt.Sprintf("is there already, on line %d; leave one of the two", line))
		default:
			seen[key.node.Value] = key.node.Line
			f(key.node.Value, child)
		}
	}
	return true
}

// object reads an object. A field that is null counts as absent.
func (v value) object(known fields, required ...string) bool {
	present := map[string]bool{}
	ok := v.entries(func(key string, child value) {
		read, found := known[key]
		switch {
		case !found:
			child.fail("unknown field; known are %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case !child.isNull():
			present[key] = true
			read(child)
		}
	})
	for _, name := range required {
		if ok && !present[name] {
			v.at(v.node, name).fail("is required")
		}
	}
	return ok
}

// get returns a field of an object; false where it is not there or null.
func (v value) get(name string) (value, bool) {
	if v.node.Kind != yaml.MappingNode {
		return value{}, false
	}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		if v.at(v.node.Content[i], "").node.Value == name {
			child := v.at(v.node.Content[i+1], name)
			return child, !child.isNull()
		}
	}
	return value{}, false
}

// list reads a list.
func (v value) list(f func(value)) {
	if v.node.Kind != yaml.SequenceNode {
		v.fail("must be a list, not %s", v.describe())
		return
	}
	for i, n := range v.node.Content {
		f(v.at(n, "["+strconv.Itoa(i)+"]"))
	}
}

// find returns the line of a path below v, or of the last part of it that is
// there.
func (v value) find(path string) int {
	line := v.node.Line
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		next, ok := v.get(name)
		if i, err := strconv.Atoi(name); err == nil && v.node.Kind == yaml.SequenceNode && i >= 0 && i < len(v.node.Content) {
			next, ok = v.at(v.node.Content[i], ""), true
		}
		if !ok {
			break
		}
		v, line = next, next.node.Line
	}
	return line
}

// str reads a string that is not empty; "" where it is none, which is reported.
func (v value) str() string {
	s, ok := v.text()
	if ok && s == "" {
		v.fail("must not be empty")
	}
	return s
}

// text reads a string.
func (v value) text() (string, bool) {
	if v.node.Kind == yaml.ScalarNode && slices.Contains([]string{"!!str", "!!timestamp"}, v.node.ShortTag()) {
		return v.node.Value, true
	}
	hint := ""
	if v.node.Kind == yaml.ScalarNode && v.node.Value != "" {
		hint = fmt.Sprintf("; write %q", clip(v.node.Value))
	}
	v.fail("must be a string, not %s%s", v.describe(), hint)
	return "", false
}

// oneOf reads a string that is one of few.
func (v value) oneOf(allowed ...string) string {
	s, ok := v.text()
	if ok && !slices.Contains(allowed, s) {
		v.fail("must be %s, not %q", strings.Join(allowed, " or "), clip(s))
		return ""
	}
	return s
}

// integer reads an integer in a range.
func (v value) integer(least, most int) int {
	n, err := 0, error(nil)
	if v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!int" {
		n, err = strconv.Atoi(v.node.Value)
	} else {
		v.fail("must be a whole number, not %s", v.describe())
		return 0
	}
	if err != nil || n < least || n > most {
		v.fail("must be from %d to %d, not %s", least, most, clip(v.node.Value))
		return 0
	}
	return n
}

func (v value) boolean() (b bool) {
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!bool" || v.node.Decode(&b) != nil {
		v.fail("must be true or false, not %s", v.describe())
	}
	return b
}

// maxDuration is the longest duration there is.
const maxDuration = 365 * 24 * time.Hour

// duration reads a duration of at least 0.
func (v value) duration() time.Duration {
	if v.node.Kind == yaml.ScalarNode && v.node.Value == "0" {
		return 0
	}
	const form = "must be a duration such as 30s, 5m or 1h30m"
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!str" {
		v.fail("%s, not %s", form, v.describe())
		return 0
	}
	d, err := time.ParseDuration(v.node.Value)
	switch {
	case err != nil:
		v.fail("%s, not %q", form, clip(v.node.Value))
	case d < 0 || d > maxDuration:
		v.fail("must be from 0s to 365 days (8760h), not %s", clip(v.node.Value))
	default:
		return d
	}
	return 0
}

// some reads a duration of more than 0.
func (v value) some() time.Duration {
	d := v.duration()
	if d == 0 && !v.doc.broken[v.path] {
		v.fail("must be more than 0s")
	}
	return d
}

// stringMap reads labels.
func (v value) stringMap() map[string]string {
	m := map[string]string{}
	v.entries(func(key string, child value) { m[key], _ = child.text() })
	return m
}

func (v value) strings() (list []string) {
	v.list(func(v value) { list = append(list, v.str()) })
	return list
}

// describe names the type of the value.
func (v value) describe() string {
	switch v.node.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	default:
	}
	switch v.node.ShortTag() {
	case "!!int", "!!float":
		return "the number " + clip(v.node.Value)
	case "!!bool":
		return "a boolean"
	case "!!null":
		return "null"
	}
	return "a string"
}

// tree reads any value as JSON has it.
func (v value) tree() any {
	switch v.node.Kind {
	case yaml.MappingNode:
		m := make(map[string]any, len(v.node.Content)/2)
		v.entries(func(key string, child value) { m[key] = child.tree() })
		return m
	case yaml.SequenceNode:
		list := make([]any, 0, len(v.node.Content))
		v.list(func(v value) { list = append(list, v.tree()) })
		return list
	default:
		return v.scalar()
	}
}

// scalar reads a scalar as JSON has it.
func (v value) scalar() any {
	switch v.node.ShortTag() {
	case "!!str", "!!timestamp":
		return v.node.Value
	case "!!null", "!!bool", "!!int", "!!float":
	default:
		v.fail("has the YAML tag %s, which JSON has not; leave the tag out", clip(v.node.ShortTag()))
		return nil
	}
	var x any
	if err := v.node.Decode(&x); err != nil {
		v.fail("is not what its YAML tag says")
		return nil
	}
	switch x := x.(type) {
	case int:
		return int64(x)
	case uint64:
		v.fail("does not fit into 64 bits with a sign; quote it if it is a string")
		return nil
	}
	return x
}
