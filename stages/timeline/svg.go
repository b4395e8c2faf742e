package timeline

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// MaxSVG is the greatest size of an [SVG] in bytes, for a plan with up to 100 stages: a run with
// more details is drawn more coarsely.
const MaxSVG = 200_000

// SVGOptions say how an [SVG] is drawn.
type SVGOptions struct {
	// Width is in pixels, at least 600; default 1100.
	Width int
}

// SVG writes a picture as one self-contained SVG document, which can be opened, sent and pasted
// as a file. Its colours follow the reader's preference for a light or a dark page. Times are in
// UTC; the axis below has offsets from the start. Tooltips explain the parts.
//
// The error is the error of w.
func SVG(w io.Writer, t *Timeline, o SVGOptions) error {
	width := max(cmp.Or(o.Width, 1100), 600)
	var doc []byte
	for fine := 1.5; fine < float64(width); fine *= 2 {
		d := newDrawing(t, float64(width), fine)
		d.draw()
		if doc = d.document(); len(doc) <= MaxSVG {
			break
		}
	}
	_, err := w.Write(doc)
	return err
}

// The measures of a drawing, in pixels.
const (
	labels     = 210.0 // the column of labels
	margin     = 16.0
	laneHeight = 16.0
	barHeight  = 10.0
	ending     = 12.0 // after the last moment
	letter     = 6.1  // approximate width of a character of 11 px
)

// drawing is an SVG that is drawn from top to bottom.
type drawing struct {
	t     *Timeline
	width float64
	scale scale
	// fine is the least width in pixels of something that is drawn on its own.
	fine float64
	y    float64
	// top is the top of the chart.
	top  float64
	body bytes.Buffer
	used map[Kind]bool
}

func newDrawing(t *Timeline, width, fine float64) *drawing {
	return &drawing{t: t, width: width, fine: fine, scale: newScale(t, width-labels-2*margin-ending), used: map[Kind]bool{}}
}

// x returns the position of a moment.
func (d *drawing) x(at time.Time) float64 { return margin + labels + d.scale.at(at) }

func (d *drawing) right() float64 { return d.width - margin }

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.body, format, args...) }

func (d *drawing) draw() {
	d.y = margin + 16
	d.text(margin, d.y, "h", "", cut(d.t.title(), int((d.width-2*margin)/9.5)), d.t.title())
	d.y += 19
	d.text(margin, d.y, "m", "", cut(d.t.summary(), int((d.width-2*margin)/letter)), "")
	d.y += 30
	d.top = d.y
	d.runLane()
	for i := range d.t.Stages {
		d.stage(&d.t.Stages[i])
	}
}

// runLane draws the segments of the run as a whole.
func (d *drawing) runLane() {
	d.y += 6
	d.label(0, "b", "run")
	for _, s := range thin(d.t.Segments, d.scale, d.fine) {
		d.bar(&s, d.y, barHeight, "")
	}
	d.marks()
	d.y += laneHeight + 14
}

// marks draws the marks of the run, with words if there is room. If several marks have the same
// position, only the last two have words.
func (d *drawing) marks() {
	free := 0.0
	for i := 0; i < len(d.t.Marks); i++ {
		x, tip, before := d.x(d.t.Marks[i].At), d.t.Marks[i].tip(), ""
		for i+1 < len(d.t.Marks) && d.x(d.t.Marks[i+1].At)-x < max(d.fine, 3) {
			before = d.t.Marks[i].words() + ", "
			i++
			if len(tip) < 500 {
				tip += "\n" + d.t.Marks[i].tip()
			}
		}
		m := &d.t.Marks[i]
		class := "mk"
		if m.Expected {
			class += " e"
		}
		d.printf(`<path class="%s" d="M%s %sl4 5l-4 5l-4 -5z"><title>%s</title></path>`, class, px(x), px(d.y), escape(tip))
		words := cut(plain(before+m.words()), 44)
		long := float64(len([]rune(words))) * letter
		switch from := x - 4; {
		case from < free:
		case from+long < d.right():
			d.text(from, d.y+22, "m", "", words, "")
			free = from + long + 6
		case d.right()-long > free:
			d.text(d.right(), d.y+22, "m", "end", words, "")
			free = d.right()
		}
	}
	d.printf("\n")
}

func (d *drawing) stage(st *Stage) {
	d.printf(`<path class="g" d="M%s %sH%s"/>`, px(margin), px(d.y), px(d.right()))
	d.y += 6
	d.label(0, "b", st.title())
	d.gates(st.Gates)
	named := len(st.Groups) > 1 || st.Groups[0].Name != ""
	for i := range st.Groups {
		g := &st.Groups[i]
		if named {
			d.label(8, "", g.title())
		}
		if named && len(g.Lanes) > 0 || len(g.Gates) > 0 {
			d.gates(g.Gates)
		}
		for j := range g.Lanes {
			d.lane(&g.Lanes[j])
		}
		if len(g.Lanes) == 0 && g.Clusters > 0 {
			d.load(g, named && len(g.Gates) == 0)
		}
	}
	d.y += 4
}

// placed is a segment with its words.
type placed struct {
	Segment
	words         string
	at            float64
	anchor        string
	inside        bool
	first, behind float64 // its space in the row
}

// gates draws segments with their words, in several rows if necessary.
func (d *drawing) gates(all []Segment) {
	const rows = 5
	var free [rows]float64
	used := 1
	for _, s := range thin(all, d.scale, d.fine) {
		p := d.place(s)
		row := 0
		for row < rows-1 && free[row] > p.first {
			row++
		}
		y := d.y + float64(row)*laneHeight
		d.bar(&p.Segment, y, barHeight, "")
		if free[row] <= p.first && p.words != "" {
			class := "s"
			if p.inside && !p.Expected {
				class = "i"
			}
			d.text(p.at, y+9, class, p.anchor, p.words, "")
		}
		free[row] = max(free[row], p.behind)
		used = max(used, row+1)
	}
	d.y += float64(used)*laneHeight + 2
}

