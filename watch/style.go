package watch

import (
	"cmp"
	"image/color"
	"strings"
	"unicode"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/slipway-dev/slipway/stages"
)

// Style is the look of a frame. The zero Style is plain text in Unicode.
type Style struct {
	// Color adds escape sequences of the 16 basic colours.
	Color bool
	// ASCII replaces marks, bars and ellipses by ASCII characters.
	ASCII bool
}

// StyleOf returns the style for a terminal with an environment, which getenv reads like
// os.Getenv: colours unless NO_COLOR is set, and Unicode if the locale is UTF-8.
func StyleOf(getenv func(string) string) Style {
	locale := strings.ToLower(cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")))
	return Style{
		Color: getenv("NO_COLOR") == "",
		ASCII: !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8"),
	}
}

// ink is the meaning of a piece of text, which decides its look.
type ink int

const (
	plain ink = iota
	strong
	faint
	good
	bad
	busy
	held
)

var inks = map[ink]lipgloss.Style{
	strong: lipgloss.NewStyle().Bold(true),
	faint:  lipgloss.NewStyle().Faint(true),
	good:   foreground(lipgloss.Green),
	bad:    foreground(lipgloss.Red),
	busy:   foreground(lipgloss.Cyan),
	held:   foreground(lipgloss.Yellow),
}

func foreground(c color.Color) lipgloss.Style { return lipgloss.NewStyle().Foreground(c) }

// paint returns text for the terminal. It removes everything from foreign text, for example
// messages of clusters, that would control the terminal.
func (s Style) paint(i ink, text string) string {
	text = strings.Map(printable, text)
	if !s.Color || i == plain || text == "" {
		return text
	}
	return inks[i].Render(text)
}

func printable(r rune) rune {
	switch {
	case unicode.IsPrint(r):
		return r
	case unicode.IsSpace(r):
		return ' '
	default:
		return '?'
	}
}

// ellipsis returns the mark for omitted text.
func (s Style) ellipsis() string {
	if s.ASCII {
		return "..."
	}
	return "…"
}

// cut returns the line in at most so many columns.
func (s Style) cut(line string, width int) string {
	tail := s.ellipsis()
	if width < ansi.StringWidth(tail) {
		tail = ""
	}
	return ansi.Truncate(line, max(0, width), tail)
}

// pad returns text in exactly so many columns.
func (s Style) pad(text string, width int) string {
	text = s.cut(text, width)
	return text + strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
}

// look is the mark of a state, in Unicode and ASCII, and its ink.
type look struct {
	mark, ascii string
	ink         ink
}

var looks = map[stages.State]look{
	stages.NotStarted: {"○", ".", faint},
	stages.Pending:    {"◌", "?", held},
	stages.Running:    {"▶", ">", busy},
	stages.Stopping:   {"◼", "=", held},
	stages.Stopped:    {"◼", "=", held},
	stages.Skipped:    {"–", "-", faint},
	stages.Failed:     {"✗", "x", bad},
	stages.Completed:  {"✓", "+", good},
	stages.Aborted:    {"✗", "x", bad},
	stages.Superseded: {"–", "-", faint},
}

func (s Style) mark(state stages.State) string {
	l := looks[state]
	if s.ASCII {
		return s.paint(l.ink, l.ascii)
	}
	return s.paint(l.ink, l.mark)
}

func (s Style) state(state stages.State, width int) string {
	return s.paint(looks[state].ink, s.pad(string(state), width))
}

// bar draws how many of the clusters of a sum are done, have failed, were skipped and are in
// flight. Each part that is not zero takes at least a column, and the bar is full only if the
// parts are all clusters.
func (s Style) bar(width int, sum *stages.GroupOutline) string {
	signs := [...]string{"█", "▓", "─", "▒", "░"}
	if s.ASCII {
		signs = [...]string{"#", "x", "-", ">", "."}
	}
	parts := [...]int{sum.Completed, sum.Failed, sum.Skipped, sum.InFlight}
	columns := shares(width, sum.Clusters, parts[:])
	var out strings.Builder
	left := width
	for i, of := range [...]ink{good, bad, faint, busy} {
		out.WriteString(s.paint(of, strings.Repeat(signs[i], columns[i])))
		left -= columns[i]
	}
	return out.String() + s.paint(faint, strings.Repeat(signs[4], left))
}

// shares returns the columns of each part of a total. If the parts add up to the total, the
// largest one gets the columns that rounding leaves.
func shares(width, total int, parts []int) []int {
	out := make([]int, len(parts))
	left, rest, largest := width, total, 0
	for i, n := range parts {
		if n == 0 || total == 0 {
			continue
		}
		out[i] = min(left, max(1, n*width/total))
		left, rest = left-out[i], rest-n
		if n > parts[largest] {
			largest = i
		}
	}
	if total > 0 && rest == 0 {
		out[largest] += left
	}
	return out
}
