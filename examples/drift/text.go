package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slipway-dev/slipway/drift"
)

// columns is how wide text is.
const columns = 80

// page is where text goes. The first error that writing brings is kept.
type page struct {
	out io.Writer
	err error
}

// print prints text on lines that fit, all but the first indented. It breaks
// between words, and a word that is longer than a line where the line ends.
func (p *page) print(lead string, indent int, text string) {
	row := lead
	for i, word := range strings.Split(clean(text), " ") {
		switch n := utf8.RuneCountInString(row) + utf8.RuneCountInString(word); {
		case i == 0:
		case n+1 <= columns:
			row += " "
		default:
			p.line(row)
			row = strings.Repeat(" ", indent)
		}
		row += word
		for utf8.RuneCountInString(row) > columns {
			runes := []rune(row)
			p.line(string(runes[:columns]))
			row = strings.Repeat(" ", indent) + string(runes[columns:])
		}
	}
	p.line(row)
}

func (p *page) line(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.out, strings.TrimRight(text, " ")+"\n")
	}
}

// results prints all objects and a summary.
func (p *page) results(found results) {
	for i := range found.all {
		p.report(&found.all[i].Report)
	}
	p.line("")
	p.print("", 0, summary(found))
}

func (p *page) report(r *drift.Report) {
	p.print("", 4, title(r)+": "+verdict(r))
	for i := range r.Differences {
		if r.Differences[i].Path != "" {
			p.difference(&r.Differences[i])
		}
	}
	if rest := r.Total - len(r.Differences); rest > 0 {
		p.line(fmt.Sprintf("  and %d more that are not shown", rest))
	}
	for _, w := range r.Warnings {
		p.print("  warning: ", 4, w)
	}
}

func title(r *drift.Report) string {
	version, name := r.Version, r.Name
	if r.Group != "" {
		version = r.Group + "/" + version
	}
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	return version + " " + r.Kind + " " + name
}

func verdict(r *drift.Report) string {
	switch r.State {
	case drift.Absent:
		return "missing on the member"
	case drift.Terminating:
		return "being deleted on the member, " + differences(r.Total)
	}
	return differences(r.Total)
}

func differences(n int) string {
	switch n {
	case 0:
		return "no difference"
	case 1:
		return "1 difference"
	}
	return strconv.Itoa(n) + " differences"
}

func (p *page) difference(d *drift.Difference) {
	path := d.KeyPath
	if path == "" {
		path = d.Path
	}
	what := words(d.Class)
	if d.Note != "" {
		what += " (" + d.Note + ")"
	}
	p.print("  ", 6, path+": "+what)
	if len(d.Hub) > 0 {
		p.print("    hub     ", 12, string(d.Hub))
	}
	if len(d.Member) > 0 {
		p.print("    member  ", 12, string(d.Member))
	}
	if d.AtomicPath != "" {
		p.print("    in      ", 12, d.AtomicPath+", which is applied as a whole")
	}
	if d.Owner != nil {
		p.print("    by      ", 12, author(d.Owner))
	}
}

// words says what a class means.
func words(c drift.Class) string {
	switch c {
	case drift.Changed:
		return "changed"
	case drift.Missing:
		return "missing on the member"
	case drift.Stale:
		return "stale, the hub has it no longer"
	case drift.Order:
		return "in another order"
	case drift.Unmanaged:
		return "on the member only"
	}
	return string(c)
}

// author says who wrote a field, how and when.
func author(o *drift.Owner) string {
	how := o.Operation
	if o.Subresource != "" {
		how = strings.TrimSpace(how + " of " + o.Subresource)
	}
	text := o.Manager
	if how != "" {
		text += " (" + how + ")"
	}
	if t, err := time.Parse(time.RFC3339, o.Time); err == nil {
		return text + ", " + t.UTC().Format(time.DateTime) + " UTC"
	} else if o.Time != "" {
		return text + ", " + o.Time
	}
	return text
}

// summary counts objects.
func summary(found results) string {
	var differ, missing, same int
	for i := range found.all {
		switch r := &found.all[i].Report; {
		case r.State == drift.Absent:
			missing++
		case r.Drifted():
			differ++
		default:
			same++
		}
	}
	text := fmt.Sprintf("%s: %d with differences, %d missing, %d without.", objects(len(found.all)), differ, missing, same)
	if found.unmatched > 0 {
		text += fmt.Sprintf(" Only the member's file has %s more, not compared.", strconv.Itoa(found.unmatched))
	}
	return text
}

func objects(n int) string {
	if n == 1 {
		return "1 object"
	}
	return strconv.Itoa(n) + " objects"
}

// clean makes visible what could do something to a terminal: what is in a file
// may come from anywhere. In JSON the result means the same.
func clean(text string) string {
	return escaped(text, func(r rune) string {
		high := (r-0x10000)>>10 + 0xd800
		return fmt.Sprintf(`\u%04x\u%04x`, high, (r-0x10000)&0x3ff+0xdc00)
	})
}

// escaped keeps what can be printed; wide writes characters beyond 16 bits.
func escaped(text string, wide func(rune) string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case strconv.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			b.WriteString(wide(r))
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// cleanLines cleans text of several lines.
func cleanLines(text string, clean func(string) string) []byte {
	var b strings.Builder
	for l := range strings.Lines(text) {
		body, end := strings.CutSuffix(l, "\n")
		b.WriteString(clean(body))
		if end {
			b.WriteByte('\n')
		}
	}
	return []byte(b.String())
}