// place finds a place for the words of a segment: inside, behind or before it.
func (d *drawing) place(s Segment) placed {
	from, to := d.x(s.From), max(d.x(s.To), d.x(s.From)+2)
	words := s.words()
	if s.Kind == Wait || s.Kind == Scheduled {
		words += " " + short(s.To.Sub(s.From))
	}
	words = cut(plain(words), 60)
	p := placed{Segment: s, words: words, first: from, behind: to + 4}
	long := float64(len([]rune(words))) * letter
	switch {
	case long+8 < to-from && s.Kind != Closed:
		p.at, p.inside = from+4, true
	case to+4+long < d.right():
		p.at, p.behind = to+4, to+8+long
	case from-4-long > margin+labels:
		p.at, p.anchor, p.first = from-4, "end", from-8-long
	default:
		p.words = ""
	}
	return p
}

// lane draws the lane of a cluster.
func (d *drawing) lane(l *Lane) {
	d.label(16, "", l.Cluster)
	segments := thin(l.Segments, d.scale, d.fine)
	for i := range segments {
		s := &segments[i]
		words := ""
		if s.Attempt > 1 && s.Kind != BackingOff && s.Kind != Yielded && s.From.Before(s.To) {
			words = strconv.Itoa(s.Attempt)
		}
		d.bar(s, d.y, barHeight, words)
	}
	for i := range segments {
		s := &segments[i]
		if s.Kind != Failed && s.Kind != Skipped || s.Message == "" {
			continue
		}
		end := d.right()
		if i+1 < len(segments) {
			end = d.x(segments[i+1].From)
		}
		if most := int((end - d.x(s.From) - 16) / letter); most > 8 {
			d.text(d.x(s.From)+15, d.y+9, "s", "", cut(plain(s.Message), most), "")
		}
	}
	d.y += laneHeight
	d.printf("\n")
}

// glyphs are the paths for events at one instant, around their middle.
var glyphs = map[Kind]string{ //nolint:gochecknoglobals // a constant table
	Completed: "M-4 0l3 3l5 -6", Failed: "M-4 -4l8 8m0 -8l-8 8", Skipped: "M-4 0h8",
}

// bar draws a segment, and words inside it if there is room.
func (d *drawing) bar(s *Segment, y, height float64, words string) {
	d.used[s.Kind] = true
	from, to := d.x(s.From), d.x(s.To)
	class := classes[s.Kind]
	if s.Expected {
		class += " e"
	}
	if glyph, ok := glyphs[s.Kind]; ok {
		d.printf(`<g class="%s" transform="translate(%s %s)"><title>%s</title><path d="%s"/></g>`,
			class, px(from+6), px(y+height/2), escape(s.tip()), glyph)
		return
	}
	d.printf(`<rect class="%s" x="%s" y="%s" width="%s" height="%s"><title>%s</title></rect>`,
		class, px(from), px(y), px(max(to-from, 1.5)), px(height), escape(s.tip()))
	if words != "" && to-from > float64(len(words))*letter+2 {
		d.text((from+to)/2, y+9, "i", "middle", words, "")
	}
}

// label writes a label of the left column.
func (d *drawing) label(indent float64, class, words string) {
	most := int((labels - indent - 8) / letter)
	if class == "b" {
		most = int((labels - indent - 8) / 6.8)
	}
	short := cut(words, most)
	tip := ""
	if short != words {
		tip = words
	}
	d.text(margin+indent, d.y+9, class, "", short, tip)
}

// text writes words, with a tooltip if there is one.
func (d *drawing) text(x, y float64, class, anchor, words, tip string) {
	d.printf(`<text x="%s" y="%s"`, px(x), px(y))
	if class != "" {
		d.printf(` class="%s"`, class)
	}
	if anchor != "" {
		d.printf(` text-anchor="%s"`, anchor)
	}
	d.printf(">")
	if tip != "" && tip != words {
		d.printf("<title>%s</title>", escape(tip))
	}
	d.printf("%s</text>", escape(words))
}

// thin joins segments that would be narrower than so many pixels with the next ones.
func thin(all []Segment, s scale, fine float64) (out []Segment) {
	for _, next := range all {
		if n := len(out); n > 0 {
			last := &out[n-1]
			_, point := glyphs[next.Kind]
			_, lastPoint := glyphs[last.Kind]
			near := s.at(next.To)-s.at(last.From) < fine && last.Expected == next.Expected && !next.From.Before(last.To)
			same := last.Kind == next.Kind || kindIndex(last.Kind) >= 0 && kindIndex(next.Kind) >= 0
			switch {
			case near && same && point && lastPoint:
				*last = next
				continue
			case near && same && !point && !lastPoint && (s.at(last.To)-s.at(last.From) < fine/2 || s.at(next.To)-s.at(next.From) < fine/2):
				if last.Kind != BackingOff {
					last.Kind = next.Kind
				}
				last.To, last.Open, last.Message = next.To, next.Open, "several, too short to be drawn"
				continue
			}
		}
		out = append(out, next)
	}
	return out
}

// px writes a length in pixels.
func px(v float64) string {
	out := strconv.FormatFloat(v, 'f', 1, 64)
	return strings.TrimSuffix(out, ".0")
}

// escape turns any text into text of a document.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder never fails
	return b.String()
}
