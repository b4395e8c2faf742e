package kubefleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// value is a place in a document: what stands there and its path. Its methods
// read it as a type and report what does not fit to the document.
type value struct {
	doc  *document
	node *yaml.Node
	path string
}

// fields are the fields that an object may have and what reads each.
type fields map[string]func(value)

// ignore reads a field that has no meaning here.
func ignore(value) {}

// unsupported reads a field that asks for something Slipway does not do yet.
func unsupported(v value) { v.fail("is not supported yet; leave it out") }

// fail reports a problem with the value.
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

// entries calls f for each entry of an object and reports entries that cannot
// be: keys that are not strings or are there twice.
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
			v.fail("merge keys (<<) are not read; write the fields out")
		case !key.isKey():
			v.doc.report(key.node.Line, v.path, "keys must be strings; quote the key")
		case twice:
			v.doc.report(key.node.Line, child.path, fmt.Sprintf("is there already, on line %d; leave one of the two", line))
		default:
			seen[key.node.Value] = v.doc.line(key.node.Line)
			f(key.node.Value, child)
		}
	}
	return true
}

// isKey tells whether the value is a string to every YAML parser.
func (v value) isKey() bool {
	return v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!str" && (v.node.Style != 0 || !oldBoolean(v.node.Value))
}

// object reads an object. A field that is null counts as absent, as it does
// for an API server.
func (v value) object(known fields, required ...string) {
	present := map[string]bool{}
	ok := v.entries(func(key string, child value) {
		read, found := known[key]
		if !found {
			child.fail("unknown field; known are %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
			return
		}
		if !child.isNull() {
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

// get returns a field of an object, null or not.
func (v value) get(name string) (value, bool) {
	if v.node.Kind != yaml.MappingNode {
		return value{}, false
	}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		if v.at(v.node.Content[i], "").node.Value == name {
			return v.at(v.node.Content[i+1], name), true
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

// str reads a string.
func (v value) str() string {
	x, ok := v.scalar()
	if !ok {
		return ""
	}
	s, ok := x.(string)
	if !ok {
		v.fail("must be a string, not %s%s", v.describe(), v.hint())
	}
	return s
}

// hint tells how to write a scalar that is to be a string.
func (v value) hint() string {
	if v.node.Kind == yaml.ScalarNode && v.node.Value != "" {
		return fmt.Sprintf("; write %q", clip(v.node.Value))
	}
	return ""
}

// integer reads an integer; false tells that it is none, which is reported.
func (v value) integer() (int64, bool) {
	x, ok := v.scalar()
	if !ok {
		return 0, false
	}
	n, ok := x.(int64)
	if !ok {
		v.fail("must be an integer, not %s", v.describe())
	}
	return n, ok
}

// int32 reads an integer of 32 bits; what is none is reported and 0.
func (v value) int32() int32 {
	n, ok := v.integer()
	if ok && (n < math.MinInt32 || n > math.MaxInt32) {
		v.fail("must fit into 32 bits, not %d", n)
		return 0
	}
	return int32(n)
}

func (v value) boolean() bool {
	x, ok := v.scalar()
	if !ok {
		return false
	}
	b, ok := x.(bool)
	if !ok {
		v.fail("must be true or false, not %s", v.describe())
	}
	return b
}

// oneOf reads a string that is one of few.
func (v value) oneOf(allowed ...string) string {
	s := v.str()
	if !v.doc.broken[v.path] && !slices.Contains(allowed, s) {
		v.fail("must be %s, not %q", strings.Join(allowed, " or "), clip(s))
	}
	return s
}

// supported reads a string of which Slipway does some values and only knows
// the others.
func (v value) supported(does, knows []string) {
	if s := v.oneOf(slices.Concat(does, knows)...); slices.Contains(knows, s) {
		v.fail("%s is not supported yet; write %s", s, strings.Join(does, " or "))
	}
}

// stringMap reads labels or annotations.
func (v value) stringMap() map[string]string {
	var m map[string]string
	v.entries(func(key string, child value) {
		if m == nil {
			m = map[string]string{}
		}
		m[key] = child.str()
	})
	return m
}

func (v value) strings() []string {
	var list []string
	v.list(func(v value) { list = append(list, v.str()) })
	return list
}

func (v value) labelSelector() *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	v.object(fields{
		"matchLabels": func(v value) { s.MatchLabels = v.stringMap() },
		"matchExpressions": func(v value) {
			v.list(func(v value) { s.MatchExpressions = append(s.MatchExpressions, v.requirement()) })
		},
	})
	return s
}

func (v value) requirement() metav1.LabelSelectorRequirement {
	var r metav1.LabelSelectorRequirement
	v.object(fields{
		"key":      func(v value) { r.Key = v.str() },
		"operator": func(v value) { r.Operator = metav1.LabelSelectorOperator(v.str()) },
		"values":   func(v value) { r.Values = v.strings() },
	}, "key", "operator")
	return r
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
	case "!!int":
		return "an integer"
	case "!!float":
		return "a number"
	case "!!bool":
		return "a boolean"
	case "!!null":
		return "null"
	}
	return "a string"
}

// scalar reads a scalar as JSON has it: nil, bool, int64, float64 or string.
func (v value) scalar() (any, bool) {
	if v.node.Kind != yaml.ScalarNode {
		return nil, true // of no type; whoever wants one says what it is
	}
	switch v.node.ShortTag() {
	case "!!str", "!!timestamp":
		if v.node.Style == 0 && oldBoolean(v.node.Value) {
			v.fail("is true or false in old YAML and a string in new; write true, false or %q", v.node.Value)
			return nil, false
		}
		return v.node.Value, true
	case "!!null", "!!bool", "!!int", "!!float":
		return v.plain()
	}
	v.fail("has the YAML tag %s, which JSON has not; leave the tag out", clip(v.node.ShortTag()))
	return nil, false
}

func (v value) plain() (any, bool) {
	var x any
	if err := v.node.Decode(&x); err != nil {
		v.fail("is not what its YAML tag says")
		return nil, false
	}
	switch x := x.(type) {
	case int:
		return int64(x), true
	case uint64:
		v.fail("does not fit into 64 bits with a sign; quote it if it is a string")
		return nil, false
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			v.fail("must be a finite number")
			return nil, false
		}
	}
	return x, true
}

// oldBoolean tells the words that YAML 1.1, and so kubectl, takes for booleans.
func oldBoolean(s string) bool {
	switch s {
	case "y", "Y", "yes", "Yes", "YES", "n", "N", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF":
		return true
	}
	return false
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
		x, _ := v.scalar()
		return x
	}
}

// json reads any value as compact JSON.
func (v value) json() json.RawMessage {
	b, err := compactJSON(v.tree())
	if err != nil {
		v.fail("has no JSON form")
	}
	return b
}

// compactJSON returns JSON on one line with its characters as they are.
func compactJSON(x any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(x); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
