package values

import (
	"unicode/utf8"

	"github.com/slipway-dev/slipway/approval"
)

// Cut limits a text to limit bytes, and marks a text that it has cut.
func Cut(m string, limit int) string {
	m = Clean(m)
	if len(m) <= limit {
		return m
	}
	end := limit - len("…")
	for end > 0 && m[end]&0xC0 == 0x80 {
		end--
	}
	return m[:end] + "…"
}

// Clean returns a text as JSON stores it: invalid UTF-8 is replaced.
func Clean(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// CleanIdentity returns an identity as JSON stores it.
func CleanIdentity(i approval.Identity) approval.Identity {
	i.Name, i.Groups = Clean(i.Name), append([]string(nil), i.Groups...)
	for j := range i.Groups {
		i.Groups[j] = Clean(i.Groups[j])
	}
	return i
}
