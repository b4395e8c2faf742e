package timeline

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// TextOptions say how a [Text] is drawn.
type TextOptions struct {
	// Width is in columns, at least 40; default 80. No line is longer.
	Width int
	// ASCII reports whether only ASCII characters are written.
	ASCII bool
}

// Text writes a picture as lines of text without colours, each at most o.Width characters of one
// column. Each column is an interval of time. If a cluster ended in that interval, its column shows
// that; otherwise it shows the phase that lasted longest in the interval. Times are in UTC.
//
// The error is the error of w.
func Text(w io.Writer, t *Timeline, o TextOptions) error {
	width := max(cmp.Or(o.Width, 80), 40)
	names := min(max(longestLabel(t), len(since)), width/3)
	x := &sheet{t: t, width: width, names: names, columns: width - names - 2, ascii: o.ASCII, used: map[Kind]bool{}}
	x.scale = newScale(t, float64(x.columns))
	x.draw()
	_, err := w.Write(x.out.Bytes())
	return err
}

// longestLabel returns the length of the longest label of the picture.
func longestLabel(t *Timeline) (n int) {
	for i := range t.Stages {
		n = max(n, len([]rune(t.Stages[i].title())))
		for j := range t.Stages[i].Groups {
			g := &t.Stages[i].Groups[j]
			n = max(n, len([]rune(g.title()))+1)
			if len(g.Lanes) == 0 {
				n = max(n, len("  of "+plural(g.Clusters, "cluster")))
			}
			for k := range g.Lanes {
				n = max(n, len([]rune(g.Lanes[k].Cluster))+2)
			}
		}
	}
	return n
}

const since = "since start"

// sheet is a text that is drawn line by line.
type sheet struct {
	t              *Timeline
	width          int
	names, columns int
	scale          scale
	ascii          bool
	used           map[Kind]bool
	out            bytes.Buffer
}

// signs are the characters of kinds, in Unicode and in ASCII.
var signs = map[Kind][2]rune{ //nolint:gochecknoglobals // a constant table
	Queued: {'·', '.'}, Closed: {'/', '/'}, Yielded: {'?', '?'}, Applying: {'█', '#'}, Settling: {'▓', 'S'}, Soaking: {'▒', 's'},
	Measuring: {'░', 'm'}, BackingOff: {'~', '~'}, Completed: {'✓', '+'}, Failed: {'✗', 'X'}, Skipped: {'-', '-'}, Wait: {'=', '='}, Scheduled: {':', ':'},
	Approval: {'▲', 'A'}, Rejected: {'✗', 'X'}, Expired: {'e', 'e'}, Checked: {'◆', 'c'}, CheckFailed: {'✗', 'X'},
	HeldByCheck: {'!', '!'}, Stopping: {'▁', '_'}, Stopped: {'■', 'o'},
}

func (x *sheet) sign(k Kind) rune {
	x.used[k] = true
	if x.ascii {
		return signs[k][1]
	}
	return signs[k][0]
}

// line writes a line, cut to the width of the sheet.
func (x *sheet) line(s string) {
	s = strings.TrimRight(cut(s, x.width), " ")
	if x.ascii {
		s = strings.Map(func(c rune) rune {
			switch {
			case c == '·' || c == '…':
				return '.'
			case c > '~':
				return '?'
			default:
				return c
			}
		}, s)
	}
	x.out.WriteString(s + "\n")
}

// row writes a label and a lane.
func (x *sheet) row(label string, lane []rune) {
	label = cut(plain(label), x.names)
	x.line(label + strings.Repeat(" ", x.names-len([]rune(label))) + "  " + string(lane))
}

// blank returns an empty lane.
func (x *sheet) blank() []rune { return slices.Repeat([]rune{' '}, x.columns) }

// column returns the column of a moment.
func (x *sheet) column(at time.Time) int { return min(int(x.scale.at(at)), x.columns-1) }

func (x *sheet) draw() {
	x.line(plain(x.t.title()))
	for part := range strings.SplitSeq(x.t.summary(), " · ") {
		x.line(plain(part))
	}
	x.line("")
	most := max(x.columns/14, 2)
	x.row("UTC", x.axis(x.scale.clock(most)))
	x.row(since, x.axis(x.scale.offsets(most)))
	if len(x.t.Segments) > 0 {
		x.row("run", x.lane(x.t.Segments))
	}
	for i := range x.t.Stages {
		x.stage(&x.t.Stages[i])
	}
	x.now()
	x.marks()
	x.legend()
}

// axis writes labels at their positions, if there is room.
func (x *sheet) axis(ticks []tick) []rune {
	out, free := x.blank(), 0
	for _, k := range ticks {
		at := x.column(k.at)
		label := []rune("|" + k.label)
		if at < free || at+len(label) > len(out) {
			continue
		}
		copy(out[at:], label)
		free = at + len(label) + 1
	}
	return out
}

// now marks the moment of the picture.
func (x *sheet) now() {
	if x.t.Now.IsZero() {
		return
	}
	lane := x.blank()
	at := x.column(x.t.Now)
	words := []rune("^ now, and what is expected")
	switch {
	case at+len(words) <= len(lane):
		copy(lane[at:], words)
	default:
		words = []rune("what has happened, and now ^")
		copy(lane[max(at+1-len(words), 0):], words[max(len(words)-at-1, 0):])
	}
	x.row("", lane)
}

