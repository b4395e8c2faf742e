package value

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxShownDepth is the maximum number of shown levels of a value. No compared object has as many.
const maxShownDepth = 256

// writer appends values as JSON.
type writer struct {
	buf []byte
	// byValue writes equal numbers in the same way, so that the text may be compared; otherwise
	// numbers keep their text.
	byValue bool
}

// JSON returns a value for display: one line of JSON with sorted keys. Numbers keep their digits,
// and < is not escaped; control characters are escaped. A value that is not JSON, such as NaN,
// becomes a string.
func JSON(v any) []byte {
	var w writer
	w.value(v, 0)
	return w.buf
}

// AppendCanonical appends the same bytes for equal values.
func AppendCanonical(b []byte, v any) []byte {
	w := writer{buf: b, byValue: true}
	w.value(v, 0)
	return w.buf
}

func (w *writer) value(v any, depth int) {
	switch v := v.(type) {
	case nil:
		w.buf = append(w.buf, "null"...)
	case string:
		w.buf = appendText(w.buf, v)
	case bool:
		w.buf = strconv.AppendBool(w.buf, v)
	case int64:
		w.buf = strconv.AppendInt(w.buf, v, 10)
	case float64:
		w.float(v)
	case json.Number:
		w.number(string(v))
	case map[string]any:
		w.object(v, depth+1)
	case []any:
		w.list(v, depth+1)
	default:
		w.other(v)
	}
}

func (w *writer) object(m map[string]any, depth int) {
	if depth > maxShownDepth {
		w.buf = appendText(w.buf, "(too deep)")
		return
	}
	w.buf = append(w.buf, '{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		w.buf = append(appendText(w.buf, k), ':')
		w.value(m[k], depth)
	}
	w.buf = append(w.buf, '}')
}

func (w *writer) list(l []any, depth int) {
	if depth > maxShownDepth {
		w.buf = appendText(w.buf, "(too deep)")
		return
	}
	w.buf = append(w.buf, '[')
	for i, item := range l {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		w.value(item, depth)
	}
	w.buf = append(w.buf, ']')
}

func (w *writer) float(f float64) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		w.buf = appendText(w.buf, strconv.FormatFloat(f, 'g', -1, 64))
	case f == math.Trunc(f) && math.Abs(f) < 1<<63:
		// Minus zero is written as 0.
		w.buf = strconv.AppendInt(w.buf, int64(f), 10)
	default:
		w.buf = strconv.AppendFloat(w.buf, f, 'g', -1, 64)
	}
}

// number writes the text of a number that a decoder left undecoded.
func (w *writer) number(s string) {
	if !json.Valid([]byte(s)) || !strings.ContainsRune("-0123456789", rune(s[0])) {
		w.buf = appendText(w.buf, s)
		return
	}
	if !w.byValue || !strings.ContainsAny(s, ".eE") && s != "-0" {
		w.buf = append(w.buf, s...)
		return
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		w.buf = append(w.buf, s...)
		return
	}
	w.float(f)
}

// other writes a value that no JSON decoder makes, but a program may.
func (w *writer) other(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		w.buf = appendText(w.buf, fmt.Sprintf("(a value of type %T)", v))
		return
	}
	w.buf = append(w.buf, text...)
}

// appendText appends a string as JSON. Unlike package json it escapes every character that
// controls a terminal or the direction of text, and does not escape <.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		if c := s[i]; ' ' <= c && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r >= 0xa0 && n > 1 && !unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			i += n
			continue
		}
		b = append(b, s[from:i]...)
		b = appendEscaped(b, r)
		i += n
		from = i
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}

func appendEscaped(b []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(b, '\\', byte(r))
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	if r > 0xffff {
		high, low := utf16.EncodeRune(r)
		return appendUnit(appendUnit(b, high), low)
	}
	return appendUnit(b, r)
}

func appendUnit(b []byte, u rune) []byte {
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[u>>12&15], digits[u>>8&15], digits[u>>4&15], digits[u&15])
}
