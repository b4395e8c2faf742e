package fieldpath

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/drift/internal/value"
)

// Step is one level of a path: a field of a map, or an item of a list.
type Step struct {
	// Name is the key in a map. It is empty where item is true.
	Name string
	Item bool
	// Hub and member are the indexes of an item, -1 on a side without it.
	Hub, Member int
	// Keys identify an item of a keyed list, in the order of the schema; an item of a set has one
	// key without a name. Nil means that the item is identified by its index.
	Keys []value.KeyValue
}

// Side is the object to which the indexes of a path refer.
type Side uint8

// The two objects.
const (
	MemberSide Side = iota
	HubSide
)

// Index returns the index of an item on a side, or on the other side if it is missing there.
func (s Step) Index(at Side) int {
	first, second := s.Member, s.Hub
	if at == HubSide {
		first, second = second, first
	}
	if first < 0 {
		return second
	}
	return first
}

// Pointer returns the RFC 6901 pointer of a path.
func Pointer(path []Step, at Side) string {
	if len(path) == 0 {
		return ""
	}
	var b []byte
	for _, s := range path {
		b = append(b, '/')
		if s.Item {
			b = strconv.AppendInt(b, int64(s.Index(at)), 10)
			continue
		}
		b = appendToken(b, s.Name)
	}
	return string(b)
}

// Describe returns a path for an error: control characters are removed, and a long path is cut.
func Describe(path []Step) string { return value.Printable(Pointer(path, HubSide), value.MaxNameText) }

// appendToken appends a name in the form of RFC 6901.
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

// splitPointer returns the names and indexes of an RFC 6901 pointer, none for the root.
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

// KeyPath returns a path for people, with items named by their keys.
func KeyPath(path []Step) string {
	var b []byte
	for _, s := range path {
		b = AppendStep(b, s)
	}
	return string(b)
}

// AppendStep appends one level of a key path. If items have keys, the result does not depend on
// indexes.
func AppendStep(b []byte, s Step) []byte {
	switch {
	case s.Item && s.Keys == nil:
		b = append(b, '[')
		b = strconv.AppendInt(b, int64(s.Index(MemberSide)), 10)
		return append(b, ']')
	case s.Item:
		return appendSelector(b, s.Keys)
	case isIdentifier(s.Name):
		b = append(b, '.')
		return append(b, s.Name...)
	default:
		b = append(b, '[')
		b = strconv.AppendQuote(b, value.Shorten(s.Name))
		return append(b, ']')
	}
}

func appendSelector(b []byte, keys []value.KeyValue) []byte {
	b = append(b, '[')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		if isIdentifier(k.Name) || k.Name == "" {
			b = append(b, k.Name...)
		} else {
			b = strconv.AppendQuote(b, value.Shorten(k.Name))
		}
		b = append(b, '=')
		b = appendSelected(b, k.Value)
	}
	return append(b, ']')
}

func appendSelected(b []byte, v any) []byte {
	if s, ok := v.(string); ok {
		return strconv.AppendQuote(b, value.Shorten(s))
	}
	text := string(value.AppendCanonical(nil, v))
	if len(text) > value.MaxNameText {
		return strconv.AppendQuote(b, value.Shorten(text))
	}
	return append(b, text...)
}

func isIdentifier(s string) bool {
	if len(s) > value.MaxNameText {
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

// Compare orders paths naturally: by names, with indexes and numbers in names by their value. It
// compares the pointers of both.
func Compare(a []Step, atA Side, b []Step, atB Side) int {
	for i := range min(len(a), len(b)) {
		if c := CompareSteps(a[i], atA, b[i], atB); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// CompareSteps is Compare for one level.
func CompareSteps(a Step, atA Side, b Step, atB Side) int {
	switch {
	case a.Item && b.Item:
		return cmp.Compare(a.Index(atA), b.Index(atB))
	case a.Item:
		return -1
	case b.Item:
		return 1
	case a.Name == b.Name:
		return 0
	}
	return cmp.Or(compareNatural(a.Name, b.Name), strings.Compare(a.Name, b.Name))
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
