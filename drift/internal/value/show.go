package value

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// MinShownBytes is the least limit of Show: it has room for the length, the digest and a few
// characters.
const MinShownBytes = 64

// Shown has the two values of a difference for display.
type Shown struct {
	Hub, Member json.RawMessage
	Note        string
}

// Show renders the values of a difference in at most limit bytes each.
func Show(hub, member any, inHub, inMember bool, limit int) Shown {
	var s Shown
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
		s.Note = spaceNote(hub, member)
	}
	if inHub {
		s.Hub = h.within(limit, from)
	}
	if inMember {
		s.Member = m.within(limit, from)
	}
	return s
}

// shownText is a value as JSON, and as a text with lines: a string is its own text, other values
// have their JSON. The JSON of a string that is too long is nil.
type shownText struct {
	json []byte
	text string
}

func textToShow(v any, limit int) shownText {
	s, ok := v.(string)
	if ok && len(s) > limit {
		return shownText{nil, s}
	}
	j := JSON(v)
	if ok {
		return shownText{j, s}
	}
	return shownText{j, string(j)}
}

// within returns the JSON, or a string with the length of the value, its digest, and an excerpt
// from its first difference.
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

// excerptAt returns the line around a byte of a text, from shortly before it to the line's end,
// and its number.
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

// firstDifference returns the first differing byte of two texts, at the beginning of its rune.
func firstDifference(a, b string) int {
	n := min(len(a), len(b))
	i := 0
	for i < n && a[i] == b[i] {
		i++
	}
	return runeStart(a, i)
}

// spaceNote notes that two strings differ in white space alone.
func spaceNote(hub, member any) string {
	h, ok := hub.(string)
	m, also := member.(string)
	if !ok || !also || h == m || !sameButSpace(h, m) {
		return ""
	}
	return "whitespace only"
}

// sameButSpace reports whether two texts are equal without their white space.
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
