package yamldoc

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Plain returns x by its JSON tags in the form of [Value.Tree]; nil if it has no JSON form.
func Plain(x any) any {
	b, err := json.Marshal(x)
	if err != nil {
		return nil
	}
	var tree any
	if err := utiljson.Unmarshal(b, &tree); err != nil {
		return nil
	}
	return tree
}

// NodeOf returns the YAML of a result of [Value.Tree], with sorted keys. It replaces the encoder,
// because the encoder loses blanks at the ends of strings in blocks, and because kubectl reads
// more words as booleans than the encoder knows.
func NodeOf(x any) *yaml.Node {
	switch x := x.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, k := range slices.Sorted(maps.Keys(x)) {
			n.Content = append(n.Content, stringNode(k), NodeOf(x[k]))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, item := range x {
			n.Content = append(n.Content, NodeOf(item))
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

// plainWord reports whether every YAML parser reads a text as a string without quotes: it starts
// with a letter, contains no YAML syntax, and is no boolean, null or number.
func plainWord(s string) bool {
	if s == "" || isOldBoolean(s) {
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