func (x *sheet) stage(st *Stage) {
	x.line("")
	x.gates(st.title(), st.Gates)
	for i := range st.Groups {
		g := &st.Groups[i]
		if g.Name != "" || len(g.Gates) > 0 {
			x.gates(" "+g.title(), g.Gates)
		}
		for j := range g.Lanes {
			lane := x.lane(g.Lanes[j].Segments)
			x.reason(lane, g.Lanes[j].Segments)
			x.row("  "+g.Lanes[j].Cluster, lane)
		}
		if len(g.Lanes) == 0 && g.Clusters > 0 {
			x.load(g)
		}
	}
}

// gates writes a row for each gate; the first row has the label.
func (x *sheet) gates(label string, all []Segment) {
	if len(all) == 0 {
		x.row(label, x.blank())
	}
	for _, s := range thin(all, x.scale, 1) {
		lane := x.lane([]Segment{s})
		words := s.words()
		if s.Kind == Wait || s.Kind == Scheduled {
			words += " " + short(s.To.Sub(s.From))
		}
		from, to := x.column(s.From), x.column(s.To)+2
		words = plain(words)
		if room := max(len(lane)-to, from-1); len([]rune(words)) > room {
			words = cut(words, room)
		}
		if long := len([]rune(words)); to+long <= len(lane) {
			copy(lane[to:], []rune(words))
		} else if long >= 4 {
			copy(lane[from-1-long:], []rune(words))
		}
		x.row(label, lane)
		label = ""
	}
}

// lane draws segments: in each column the one that lasts longest, overwritten by ends in that
// column.
func (x *sheet) lane(all []Segment) []rune {
	lane, longest := x.blank(), make([]float64, x.columns)
	for i := range all {
		s := &all[i]
		from, to := x.scale.at(s.From), x.scale.at(s.To)
		for c := int(from); c < x.columns && float64(c) < to; c++ {
			if part := min(to, float64(c+1)) - max(from, float64(c)); part >= longest[c] {
				longest[c], lane[c] = part, x.sign(s.Kind)
			}
		}
	}
	for i := range all {
		if s := &all[i]; !s.From.Before(s.To) {
			lane[x.column(s.From)] = x.sign(s.Kind)
		}
	}
	return lane
}

// reason writes the reason of a failed cluster behind its lane, if there is room.
func (x *sheet) reason(lane []rune, all []Segment) {
	if len(all) == 0 || all[len(all)-1].Kind != Failed {
		return
	}
	from := x.column(all[len(all)-1].From) + 2
	if room := len(lane) - from; room >= 8 {
		copy(lane[from:], []rune(cut(plain(all[len(all)-1].Message), room)))
	}
}

// bars are the heights for a part of a whole.
var bars = [2][]rune{[]rune(" ▁▂▃▄▅▆▇█"), []rune(" .:-=+*#@")} //nolint:gochecknoglobals // a constant table

// bar returns a part of a whole as a character: blank for nothing, full for everything.
func (x *sheet) bar(n, of float64) rune {
	set := bars[0]
	if x.ascii {
		set = bars[1]
	}
	if n <= 0 || of <= 0 {
		return set[0]
	}
	return set[min(max(int(n/of*float64(len(set)-1)), 1), len(set)-1)]
}

// load writes how many clusters of a group have ended, how many are in flight, and how many have
// failed.
func (x *sheet) load(g *Group) {
	columns := columnsOf(g.Load, x.scale, x.columns)
	peak, under := 0, 0.0
	for i := range g.Load {
		peak = max(peak, g.Load[i].inFlight())
	}
	for i := range columns {
		under = max(under, columns[i].sum(flightKinds))
	}
	done, flight, failed := x.blank(), x.blank(), x.blank()
	for i := range columns {
		c := &columns[i]
		done[i] = x.bar(c.sum(endedKinds), float64(g.Clusters))
		flight[i] = x.bar(c.sum(flightKinds), under)
		if i == 0 && c.of(Failed) > 0 || i > 0 && c.of(Failed) > columns[i-1].of(Failed) {
			failed[i] = x.sign(Failed)
		}
	}
	x.row("  of "+plural(g.Clusters, "cluster"), done)
	x.row(fmt.Sprintf("  %d at a time", peak), flight)
	if n := columns[len(columns)-1].of(Failed); n > 0 {
		x.row(fmt.Sprintf("  %d failed", int(n)), failed)
	}
}

// maxMarks is the maximum number of written marks.
const maxMarks = 40

// marks writes the marks of the run, a line each.
func (x *sheet) marks() {
	x.line("")
	for i := range x.t.Marks[:min(len(x.t.Marks), maxMarks)] {
		m := &x.t.Marks[i]
		words := m.At.Format("2006-01-02 15:04:05") + "  " + m.words()
		if m.Expected {
			words += " (expected)"
		}
		if m.Message != "" {
			words += ": " + m.Message
		}
		x.line(plain(words))
	}
	if n := len(x.t.Marks) - maxMarks; n > 0 {
		x.line(fmt.Sprintf("and %d more", n))
	}
}

// legend explains the characters that were drawn.
func (x *sheet) legend() {
	x.line("")
	all := ""
	for _, k := range kinds {
		if !x.used[k] {
			continue
		}
		part := string(x.sign(k)) + " " + kindWords[k]
		switch {
		case all == "":
			all = part
		case len([]rune(all))+2+len([]rune(part)) > x.width:
			x.line(all)
			all = part
		default:
			all += "  " + part
		}
	}
	x.line(all)
}
