package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// The measures of the picture, in pixels, and the time of a frame, in seconds. The last frame stays
// longer.
const (
	cellWidth, cellHeight = 8.4, 18.0
	margin                = 12.0
	frameTime, lastTime   = 0.4, 4.0
)

// look has the colours of a terminal with a dark background. In print, and for readers who want no
// motion, the last frame is shown.
const look = `rect{fill:#0d1117}text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e6edf3;white-space:pre}` +
	`.b{font-weight:700}.f{fill:#8b949e}.red{fill:#ff7b72}.green{fill:#3fb950}.yellow{fill:#d29922}.cyan{fill:#39c5cf}`

// draw returns frames of coloured text as an animated SVG. Equal lines are stored once.
func draw(title string, frames []string) []byte {
	names := map[string]string{}
	var lines, film bytes.Buffer
	for i, frame := range frames {
		fmt.Fprintf(&film, `<g transform="translate(0 %g)">`, float64(i)*height())
		for row, line := range strings.Split(strings.TrimRight(frame, "\n"), "\n") {
			if line == "" {
				continue
			}
			name, known := names[line]
			if !known {
				name = fmt.Sprint("l", len(names))
				names[line] = name
				fmt.Fprintf(&lines, `<text id="%s">%s</text>`+"\n", name, spans(line))
			}
			fmt.Fprintf(&film, `<use href="#%s" x="%g" y="%g"/>`, name, margin, margin+(float64(row)+0.8)*cellHeight)
		}
		film.WriteString("</g>\n")
	}
	var out bytes.Buffer
	width := columns*cellWidth + 2*margin
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]g" height="%[2]g" viewBox="0 0 %[1]g %[2]g" role="img"><title>%[3]s</title>`+"\n", width, height(), escape(title))
	fmt.Fprintf(&out, "<style>%s%s</style>\n<defs>\n%s</defs>\n<rect width=\"100%%\" height=\"100%%\" rx=\"8\"/>\n<g class=\"film\">\n%s</g>\n</svg>\n", look, motion(len(frames)), lines.String(), film.String())
	return out.Bytes()
}

// height is the height of a frame.
func height() float64 { return rows*cellHeight + 2*margin }

// motion moves the film by one frame at a time.
func motion(n int) string {
	whole := float64(n-1)*frameTime + lastTime
	var keys strings.Builder
	for i := range n {
		fmt.Fprintf(&keys, "%.3f%%{transform:translateY(%gpx)}", 100*float64(i)*frameTime/whole, -float64(i)*height())
	}
	last := -float64(n-1) * height()
	return fmt.Sprintf("@keyframes film{%s}.film{animation:film %gs step-end infinite}"+
		"@media(prefers-reduced-motion:reduce),print{.film{animation:none;transform:translateY(%gpx)}}", keys.String(), whole, last)
}

// classes are the classes of the escape sequences that a frame has.
var classes = map[string]string{"1": "b", "2": "f", "31": "red", "32": "green", "33": "yellow", "36": "cyan"}

// spans returns a line as text elements. A piece with a colour begins at its own column, because
// fonts draw some marks wider than a column.
func spans(line string) string {
	var out strings.Builder
	class, column := "", 0
	for line != "" {
		if rest, isCode := strings.CutPrefix(line, "\x1b["); isCode {
			code, after, _ := strings.Cut(rest, "m")
			class, line = classOf(code), after
			continue
		}
		piece := line
		if i := strings.IndexByte(line, '\x1b'); i >= 0 {
			piece = line[:i]
		}
		line = line[len(piece):]
		if text := strings.TrimLeft(piece, " "); text != "" {
			at := float64(column+len(piece)-len(text)) * cellWidth
			fmt.Fprintf(&out, `<tspan x="%.4g"`, at)
			if class != "" {
				fmt.Fprintf(&out, ` class="%s"`, class)
			}
			fmt.Fprintf(&out, ">%s</tspan>", escape(strings.TrimRight(text, " ")))
		}
		column += utf8.RuneCountInString(piece)
	}
	return out.String()
}

// classOf returns the classes of an escape sequence, "" if it ends all colours.
func classOf(code string) string {
	out := map[string]bool{}
	for c := range strings.SplitSeq(code, ";") {
		if class := classes[c]; class != "" {
			out[class] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(out)), " ")
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder takes everything
	return b.String()
}
