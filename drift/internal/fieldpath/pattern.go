package fieldpath

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/drift/internal/value"
)

// Pattern is a pointer with wildcards and key selectors.
type Pattern []Segment

// Segment is a level of a pattern: a name or index, a wildcard, or an item by keys.
type Segment struct {
	any  bool
	name string
	keys []selected
}

// selected is a key of an item and the text of its value. The name is empty for an item of a set.
type selected struct{ name, text string }

// ParsePattern parses a pointer. * stands for any name or index, [name=app,protocol="UDP"] for an
// item with these values, and [=a] for an item of a set.
func ParsePattern(s string) (Pattern, error) {
	tokens, err := splitPointer(s)
	if err != nil {
		return nil, err
	}
	p := make(Pattern, len(tokens))
	for i, t := range tokens {
		switch {
		case t == "*":
			p[i].any = true
		case strings.HasPrefix(t, "["):
			if p[i].keys, err = parseSelector(t); err != nil {
				return nil, err
			}
		default:
			p[i].name = t
		}
	}
	return p, nil
}

func parseSelector(t string) ([]selected, error) {
	wrong := fmt.Errorf(`%q is no item of a list: want for example [name=app] or [containerPort=80,protocol="UDP"]`, value.Shorten(t))
	rest, ok := strings.CutSuffix(t[1:], "]")
	if !ok {
		return nil, wrong
	}
	var keys []selected
	for {
		name, value, ok := strings.Cut(rest, "=")
		if !ok {
			return nil, wrong
		}
		text, after, ok := cutValue(value)
		if !ok {
			return nil, wrong
		}
		keys = append(keys, selected{name, text})
		if after == "" {
			return keys, nil
		}
		rest = after[1:]
	}
}

// cutValue cuts off a value, quoted or not, up to a comma or the end.
func cutValue(s string) (text, after string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		n := strings.IndexByte(s, ',')
		if n < 0 {
			n = len(s)
		}
		return s[:n], s[n:], true
	}
	quoted, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", "", false
	}
	text, err = strconv.Unquote(quoted)
	after = s[len(quoted):]
	return text, after, err == nil && (after == "" || after[0] == ',')
}

// Matches reports whether the segment matches a step. hub and member are the values at the step.
func (g Segment) Matches(s Step, hub, member any) bool {
	switch {
	case g.any:
		return true
	case !s.Item:
		return g.keys == nil && g.name == s.Name
	case g.keys == nil:
		return isIndex(g.name, s.Member) || s.Member < 0 && isIndex(g.name, s.Hub)
	}
	for _, k := range g.keys {
		if !k.matches(s, hub, member) {
			return false
		}
	}
	return true
}

// MatchesEither is Matches, but also accepts a different index on the hub.
func (g Segment) MatchesEither(s Step, hub, member any) bool {
	return g.Matches(s, hub, member) || s.Item && g.keys == nil && isIndex(g.name, s.Hub)
}

func isIndex(name string, index int) bool {
	return index >= 0 && name == strconv.Itoa(index)
}

// matches compares with the keys in the schema, then with the item itself.
func (k selected) matches(s Step, hub, member any) bool {
	for _, known := range s.Keys {
		if known.Name == k.name {
			return textOf(known.Value) == k.text
		}
	}
	item := member
	if item == nil {
		item = hub
	}
	if k.name == "" {
		return item != nil && textOf(item) == k.text
	}
	fields, _ := item.(map[string]any)
	value, ok := fields[k.name]
	return ok && textOf(value) == k.text
}

// textOf returns a plain value in the form of a selector.
func textOf(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(value.JSON(v))
}
