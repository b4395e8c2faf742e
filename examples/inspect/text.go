package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// columns is how wide text is.
const columns = 80

// page is where output goes. The first error that writing brings is kept.
type page struct {
	out io.Writer
	err error
}

func (p *page) write(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.out, text)
	}
}

// object prints a value as a line of JSON.
func (p *page) object(v any) {
	b, err := json.Marshal(v)
	if p.err = cmp.Or(p.err, err); err == nil {
		p.write(clean(string(b)) + "\n")
	}
}

// para prints text on lines that fit, all but the first indented by indent
// more than the text itself is.
func (p *page) para(indent int, text string) {
	text = clean(text)
	lead := text[:len(text)-len(strings.TrimLeft(text, " "))]
	row, width := "", 0
	for part := range strings.SplitSeq(text[len(lead):], " ") {
		n := utf8.RuneCountInString(part)
		switch {
		case row == "":
			row, width = lead+part, len(lead)+n
		case width+1+n > columns:
			p.write(strings.TrimRight(row, " ") + "\n")
			row, width = lead+strings.Repeat(" ", indent)+part, len(lead)+indent+n
		default:
			row, width = row+" "+part, width+1+n
		}
	}
	p.write(strings.TrimRight(row, " ") + "\n")
}

// head prints a head line, behind an empty line where something is above it.
func (p *page) head(format string, args ...any) {
	p.write("\n")
	p.para(2, fmt.Sprintf(format, args...))
}

// field prints a name with what it stands for, if that is not empty.
func (p *page) field(name, text string) {
	if text != "" {
		p.para(13, fmt.Sprintf("%-12s %s", name, text))
	}
}

// row is a row of a table, with remarks on lines of their own below it.
type row struct {
	cells   []string
	remarks []string
}

// table sets rows in columns where that fits, and as a paragraph for each row
// where it does not. It is indented by two.
func (p *page) table(head []string, rows []row) {
	for i := range rows {
		for j := range rows[i].cells {
			rows[i].cells[j] = clean(rows[i].cells[j])
		}
	}
	widths, total := widthsOf(head, rows)
	if total > columns {
		p.blocks(head, rows)
		return
	}
	p.cells(widths, head)
	for _, r := range rows {
		p.cells(widths, r.cells)
		p.remarks(r)
	}
}

func widthsOf(head []string, rows []row) (widths []int, total int) {
	widths = make([]int, len(head))
	for i, h := range head {
		widths[i] = len(h)
		for _, r := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r.cells[i]))
		}
		total += 2 + widths[i]
	}
	return widths, total
}

func (p *page) cells(widths []int, cells []string) {
	var b strings.Builder
	for i, c := range cells {
		fmt.Fprintf(&b, "  %-*s", widths[i], c)
	}
	p.write(strings.TrimRight(b.String(), " ") + "\n")
}

func (p *page) blocks(head []string, rows []row) {
	for _, r := range rows {
		p.para(4, "  "+r.cells[0])
		var parts []string
		for i, c := range r.cells[1:] {
			if c != "" && c != "-" {
				parts = append(parts, head[i+1]+" "+c)
			}
		}
		p.para(2, "    "+strings.Join(parts, ", "))
		p.remarks(r)
	}
}

func (p *page) remarks(r row) {
	for _, text := range r.remarks {
		p.para(2, "    "+text)
	}
}

// clean makes visible what could do something to a terminal. What is in a
// store may come from anywhere. In JSON the result means the same.
func clean(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case strconv.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			high := (r-0x10000)>>10 + 0xd800
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, (r-0x10000)&0x3ff+0xdc00)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// moment writes a time, "-" for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.DateTime)
}

// size writes a number of bytes.
func size(n int64) string {
	if n < 1<<10 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, unit := float64(n)/(1<<10), "KiB"
	if f >= 1<<10 {
		f, unit = f/(1<<10), "MiB"
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " " + unit
}

// count writes a number of things of a kind.
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

// shorten cuts a digest to what a person compares.
func shorten(digest string) string { return digest[:min(12, len(digest))] }

// joined puts the parts that are not empty together.
func joined(separator string, parts ...string) string {
	var out []string
	for _, part := range parts {
		if part != "" {
			out = append(out, part)
		}
	}
	return strings.Join(out, separator)
}
