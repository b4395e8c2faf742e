package azure

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// value is a place in a document: what stands there and its path. Its methods read
// it as a type and report what does not fit.
type value struct {
	r    *reading
	node *yaml.Node
	path string
}

// fields are the fields that an object may have and what reads each.
type fields map[string]func(value)

func (v value) fail(format string, args ...any) {
	v.r.report(v.node.Line, v.path, fmt.Sprintf(format, args...))
}

// at returns the value below v; the name of the field is part of its path.
func (v value) at(n *yaml.Node, name string) value {
	path := v.path + name
	if v.path != "" && name[0] != '[' {
		path = v.path + "." + name
	}
	return value{v.r, resolve(n), path}
}

// resolve follows an alias, which YAML has and JSON has not. The line stays where
// the alias is.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.AliasNode || n.Alias == nil {
		return n
	}
	there := *n.Alias
	there.Line = n.Line
	return &there
}

func (v value) isNull() bool { return v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!null" }

// object reads an object; false tells that it is none, which is reported. A field
// that is null counts as absent, as it does for Azure.
func (v value) object(known fields, required ...string) bool {
	if v.node.Kind != yaml.MappingNode {
		v.fail("must be an object, not %s", v.describe())
		return false
	}
	seen := map[string]int{}
	present := map[string]bool{}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := resolve(v.node.Content[i])
		name := key.Value
		child := v.at(v.node.Content[i+1], cmp.Or(clip(name), `""`))
		read, found := known[name]
		line, twice := seen[name]
		seen[name] = key.Line
		switch {
		case twice:
			v.r.report(key.Line, child.path, fmt.Sprintf("is there already, on line %d; leave one of the two", line))
		case !found || key.Kind != yaml.ScalarNode:
			v.r.report(key.Line, child.path, "unknown field; known are "+strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case !child.isNull():
			present[name] = true
			read(child)
		}
	}
	for _, name := range required {
		if !present[name] {
			v.at(v.node, name).fail("is required")
		}
	}
	return true
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

// str reads a string; false tells that it is none, which is reported.
func (v value) str() (string, bool) {
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!str" {
		v.fail("must be a string, not %s", v.describe())
		return "", false
	}
	return v.node.Value, true
}

// oneOf reads a string that is one of few.
func (v value) oneOf(allowed ...string) string {
	s, ok := v.str()
	if ok && !slices.Contains(allowed, s) {
		v.fail("must be %s, not %q", strings.Join(allowed, " or "), clip(s))
		return ""
	}
	return s
}

// integer reads an integer in a range.
func (v value) integer(least, most int) int {
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!int" {
		v.fail("must be a whole number, not %s", v.describe())
		return 0
	}
	n, err := strconv.Atoi(v.node.Value)
	if err != nil || n < least || n > most {
		v.fail("must be a number from %d to %d, not %s", least, most, clip(v.node.Value))
		return 0
	}
	return n
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

// find returns the line of a path, or of the last part of it that is there.
func (v value) find(path string) int {
	n := v.node
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		next := below(n, name)
		if next == nil {
			break
		}
		n = next
	}
	return n.Line
}

// below returns the field or the item of that name, or nil.
func below(n *yaml.Node, name string) *yaml.Node {
	if n.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(name); err == nil && i < len(n.Content) {
			return resolve(n.Content[i])
		}
		return nil
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return resolve(n.Content[i+1])
		}
	}
	return nil
}

// report reports what a noun finds wrong with itself, at the fields that it was read
// from.
func (v value) report(errs field.ErrorList, place func(string) string) {
	for _, fe := range errs {
		path := place(fe.Field)
		if full := strings.TrimPrefix(v.path+"."+path, "."); !v.r.failed(full) {
			v.r.report(v.find(path), full, fe.ErrorBody())
		}
	}
}
