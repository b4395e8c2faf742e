package kubefleet

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// object writes an object of any kind.
func (w *writer) object(o *unstructured.Unstructured) {
	if o == nil {
		w.errs = append(w.errs, fmt.Errorf("an object is nil"))
		return
	}
	tree, ok := plainTree(o.Object).(map[string]any)
	var errs field.ErrorList
	for _, f := range []struct{ path, value string }{
		{"apiVersion", o.GetAPIVersion()}, {"kind", o.GetKind()}, {"metadata.name", o.GetName()},
	} {
		if f.value == "" {
			errs = append(errs, field.Required(field.NewPath(f.path), "must be a string, and not empty"))
		}
	}
	if !ok || len(errs) > 0 {
		w.errs = append(w.errs, fmt.Errorf("%s/%s: %w", o.GetKind(), o.GetName(), errs.ToAggregate()))
		return
	}
	w.docs = append(w.docs, tree)
}

// node returns the YAML of maps, lists and scalars, keys in order. It is made
// here rather than by the encoder because a string in a block loses blanks at
// its ends, and because kubectl takes more words for booleans than the
// encoder.
func node(x any) *yaml.Node {
	switch x := x.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, k := range slices.Sorted(maps.Keys(x)) {
			n.Content = append(n.Content, stringNode(k), node(x[k]))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, item := range x {
			n.Content = append(n.Content, node(item))
		}
		return n
	case string:
		return stringNode(x)
	}
	return numberNode(x)
}

// stringNode writes simple words plainly and quotes everything else.
func stringNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if !plainWord(s) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// plainWord tells strings that every YAML parser takes for strings without
// quotes: they start with a letter, hold nothing that means something in
// YAML, and are no word for a boolean, null or a number.
func plainWord(s string) bool {
	if s == "" || oldBoolean(s) {
		return false
	}
	switch strings.ToLower(s) {
	case "true", "false", "null":
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		inner := c >= '0' && c <= '9' || strings.IndexByte("-_./", c) >= 0
		if !letter && (!inner || i == 0) {
			return false
		}
	}
	return true
}

func numberNode(x any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	switch x := x.(type) {
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(x)
	case int64:
		n.Tag, n.Value = "!!int", strconv.FormatInt(x, 10)
	case float64:
		n.Tag, n.Value = "!!float", strconv.FormatFloat(x, 'g', -1, 64)
	}
	return n
}
