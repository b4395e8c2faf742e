package cli

import (
	"fmt"
	"strconv"
	"strings"
)

// Printable returns text in which what a terminal would obey is written out as an escape of JSON: names and
// messages come from files and clusters. It keeps the ends of lines, and JSON means the same afterwards.
func Printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || strconv.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff: // as two halves, which JSON reads as one character
			fmt.Fprintf(&b, `\u%04x\u%04x`, (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
