package yamldoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Scalar reads a scalar as a JSON value: nil, bool, int64, float64 or string. For an object or a
// list it returns nil, too. It reports a value that JSON does not have, or that YAML parsers read
// differently, and returns false.
func (v Value) Scalar() (any, bool) {
	x, problem := scalar(v.Node)
	if problem != "" {
		v.Fail("%s", problem)
		return nil, false
	}
	return x, true
}

// scalar returns the JSON value of a node, or its problem.
func scalar(n *yaml.Node) (x any, problem string) {
	if n.Kind != yaml.ScalarNode {
		return nil, "" // no type; the reader that expects one reports it
	}
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		if n.Style == 0 && isOldBoolean(n.Value) {
			return nil, fmt.Sprintf("is true or false in old YAML and a string in new; write true, false or %q", n.Value)
		}
		return n.Value, ""
	case "!!null", "!!bool", "!!int", "!!float":
		return plain(n)
	}
	return nil, fmt.Sprintf("has the YAML tag %s, which JSON has not; leave the tag out", Clip(n.ShortTag()))
}

// plain returns the value of a node that is null, a boolean or a number, or its problem.
func plain(n *yaml.Node) (x any, problem string) {
	const large = "does not fit into 64 bits with a sign; quote it if it is a string"
	if err := n.Decode(&x); err != nil && n.Style&yaml.TaggedStyle == 0 && n.ShortTag() == "!!int" {
		return nil, large
	} else if err != nil {
		return nil, "is not what its YAML tag says"
	}
	switch x := x.(type) {
	case int:
		return int64(x), ""
	case uint64:
		return nil, large
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, "must be a finite number"
		}
	}
	return x, ""
}

// isOldBoolean reports whether YAML 1.1, and so kubectl, reads a word as a boolean.
func isOldBoolean(s string) bool {
	switch s {
	case "y", "Y", "yes", "Yes", "YES", "n", "N", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF":
		return true
	}
	return false
}

// typed reads a scalar of a type; what names the type. If the value is of another type, typed
// reports that and returns false.
func typed[T any](v Value, what string) (T, bool) {
	x, ok := v.Scalar()
	t, is := x.(T)
	if ok && !is {
		v.Fail("must be %s, not %s", what, v.Describe())
	}
	return t, ok && is
}

// str reads a string; if it is none, str reports that and returns false.
func str(v Value) (string, bool) {
	x, ok := v.Scalar()
	s, is := x.(string)
	if ok && !is {
		v.Fail("must be a string, not %s%s", v.Describe(), asString(v.Node))
	}
	return s, ok && is
}

// asString says how to write a scalar as a string.
func asString(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.Value != "" {
		return fmt.Sprintf("; write %q", Clip(n.Value))
	}
	return ""
}

// Str reads a string.
func (v Value) Str() string {
	s, _ := str(v)
	return s
}

// NonEmpty reads a string that is not empty.
func (v Value) NonEmpty() string {
	s, ok := str(v)
	if ok && s == "" {
		v.Fail("must not be empty")
	}
	return s
}

// Strings reads a list of strings.
func (v Value) Strings() []string { return List(v, Value.Str) }

// StringMap reads labels or annotations.
func (v Value) StringMap() map[string]string {
	m := map[string]string{}
	v.Entries(func(name string, child Value) { m[name] = child.Str() })
	return m
}

// OneOf reads a string that must be one of the allowed ones. It reports and returns any other
// string.
func OneOf[T ~string](v Value, allowed ...T) T {
	s, ok := str(v)
	if ok && !slices.Contains(allowed, T(s)) {
		words := make([]string, len(allowed))
		for i := range allowed {
			words[i] = string(allowed[i])
		}
		v.Fail("must be %s, not %q", strings.Join(words, " or "), Clip(s))
	}
	return T(s)
}

// Named reads a name and reports the errors of check, such as validation.IsDNS1123Label. It
// returns an invalid name, too.
func (v Value) Named(check func(string) []string) string {
	s, ok := str(v)
	if ok {
		for _, msg := range check(s) {
			v.Fail("%q: %s", Clip(s), msg)
		}
	}
	return s
}

// number reads a whole number; if it is none, number reports that and returns false.
func number(v Value) (int64, bool) { return typed[int64](v, "a whole number") }

// Integer reads a whole number in a range, and returns 0 for any other.
func (v Value) Integer(least, most int) int {
	n, ok := number(v)
	if ok && (n < int64(least) || n > int64(most)) {
		v.Fail("must be from %d to %d, not %s", least, most, Clip(v.Node.Value))
		return 0
	}
	return int(n)
}

// AtLeast reads a whole number of 32 bits that is not less than least, and returns
// least for any other.
func (v Value) AtLeast(least int) int {
	n, ok := number(v)
	if ok && (n < int64(least) || n > math.MaxInt32) {
		v.Fail("must be a number of at least %d, not %s", least, Clip(v.Node.Value))
		ok = false
	}
	if !ok {
		return least
	}
	return int(n)
}

// Int32 reads a whole number of 32 bits.
func (v Value) Int32() int32 {
	n, ok := number(v)
	if ok && (n < math.MinInt32 || n > math.MaxInt32) {
		v.Fail("must fit into 32 bits, not %d", n)
		return 0
	}
	return int32(n)
}

// Boolean reads true or false.
func (v Value) Boolean() bool {
	b, _ := typed[bool](v, "true or false")
	return b
}

// maxDuration is the longest duration.
const maxDuration = 365 * 24 * time.Hour

// Duration reads a duration of at least 0 and at most 365 days.
func (v Value) Duration() time.Duration {
	d, ok := duration(v)
	if ok && (d < 0 || d > maxDuration) {
		v.Fail("must be from 0s to 365 days (8760h), not %s", Clip(v.Node.Value))
		return 0
	}
	return d
}

// Period reads a duration of more than 0 and at most 365 days.
func (v Value) Period() time.Duration {
	d, ok := duration(v)
	if ok && (d <= 0 || d > maxDuration) {
		v.Fail("must be more than 0s and at most 365 days (8760h), not %s", Clip(v.Node.Value))
		return 0
	}
	return d
}

// duration reads a duration; if it is none, duration reports that and returns false.
func duration(v Value) (time.Duration, bool) {
	const form = "a duration such as 30s, 5m or 1h30m"
	if v.Node.Kind == yaml.ScalarNode && v.Node.Value == "0" {
		return 0, true
	}
	s, ok := typed[string](v, form)
	if !ok {
		return 0, false
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		v.Fail("must be %s, not %q", form, Clip(s))
	}
	return d, err == nil
}

// Tree reads any value as JSON values.
func (v Value) Tree() any {
	switch v.Node.Kind {
	case yaml.MappingNode:
		m := make(map[string]any, len(v.Node.Content)/2)
		v.Entries(func(name string, child Value) { m[name] = child.Tree() })
		return m
	case yaml.SequenceNode:
		list := make([]any, 0, len(v.Node.Content))
		v.Each(func(v Value) { list = append(list, v.Tree()) })
		return list
	default:
		x, _ := v.Scalar()
		return x
	}
}

// JSON reads any value as compact JSON without HTML escapes.
func (v Value) JSON() json.RawMessage {
	b, err := compactJSON(v.Tree())
	if err != nil {
		v.Fail("has no JSON form")
	}
	return b
}

// compactJSON returns JSON on one line without HTML escapes.
func compactJSON(x any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(x); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
