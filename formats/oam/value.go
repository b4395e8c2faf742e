package oam

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"
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

// ignore reads a field that has no meaning here.
func ignore(value) {}

// unsupported reads a field that asks for something Slipway does not do.
func unsupported(v value) { v.fail("is not supported; leave it out") }

func (v value) fail(format string, args ...any) {
	v.doc.report(v.node.Line, v.path, fmt.Sprintf(format, args...))
}

// maxPath bounds a path, which hostile keys would make long again and again.
const maxPath = 512

// at returns the value of a field or an element below v.
func (v value) at(n *yaml.Node, name string) value {
	path := v.path + name
	switch {
	case len(v.path) > maxPath:
		path = v.path
	case v.path != "" && name != "" && name[0] != '[':
		path = v.path + "." + name
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
	seen := map[string]bool{}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.node.Content[i]
		child := v.at(v.node.Content[i+1], clip(key.Value))
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
			v.fail("keys must be strings; quote the key %s", clip(key.Value))
		case seen[key.Value]:
			child.fail("is there already; leave one of the two")
		default:
			seen[key.Value] = true
			f(key.Value, child)
		}
	}
	return true
}

// object reads an object. A field that is null counts as absent, as it does for an
// API server.
func (v value) object(known fields, required ...string) {
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
}

// get returns a field of an object; false where it is not there or null.
func (v value) get(name string) (value, bool) {
	if v.node.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(v.node.Content); i += 2 {
			if v.node.Content[i].Value == name {
				child := v.at(v.node.Content[i+1], name)
				return child, !child.isNull()
			}
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

// text reads a string; false where it is none, which is reported.
func (v value) text() (string, bool) {
	if v.node.Kind == yaml.ScalarNode && slices.Contains([]string{"!!str", "!!timestamp"}, v.node.ShortTag()) {
		return v.node.Value, true
	}
	v.fail("must be a string, not %s", v.describe())
	return "", false
}

// str reads a string that is not empty.
func (v value) str() string {
	s, ok := v.text()
	if ok && s == "" {
		v.fail("must not be empty")
	}
	return s
}

// named reads a name that check finds nothing wrong with.
func (v value) named(check func(string) []string) string {
	s := v.str()
	if s != "" {
		for _, msg := range check(s) {
			v.fail("%q: %s", clip(s), msg)
		}
	}
	return s
}

func (v value) label() string { return v.named(validation.IsDNS1123Label) }

// oneOf reads a string that is one of few.
func (v value) oneOf(allowed ...string) string {
	s, ok := v.text()
	if ok && !slices.Contains(allowed, s) {
		v.fail("must be %s, not %q", strings.Join(allowed, " or "), clip(s))
		return ""
	}
	return s
}

// integer reads a whole number of at least least.
func (v value) integer(least int) int {
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!int" {
		v.fail("must be a whole number, not %s", v.describe())
		return least
	}
	n, err := strconv.ParseInt(v.node.Value, 10, 32)
	if err != nil || n < int64(least) {
		v.fail("must be a number of at least %d, not %s", least, clip(v.node.Value))
		return least
	}
	return int(n)
}

func (v value) boolean() (b bool) {
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!bool" || v.node.Decode(&b) != nil {
		v.fail("must be true or false, not %s", v.describe())
	}
	return b
}

// maxDuration is the longest duration of a strategy.
const maxDuration = 365 * 24 * time.Hour

// duration reads a duration of more than 0.
func (v value) duration() time.Duration {
	s, ok := v.text()
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		v.fail("must be a duration such as 30s, 5m or 1h30m, not %q", clip(s))
		return 0
	case d <= 0 || d > maxDuration:
		v.fail("must be more than 0s and at most 365 days (8760h), not %s", clip(s))
		return 0
	}
	return d
}

// stringMap reads labels.
func (v value) stringMap() map[string]string {
	m := map[string]string{}
	v.entries(func(key string, child value) { m[key], _ = child.text() })
	return m
}

// strings reads a list of strings of which each is there once.
func (v value) strings() (list []string) {
	v.list(func(v value) {
		s := v.str()
		if s != "" && slices.Contains(list, s) {
			v.fail("%q is there already; leave one of the two", clip(s))
			return
		}
		list = append(list, s)
	})
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
