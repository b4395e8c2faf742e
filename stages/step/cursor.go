package step

import (
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// ahead reports whether the run has not reached the cluster at pos and will not skip it.
func (d *draft) ahead(pos int) bool {
	return runstate.UnsuccessfulAt(d.r.form.Unsuccessful, pos) == nil && d.beyond(pos)
}

// beyond reports whether pos is after the position that the run has reached in its group.
func (d *draft) beyond(pos int) bool {
	if stage, _ := d.p.StageOf(pos); stage != d.r.form.Stage {
		return stage > d.r.form.Stage
	}
	return !d.r.hasReached(d.p, pos)
}

// cursor is the position of the run in a group of the current stage. It finds the next cluster, by
// position and by the failure domains that have room.
type cursor struct {
	d  *draft
	g  *stages.PlannedGroup
	gr *runstate.GroupRun
	// cells are the cells of the group; nil if the stage has no failure domains.
	cells []stages.CellMembers
	// end is the position before which clusters may start.
	end int
}

func newCursor(d *draft, g *stages.PlannedGroup, gr *runstate.GroupRun) cursor {
	return cursor{d: d, g: g, gr: gr, cells: cellsOf(d.p, d.r.form.Stage, g), end: g.First + g.Len}
}

// has reports whether the cluster at pos is one of the group that may start.
func (c *cursor) has(pos int) bool { return pos >= c.g.First && pos < c.end }

// unproven returns the number of unproven clusters of the group that are neither in flight nor have
// ended.
func (c *cursor) unproven() (n int) {
	if c.g.Unproven == 0 {
		return 0
	}
	end, next := c.g.First+c.g.Unproven, c.g.First+c.gr.Next
	for i := range c.cells {
		for _, pos := range c.cells[i].Positions[c.gr.Cells[i]:] {
			if int(pos) < end && runstate.UnsuccessfulAt(c.d.r.form.Unsuccessful, int(pos)) == nil {
				n++
			}
		}
	}
	if c.cells == nil && next < end {
		n = end - next
		for _, e := range c.d.r.form.Unsuccessful {
			if e.First >= end {
				break
			}
			n -= max(0, min(e.Last+1, end)-max(e.First, next))
		}
	}
	for _, r := range c.gr.Deferred {
		n += max(0, min(r.Last+1, end)-r.First)
	}
	for i := range c.d.r.form.Waiting {
		if pos := c.d.r.form.Waiting[i].Pos; pos >= c.g.First && pos < end {
			n++
		}
	}
	return n
}

// passSkipped moves the cursor over clusters that must not be started.
func (c *cursor) passSkipped() {
	d, g, gr := c.d, c.g, c.gr
	for i := range c.cells {
		all := c.cells[i].Positions
		for gr.Cells[i] < len(all) && runstate.UnsuccessfulAt(d.r.form.Unsuccessful, int(all[gr.Cells[i]])) != nil {
			gr.Cells[i]++
			gr.Next++
			gr.Skipped++
			d.changed = true
		}
	}
	for c.cells == nil && gr.Next < g.Len {
		e := runstate.UnsuccessfulAt(d.r.form.Unsuccessful, g.First+gr.Next)
		if e == nil {
			return
		}
		n := min(e.Last-g.First, g.Len-1) + 1 - gr.Next
		gr.Next += n
		gr.Skipped += n
		d.changed = true
	}
}

// passAllSkipped moves the cursors of all groups of the current stage over clusters that must not
// be started.
func passAllSkipped(d *draft, st *stages.PlannedStage, run *runstate.StageRun) {
	for i := range st.Groups {
		c := newCursor(d, &st.Groups[i], &run.Groups[i])
		c.passSkipped()
	}
}

// takeNext moves the cursor over the next cluster whose domains have room, and returns its
// position; -1 if there is none.
func (c *cursor) takeNext() int {
	pos, cell := c.head()
	if pos < 0 {
		return -1
	}
	c.gr.Next++
	if len(c.gr.Cells) > 0 {
		c.gr.Cells[cell]++
	}
	c.d.changed = true
	return pos
}

// head returns the cluster that takeNext would take, and its cell in the group.
func (c *cursor) head() (first, cell int) {
	switch {
	case c.gr.Next >= c.g.Len:
		return -1, 0
	case c.cells == nil:
		return c.before(c.g.First + c.gr.Next), 0
	}
	first, load := -1, c.d.load()
	for i := range c.cells {
		m := &c.cells[i]
		if next := c.gr.Cells[i]; next < len(m.Positions) && (first < 0 || int(m.Positions[next]) < first) && load.full(m.Cell) == nil {
			first, cell = int(m.Positions[next]), i
		}
	}
	return c.before(first), cell
}

// before returns pos if it is before the end, otherwise -1.
func (c *cursor) before(pos int) int {
	if pos >= c.end {
		return -1
	}
	return pos
}

// startable returns the first cluster of a deferred range whose domains have room; -1 if there is
// none. With whole set, only the first cluster of the range may start.
func (c *cursor) startable(r runstate.Deferred, whole bool) int {
	switch {
	case c.cells == nil:
		return c.before(r.First)
	case whole:
		if c.d.load().full(c.d.p.Clusters[r.First].Cell) != nil {
			return -1
		}
		return c.before(r.First)
	}
	first, load := -1, c.d.load()
	for i := range c.cells {
		m := &c.cells[i]
		next := m.From(r.First)
		if next < len(m.Positions) && int(m.Positions[next]) <= r.Last && (first < 0 || int(m.Positions[next]) < first) && load.full(m.Cell) == nil {
			first = int(m.Positions[next])
		}
	}
	return c.before(first)
}

// cellsOf returns the cells of a group of a stage, or nil if the stage has no failure domains.
func cellsOf(p *stages.Plan, stage int, g *stages.PlannedGroup) []stages.CellMembers {
	if len(p.Stages[stage].Cells) == 0 || g.Len == 0 {
		return nil
	}
	return p.Members(p.StageOf(g.First))
}
