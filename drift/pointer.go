package drift

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxKeyText is how many bytes of a name or key a key path shows in full.
const maxKeyText = 512

// side is the object in which the indexes of a path count.
type side uint8

const (
	memberSide side = iota
	hubSide
)

// index returns the place of an item, on the other side where it has none here.
func (s step) index(at side) int {
	first, second := s.member, s.hub
	if at == hubSide {
		first, second = second, first
	}
	if first < 0 {
		return second
	}
	return first
}

// pointerTo returns the RFC 6901 pointer of a path.
func pointerTo(path []step, at side) string {
	if len(path) == 0 {
		return ""
	}
	var b []byte
	for _, s := range path {
		b = append(b, '/')
		if s.item {
			b = strconv.AppendInt(b, int64(s.index(at)), 10)
			continue
		}
		b = appendToken(b, s.name)
	}
	return string(b)
}

// pointer returns the RFC 6901 pointer of a path in the member's object.
func pointer(path []step) string { return pointerTo(path, memberSide) }

// placeOf returns where something is, for an error: what steers a terminal is
// left out, and what is too long is cut.
func placeOf(path []step) string { return printable(pointerTo(path, hubSide), maxKeyText) }

// appendToken appends a name as RFC 6901 writes it.
func appendToken(b []byte, name string) []byte {
	for i := range len(name) {
		switch c := name[i]; c {
		case '~':
			b = append(b, "~0"...)
		case '/':
			b = append(b, "~1"...)
		default:
			b = append(b, c)
		}
	}
	return b
}

// splitPointer returns the names and indexes of an RFC 6901 pointer, none for
// the root.
func splitPointer(s string) ([]string, error) {
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' {
		return nil, errors.New(`a JSON pointer is empty or begins with "/"`)
	}
	tokens := strings.Split(s[1:], "/")
	for i, t := range tokens {
		name, err := unescapeToken(t)
		if err != nil {
			return nil, err
		}
		tokens[i] = name
	}
	return tokens, nil
}

func unescapeToken(t string) (string, error) {
	if !strings.Contains(t, "~") {
		return t, nil
	}
	var b strings.Builder
	for i := 0; i < len(t); i++ {
		if t[i] != '~' {
			b.WriteByte(t[i])
			continue
		}
		i++
		switch {
		case i < len(t) && t[i] == '0':
			b.WriteByte('~')
		case i < len(t) && t[i] == '1':
			b.WriteByte('/')
		default:
			return "", errors.New(`"~" is written "~0", and "/" in a name "~1"`)
		}
	}
	return b.String(), nil
}

// keyPath returns a path for people, with items named by their keys.
func keyPath(path []step) string {
	var b []byte
	for _, s := range path {
		b = appendStep(b, s)
	}
	return string(b)
}

// appendStep appends one level of a key path. What it appends does not depend on
// indexes where an item has keys.
func appendStep(b []byte, s step) []byte {
	switch {
	case s.item && s.keys == nil:
		b = append(b, '[')
		b = strconv.AppendInt(b, int64(s.index(memberSide)), 10)
		return append(b, ']')
	case s.item:
		return appendSelector(b, s.keys)
	case isIdentifier(s.name):
		b = append(b, '.')
		return append(b, s.name...)
	default:
		b = append(b, '[')
		b = strconv.AppendQuote(b, shortened(s.name))
		return append(b, ']')
	}
}

func appendSelector(b []byte, keys []keyValue) []byte {
	b = append(b, '[')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		if isIdentifier(k.name) || k.name == "" {
			b = append(b, k.name...)
		} else {
			b = strconv.AppendQuote(b, shortened(k.name))
		}
		b = append(b, '=')
		b = appendSelected(b, k.value)
	}
	return append(b, ']')
}

func appendSelected(b []byte, v any) []byte {
	if s, ok := v.(string); ok {
		return strconv.AppendQuote(b, shortened(s))
	}
	text := string(appendDigestible(nil, v))
	if len(text) > maxKeyText {
		return strconv.AppendQuote(b, shortened(text))
	}
	return append(b, text...)
}

// shortened keeps a name of unreasonable length out of reports: its beginning
// and a digest tell it apart.
func shortened(s string) string {
	if len(s) <= maxKeyText {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return cut(s, 64) + "... sha256 " + hex.EncodeToString(sum[:8])
}

func isIdentifier(s string) bool {
	if len(s) > maxKeyText {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// comparePaths orders paths as people count: by names, indexes and numbers in
// names by their value. It compares what the pointers of both show.
func comparePaths(a []step, atA side, b []step, atB side) int {
	for i := range min(len(a), len(b)) {
		if c := compareSteps(a[i], atA, b[i], atB); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func compareSteps(a step, atA side, b step, atB side) int {
	switch {
	case a.item && b.item:
		return cmp.Compare(a.index(atA), b.index(atB))
	case a.item:
		return -1
	case b.item:
		return 1
	case a.name == b.name:
		return 0
	}
	return cmp.Or(compareNatural(a.name, b.name), strings.Compare(a.name, b.name))
}

// compareNatural compares runs of digits by their value.
func compareNatural(a, b string) int {
	for a != "" && b != "" {
		if !isDigit(a[0]) || !isDigit(b[0]) {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		var x, y string
		x, a = cutDigits(a)
		y, b = cutDigits(b)
		if c := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// cutDigits cuts the digits that s begins with, without leading zeros.
func cutDigits(s string) (digits, rest string) {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return strings.TrimLeft(s[:n], "0"), s[n:]
}

// pattern is a pointer with wildcards and key selectors.
type pattern []segment

// segment is a level of a pattern: a name or index, or any, or an item by keys.
type segment struct {
	any  bool
	name string
	keys []selected
}

// selected is a key of an item and the text of its value. The name is empty for
// an item of a set.
type selected struct{ name, text string }

// parsePattern reads a pointer in which * is any name or index, and
// [name=app,protocol="UDP"] an item with these values, [=a] an item of a set.
func parsePattern(s string) (pattern, error) {
	tokens, err := splitPointer(s)
	if err != nil {
		return nil, err
	}
	p := make(pattern, len(tokens))
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
	wrong := fmt.Errorf(`%q is no item of a list: want for example [name=app] or [containerPort=80,protocol="UDP"]`, shortened(t))
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

// cutValue cuts a value, quoted or not, up to a comma or the end.
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

// matches tells whether a step is what the segment names. hub and member are the
// values that the step leads to.
func (g segment) matches(s step, hub, member any) bool {
	switch {
	case g.any:
		return true
	case !s.item:
		return g.keys == nil && g.name == s.name
	case g.keys == nil:
		return isIndex(g.name, s.member) || s.member < 0 && isIndex(g.name, s.hub)
	}
	for _, k := range g.keys {
		if !k.matches(s, hub, member) {
			return false
		}
	}
	return true
}

// matchesEither also takes an index for that on the hub, where it is another one.
func (g segment) matchesEither(s step, hub, member any) bool {
	return g.matches(s, hub, member) || s.item && g.keys == nil && isIndex(g.name, s.hub)
}

func isIndex(name string, index int) bool {
	return index >= 0 && name == strconv.Itoa(index)
}

// matches looks at the keys that the schema names, then at the item itself.
func (k selected) matches(s step, hub, member any) bool {
	for _, known := range s.keys {
		if known.name == k.name {
			return textOf(known.value) == k.text
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

// textOf is a plain value as a selector writes it.
func textOf(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(jsonOf(v))
}
