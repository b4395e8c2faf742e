package drift_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// keyStep is a level of a key path: a field, or an item. An item has its index or some keys; an
// item of a set has one key without a name.
type keyStep struct {
	name string
	item bool
	keys map[string]string
}

// parseKeyPath reads .spec.parts[name="a"].labels["b/c"][3].
func parseKeyPath(path string) (steps []keyStep, err error) {
	for rest := path; rest != ""; {
		var s keyStep
		switch {
		case rest[0] == '.':
			end := strings.IndexAny(rest[1:], ".[")
			if end < 0 {
				end = len(rest) - 1
			}
			s.name, rest = rest[1:end+1], rest[end+1:]
		case strings.HasPrefix(rest, `["`):
			quoted, err := strconv.QuotedPrefix(rest[1:])
			if err != nil {
				return nil, err
			}
			if s.name, err = strconv.Unquote(quoted); err != nil {
				return nil, err
			}
			if rest = rest[1+len(quoted):]; rest[0] != ']' {
				return nil, fmt.Errorf("%q: want ]", rest)
			}
			rest = rest[1:]
		default:
			if s, rest, err = parseItem(rest); err != nil {
				return nil, err
			}
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// parseItem reads [name="a",id=2], [="x"] or [3].
func parseItem(text string) (s keyStep, rest string, err error) {
	s, rest = keyStep{item: true, keys: map[string]string{}}, text[1:]
	for {
		end := strings.IndexAny(rest, "=]")
		if end < 0 {
			return s, "", fmt.Errorf("%q has no end", text)
		}
		if rest[end] == ']' {
			s.name = rest[:end]
			return s, rest[end+1:], nil
		}
		name := rest[:end]
		rest = rest[end+1:]
		value := rest[:max(strings.IndexAny(rest, ",]"), 0)]
		if strings.HasPrefix(rest, `"`) {
			if value, err = strconv.QuotedPrefix(rest); err != nil {
				return s, "", err
			}
		}
		rest = rest[len(value):]
		s.keys[name] = value
		if rest[0] == ']' {
			return s, rest[1:], nil
		}
		rest = rest[1:]
	}
}

// parent returns the value at a key path without its last step, and the last step.
func (t *tree) parent(test *testing.T, path string) (*tree, keyStep) {
	test.Helper()
	steps, err := parseKeyPath(path)
	if err != nil || len(steps) == 0 {
		test.Fatalf("%q is no key path: %v", path, err)
	}
	for _, s := range steps[:len(steps)-1] {
		if t = t.follow(s); t == nil {
			test.Fatalf("%q leads nowhere on the member", path)
		}
	}
	return t, steps[len(steps)-1]
}

func (t *tree) follow(s keyStep) *tree {
	if !s.item {
		return t.fields[s.name]
	}
	if i, err := strconv.Atoi(s.name); err == nil && i < len(t.items) {
		return t.items[i]
	}
	for _, item := range t.items {
		if item.has(s.keys) {
			return item
		}
	}
	return nil
}

// has reports whether an item has these keys and, of the keys that may be absent,
// no other.
func (t *tree) has(keys map[string]string) bool {
	for name, want := range keys {
		key := t.fields[name]
		if key == nil && want == "null" {
			continue
		}
		if key == nil {
			return false
		}
		if text, ok := key.value.(string); ok && strconv.Quote(text) == want {
			continue
		}
		if compact(key.value) != want {
			return false
		}
	}
	_, named := keys["zone"]
	return named || t.fields["zone"] == nil
}

// objectsOf decodes JSON as apimachinery does, with wide numbers exact.
func objectsOf(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return narrow(v), err
}

func narrow(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = narrow(v[name])
		}
	case []any:
		for i := range v {
			v[i] = narrow(v[i])
		}
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return f
		}
	}
	return v
}
