package drift

import (
	"crypto/sha256"
	"encoding/hex"
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

// maxShownDepth is how many levels of a value are shown. No object that is
// compared has as many.
const maxShownDepth = 256

// writer appends values as JSON.
type writer struct {
	buf []byte
	// byValue writes numbers that are the same in the same way, so that the text
	// may be compared; otherwise they are written as they came.
	byValue bool
}

// jsonOf returns a value as it is shown: one line of JSON with sorted keys.
// Numbers keep their digits and < its form; characters that steer a terminal are
// escaped. What is not JSON, such as NaN, becomes a string.
func jsonOf(v any) []byte {
	var w writer
	w.value(v, 0)
	return w.buf
}

// appendDigestible appends a value in the same bytes whenever it means the same.
func appendDigestible(b []byte, v any) []byte {
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
		// Minus zero is 0.
		w.buf = strconv.AppendInt(w.buf, int64(f), 10)
	default:
		w.buf = strconv.AppendFloat(w.buf, f, 'g', -1, 64)
	}
}

// number writes the text of a number that a decoder left alone.
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

// other writes what a decoder of JSON does not make, but a program may.
func (w *writer) other(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		w.buf = appendText(w.buf, fmt.Sprintf("(a value of type %T)", v))
		return
	}
	w.buf = append(w.buf, text...)
}

// appendText appends a string as JSON. Unlike package json it escapes every
// character that steers a terminal or the direction of text, and leaves < alone.
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

// shown is how the two values of a difference are shown.
type shown struct {
	hub, member json.RawMessage
	note        string
}

// show renders the values of a difference in at most limit bytes each.
func show(hub, member any, inHub, inMember bool, limit int) shown {
	var s shown
	var h, m shownText
	if inHub {
		h = textToShow(hub, limit)
	}
	if inMember {
		m = textToShow(member, limit)
	}
	from := 0
	if inHub && inMember {
		from = firstDifference(h.text, m.text)
		s.note = spaceNote(hub, member)
	}
	if inHub {
		s.hub = h.within(limit, from)
	}
	if inMember {
		s.member = m.within(limit, from)
	}
	return s
}

// shownText is a value as JSON, and as the text that has lines: a string is
// its own, anything else its JSON. The JSON of a string that is too long is nil.
type shownText struct {
	json []byte
	text string
}

func textToShow(v any, limit int) shownText {
	s, ok := v.(string)
	if ok && len(s) > limit {
		return shownText{nil, s}
	}
	j := jsonOf(v)
	if ok {
		return shownText{j, s}
	}
	return shownText{j, string(j)}
}

// within returns the JSON, or a string that says how long the value is, its
// digest, and what stands where it begins to differ.
func (t shownText) within(limit, from int) json.RawMessage {
	if t.json != nil && len(t.json) <= limit {
		return t.json
	}
	sum := sha256.Sum256([]byte(t.text))
	line, excerpt := excerptAt(t.text, from)
	head := fmt.Sprintf("%d bytes, sha256 %s, line %d: ", len(t.text), hex.EncodeToString(sum[:8]), line)
	for excerpt = cut(excerpt, limit); ; {
		whole := appendText(nil, head+string(appendText(nil, excerpt)))
		over := len(whole) - limit
		if over <= 0 || excerpt == "" {
			return whole
		}
		excerpt = cut(excerpt, max(0, len(excerpt)-max(1, over/4)))
	}
}

// excerptAt returns the line around a byte of a text, from shortly before it to
// the line's end, and its number.
func excerptAt(text string, at int) (line int, excerpt string) {
	const before = 24
	at = min(at, len(text))
	begin := strings.LastIndexByte(text[:at], '\n') + 1
	line = 1 + strings.Count(text[:begin], "\n")
	end := len(text)
	if n := strings.IndexByte(text[at:], '\n'); n >= 0 {
		end = at + n
	}
	if at-begin <= before {
		return line, text[begin:end]
	}
	return line, "..." + text[runeStart(text, at-before):end]
}

// firstDifference returns the first byte in which two texts differ, at the
// beginning of its rune.
func firstDifference(a, b string) int {
	n := min(len(a), len(b))
	i := 0
	for i < n && a[i] == b[i] {
		i++
	}
	return runeStart(a, i)
}

// runeStart returns the beginning of the rune that byte i is in.
func runeStart(s string, i int) int {
	for back := 0; i > 0 && i < len(s) && !utf8.RuneStart(s[i]) && back < utf8.UTFMax; back++ {
		i--
	}
	return i
}

// cut returns at most n bytes of s, whole runes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:runeStart(s, n)]
}

// spaceNote says that two strings differ in white space alone.
func spaceNote(hub, member any) string {
	h, ok := hub.(string)
	m, also := member.(string)
	if !ok || !also || h == m || !sameButSpace(h, m) {
		return ""
	}
	return "whitespace only"
}

// sameButSpace tells whether two texts are the same without their white space.
func sameButSpace(a, b string) bool {
	for {
		n := firstDifference(a, b)
		x, y := strings.TrimLeftFunc(a[n:], unicode.IsSpace), strings.TrimLeftFunc(b[n:], unicode.IsSpace)
		if x == "" || y == "" {
			return x == y
		}
		if n+len(x) == len(a) && n+len(y) == len(b) {
			return false
		}
		a, b = x, y
	}
}
