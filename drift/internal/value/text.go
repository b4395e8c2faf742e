package value

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// cut returns at most n bytes of s, whole runes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:runeStart(s, n)]
}

// runeStart returns the beginning of the rune that contains byte i.
func runeStart(s string, i int) int {
	for back := 0; i > 0 && i < len(s) && !utf8.RuneStart(s[i]) && back < utf8.UTFMax; back++ {
		i--
	}
	return i
}

// Printable returns a text from a member without control characters and of at most limit bytes.
func Printable(s string, limit int) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return '.'
	}, cut(s, limit))
}

// MaxNameText is the maximum length in bytes of a name or key that a key path shows in full.
const MaxNameText = 512

// Shorten limits the length of a name in reports: a long name becomes its beginning and a digest,
// so that it stays unique.
func Shorten(s string) string {
	if len(s) <= MaxNameText {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return cut(s, 64) + "... sha256 " + hex.EncodeToString(sum[:8])
}
