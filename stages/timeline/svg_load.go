package timeline

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The heights of the two charts of a group: ended clusters, and clusters in flight.
const (
	endedHeight  = 26.0
	flightHeight = 18.0
)

var (
	endedKinds  = []Kind{Completed, Failed, Skipped}                                          //nolint:gochecknoglobals // a constant table
	flightKinds = []Kind{Measuring, Soaking, Settling, Applying, BackingOff, Yielded, Closed} //nolint:gochecknoglobals // a constant table
	// fills are the styles of areas for kinds whose segments are lines.
	fills = map[Kind]string{Completed: "okf", Failed: "nof", Skipped: "skf"} //nolint:gochecknoglobals // a constant table
)

// load draws the number of ended clusters of a group relative to all, and below it the number in
// flight relative to its peak. below reports whether the name of the group is in the first line
// of the labels.
func (d *drawing) load(g *Group, below bool) {
	columns := columnsOf(g.Load, d.scale, max(int(d.scale.width/max(d.fine, 3)), 8))
	peak, under := 0, 1.0
	for i := range g.Load {
		peak = max(peak, g.Load[i].inFlight())
	}
	for _, c := range columns {
		under = max(under, c.sum(flightKinds))
	}
	last := column{}
	if len(columns) > 0 {
		last = columns[len(columns)-1]
	}
	var tip strings.Builder
	fmt.Fprintf(&tip, "%s: %s, at most %d in flight", g.title(), plural(g.Clusters, "cluster"), peak)
	for i, k := range endedKinds {
		if n := int(last.ended[i]); n > 0 {
			fmt.Fprintf(&tip, ", %d %s", n, kindWords[k])
		}
	}
	height := d.y
	if below {
		d.y += 13
	}
	d.label(8, "s", fmt.Sprintf("%s, %d at a time", plural(g.Clusters, "cluster"), peak))
	if n := int(last.ended[1]); n > 0 {
		d.y += 13
		d.label(8, "s", fmt.Sprintf("%d failed", n))
	}
	d.y = height
	left, width := margin+labels, d.scale.width
	d.printf(`<g><title>%s</title>`, escape(tip.String()))
	d.printf(`<rect class="tr" x="%s" y="%s" width="%s" height="%s"/>`, px(left), px(d.y), px(width), px(endedHeight))
	d.areas(columns, endedKinds, d.y+endedHeight, endedHeight/float64(max(g.Clusters, 1)))
	d.y += endedHeight + 3
	d.areas(columns, flightKinds, d.y+flightHeight, flightHeight/under)
	d.y += flightHeight + 8
	d.printf("</g>\n")
}

// column is a part of the time: the number of clusters that had ended by its end, and the average
// number in flight during it.
type column struct {
	ended  [3]float64
	flight [7]float64
	// low is the lower edge of the area that is drawn.
	low float64
}

func (c *column) of(k Kind) float64 {
	for i := range endedKinds {
		if endedKinds[i] == k {
			return c.ended[i]
		}
	}
	for i := range flightKinds {
		if flightKinds[i] == k {
			return c.flight[i]
		}
	}
	return 0
}

func (c *column) sum(kinds []Kind) (n float64) {
	for _, k := range kinds {
		n += c.of(k)
	}
	return n
}

// columnsOf divides the time into n parts.
func columnsOf(all []Load, s scale, n int) []column {
	out := make([]column, n)
	next, now := 0, Load{}
	edge := func(i int) time.Duration { return time.Duration(float64(s.span) * float64(i) / float64(n)) }
	for i := range out {
		at, end := edge(i), max(edge(i+1), edge(i)+1)
		for from := at; from < end; {
			for next < len(all) && all[next].At.Sub(s.start) <= from {
				now = all[next]
				next++
			}
			to := end
			if next < len(all) {
				to = min(end, max(all[next].At.Sub(s.start), from+1))
			}
			for k, kind := range flightKinds {
				out[i].flight[k] += float64(now.Count(kind)) * float64(to-from) / float64(end-at)
			}
			from = to
		}
		if i == n-1 && len(all) > 0 {
			now = all[len(all)-1]
		}
		for k, kind := range endedKinds {
			out[i].ended[k] = float64(now.Count(kind))
		}
	}
	return out
}

// areas stacks kinds on a baseline, so many pixels for each cluster.
func (d *drawing) areas(columns []column, kinds []Kind, ground, unit float64) {
	heights := make([]float64, len(columns))
	for _, k := range kinds {
		var top, back strings.Builder
		any, before := false, -1.0
		for i := range columns {
			n := columns[i].of(k)
			low, high := heights[i], heights[i]
			if n > 0 {
				any = true
				high += n * unit
				if k == Failed {
					high = max(high, low+2) // keeps a failure among many visible
				}
			}
			heights[i] = high
			x := margin + labels + d.scale.width*float64(i)/float64(len(columns))
			if high != before {
				fmt.Fprintf(&top, "H%sV%s", px(x), px(ground-high))
				before = high
			}
			columns[i].low = low
		}
		if !any {
			continue
		}
		d.used[k] = true
		before = -1
		for i, c := range slices.Backward(columns) {
			if low := c.low; low != before {
				x := margin + labels + d.scale.width*float64(i+1)/float64(len(columns))
				fmt.Fprintf(&back, "H%sV%s", px(x), px(ground-low))
				before = low
			}
		}
		class := fills[k]
		if class == "" {
			class = classes[k]
		}
		left := margin + labels
		d.printf(`<path class="%s" d="M%s %s%sH%s%sH%sz"/>`, class, px(left), px(ground), top.String(), px(left+d.scale.width), back.String(), px(left))
	}
}
