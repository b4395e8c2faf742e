package main

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// style is how a piece of text looks.
type style int

const (
	plain style = iota
	bold
	faint
	red
	green
	yellow
	// markStyle and those after it are marks: sign and colour of mark i.
	markStyle
)

// span is text in one style; line is a line on the screen.
type (
	span struct {
		style style
		text  string
	}
	line []span
)

// span returns the sign of a mark. Its text is as wide as what a palette puts
// in its place.
func (m mark) span() span { return span{markStyle + style(m), "."} }

func (l line) width() int {
	n := 0
	for _, s := range l {
		n += utf8.RuneCountInString(s.text)
	}
	return n
}

// palette turns lines into what the terminal understands.
type palette struct {
	color bool
	// signs are those of the marks, one column each; more stands where
	// something was cut off.
	signs []rune
	more  rune
}

// newPalette reads what the environment says about the terminal.
func newPalette(getenv func(string) string) palette {
	p := palette{color: getenv("NO_COLOR") == "", signs: []rune(".>?+-x"), more: '>'}
	locale := strings.ToLower(cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")))
	if strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8") {
		p.signs, p.more = []rune("○▶?✓-✗"), '…'
	}
	return p
}

var markColors = []style{faint, yellow, yellow, green, faint, red}

var colorCodes = map[style]string{bold: "1", faint: "2", red: "31", green: "32", yellow: "33"}

// render returns a line that is at most width columns wide, without line
// breaks and control characters.
func (p palette) render(l line, width int) string {
	var out strings.Builder
	for i, s := range l {
		if s.style >= markStyle {
			m := s.style - markStyle
			s = span{markColors[m], string(p.signs[m])}
		}
		text := []rune(strings.Map(printable, s.text))
		if rest := l[i+1:].width(); len(text) > width || rest > 0 && len(text) == width {
			text = append(text[:max(0, min(len(text), width-1))], p.more)[:min(width, len(text)+1)]
			p.write(&out, s.style, string(text))
			break
		}
		width -= len(text)
		p.write(&out, s.style, string(text))
	}
	return strings.TrimRight(out.String(), " ")
}

func (p palette) write(out *strings.Builder, s style, text string) {
	if code := colorCodes[s]; p.color && code != "" && text != "" {
		out.WriteString("\x1b[" + code + "m" + text + "\x1b[0m")
		return
	}
	out.WriteString(text)
}

// printable replaces what a terminal would act upon.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}

// wrap breaks text between words into lines of at most width columns; all but
// the first are indented.
func wrap(text string, width int) []line {
	var out []line
	current := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case current == "":
			current = word
		case utf8.RuneCountInString(current)+1+utf8.RuneCountInString(word) <= width:
			current += " " + word
		default:
			out, current = append(out, line{{plain, current}}), "  "+word
		}
	}
	return append(out, line{{plain, current}})
}
