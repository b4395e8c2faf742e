package cli

import (
	"fmt"
	"io"
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

// Lines writes text line by line, with nothing in it that a terminal would obey, and keeps the first error.
type Lines struct {
	Out io.Writer
	Err error
}

// Printf writes a line. Blanks at its end are left out.
func (l *Lines) Printf(format string, args ...any) {
	if l.Err != nil {
		return
	}
	line := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", `\n`)
	_, l.Err = io.WriteString(l.Out, strings.TrimRight(Printable(line), " ")+"\n")
}
