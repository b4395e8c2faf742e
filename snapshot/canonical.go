package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// MaxObjectBytes limits the canonical JSON of one object. It is the default limit of an etcd
	// request (1.5 MiB) less 16 KiB for the fields that the API server adds.
	MaxObjectBytes = 1536<<10 - 16<<10
	// MaxDepth limits how deep maps and lists are nested in one object; the object itself is level
	// 1.
	MaxDepth = 128
)

// Canonical returns the canonical JSON of an object: one text for one meaning, whatever the order
// of maps and the Go type of a number.
//
//   - Keys are sorted by their bytes; there is no white space.
//   - Strings are UTF-8 with the shortest escapes: only the quote, the backslash and characters
//     below U+0020 are escaped. Invalid UTF-8 is refused, not replaced.
//   - int64 is written exactly. A float64 that is an integer within int64 is written as that
//     integer, minus zero as 0; any other float64 is written as the shortest text that reads back
//     as the same number, with an exponent outside of [1e-6, 2^63). A json.Number is written as the
//     value it stands for; an integer outside of int64 is refused, since it would lose digits.
//   - A nil map or list is written as null.
//
// Decoding the result with [Decode] and encoding it again gives the same bytes. NaN, infinities,
// Go types that unstructured objects do not use, more than [MaxDepth] levels and more than
// [MaxObjectBytes] are errors. They name the object and the JSON pointer (RFC 6901) of the value,
// never the value.
func Canonical(obj map[string]any) ([]byte, error) {
	return new(encoder).encode(obj)
}

// encoder appends canonical JSON to buf. It is reused from object to object.
type encoder struct {
	buf     []byte
	members []member // a stack: the sorted members of the maps being written
}

type member struct {
	key   string
	value any
}

// encode returns the canonical JSON of an object in a slice of its own.
func (e *encoder) encode(obj map[string]any) ([]byte, error) {
	if obj == nil {
		return nil, errors.New("snapshot: there is no object to encode")
	}
	e.buf, e.members = e.buf[:0], e.members[:0]
	if err := e.object(obj, 1); err != nil {
		return nil, fmt.Errorf("snapshot: %s: %w", idOf(obj), err)
	}
	if err := checkSize(len(e.buf)); err != nil {
		return nil, fmt.Errorf("snapshot: %s: %w", idOf(obj), err)
	}
	return append(make([]byte, 0, len(e.buf)), e.buf...), nil
}

func checkSize(n int) error {
	if n > MaxObjectBytes {
		return fmt.Errorf("the object has %d bytes of JSON, at most %d are allowed", n, MaxObjectBytes)
	}
	return nil
}

func (e *encoder) value(v any, depth int) *valueError {
	switch v := v.(type) {
	case string:
		return e.string(v)
	case map[string]any:
		return e.object(v, depth+1)
	case []any:
		return e.list(v, depth+1)
	case int64:
		e.buf = strconv.AppendInt(e.buf, v, 10)
	case bool:
		e.buf = strconv.AppendBool(e.buf, v)
	case nil:
		e.buf = append(e.buf, "null"...)
	case float64:
		return e.float(v)
	case json.Number:
		return e.number(v)
	default:
		return wrong("a value of type %T: unstructured objects hold map[string]any, []any, string, bool, int64, float64 and nil", v)
	}
	return nil
}

func (e *encoder) object(m map[string]any, depth int) *valueError {
	if m == nil {
		e.buf = append(e.buf, "null"...)
		return nil
	}
	if depth > MaxDepth {
		return wrong("nested deeper than %d levels", MaxDepth)
	}
	from := e.push(m)
	e.buf = append(e.buf, '{')
	for i := range len(m) {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		// The stack may have moved since the last member.
		if err := e.member(e.members[from+i], depth); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, '}')
	e.members = e.members[:from]
	return nil
}

// push puts the members of m on the stack, sorted, and returns the index of the first.
func (e *encoder) push(m map[string]any) int {
	from := len(e.members)
	for k, v := range m {
		e.members = append(e.members, member{k, v})
	}
	slices.SortFunc(e.members[from:], func(a, b member) int { return strings.Compare(a.key, b.key) })
	return from
}

func (e *encoder) member(m member, depth int) *valueError {
	if !utf8.ValidString(m.key) {
		return wrong("a key is not valid UTF-8")
	}
	e.buf = append(appendString(e.buf, m.key), ':')
	return e.value(m.value, depth).at(m.key)
}

func (e *encoder) list(l []any, depth int) *valueError {
	if l == nil {
		e.buf = append(e.buf, "null"...)
		return nil
	}
	if depth > MaxDepth {
		return wrong("nested deeper than %d levels", MaxDepth)
	}
	e.buf = append(e.buf, '[')
	for i, v := range l {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		if err := e.value(v, depth); err != nil {
			return err.at(strconv.Itoa(i))
		}
	}
	e.buf = append(e.buf, ']')
	return nil
}

func (e *encoder) string(s string) *valueError {
	if !utf8.ValidString(s) {
		return wrong("the text is not valid UTF-8")
	}
	e.buf = appendString(e.buf, s)
	return nil
}

// appendString appends valid UTF-8 as a JSON string.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			b = appendEscape(append(b, s[from:i]...), c)
			from = i + 1
		}
	}
	return append(append(b, s[from:]...), '"')
}

func appendEscape(b []byte, c byte) []byte {
	const short, letter, hex = "\b\f\n\r\t\"\\", "bfnrt\"\\", "0123456789abcdef"
	if i := strings.IndexByte(short, c); i >= 0 {
		return append(b, '\\', letter[i])
	}
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

func (e *encoder) float(f float64) *valueError {
	size := math.Abs(f)
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return wrong("NaN and infinities have no JSON form")
	case size < 1<<63 && f == math.Trunc(f):
		e.buf = strconv.AppendInt(e.buf, int64(f), 10)
	case size >= 1e-6 && size < 1<<63:
		e.buf = strconv.AppendFloat(e.buf, f, 'f', -1, 64)
	default:
		e.buf = strconv.AppendFloat(e.buf, f, 'e', -1, 64)
	}
	return nil
}

func (e *encoder) number(n json.Number) *valueError {
	s := string(n)
	if s == "" || (s[0] != '-' && (s[0] < '0' || s[0] > '9')) || !json.Valid([]byte(s)) {
		return wrong("the text of a json.Number is not a JSON number")
	}
	v, err := numberValue(s)
	if err != nil {
		return wrong("%s", err.Error())
	}
	return e.value(v, 0)
}

// numberValue returns the int64 or float64 that the text of a JSON number stands
// for.
func numberValue(s string) (any, error) {
	if !strings.ContainsAny(s, ".eE") {
		i, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, errors.New("the integer does not fit into 64 bits with a sign")
		}
		return i, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, errors.New("the number does not fit into a float64")
	}
	return f, nil
}

// valueError is a problem with a value, and the path of the value.
type valueError struct {
	path    []string // from the value up to the object
	problem string
}

func wrong(format string, args ...any) *valueError {
	return &valueError{problem: fmt.Sprintf(format, args...)}
}

// at adds the key or index of the value in its parent.
func (e *valueError) at(segment string) *valueError {
	if e != nil {
		e.path = append(e.path, segment)
	}
	return e
}

// Error begins with the JSON pointer of the value.
func (e *valueError) Error() string {
	var b strings.Builder
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, segment := range slices.Backward(e.path) {
		b.WriteString("/" + escape.Replace(segment))
	}
	if b.Len() == 0 {
		return e.problem
	}
	return fmt.Sprintf("%q: %s", b.String(), e.problem)
}
