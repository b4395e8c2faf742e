package stages

import (
	"github.com/slipway-dev/slipway/stages/plan"
	"github.com/slipway-dev/slipway/stages/runstate"
)

// inDomains returns how many clusters are in flight of each failure domain of
// the current stage; nil where that has none. It counts them once in a step,
// [stepper.join] and [stepper.part] go on from there.
func (s *stepper) inDomains() []int {
	st, _, ok := s.stage()
	if !ok || len(st.Cells) == 0 {
		return nil
	}
	if s.domains == nil {
		s.domains = make([]int, len(st.Domains))
		for i := range s.r.Flights {
			if f := &s.r.Flights[i]; f.Attempt != 0 {
				s.inDomain(f.Pos, 1)
			}
		}
	}
	return s.domains
}

// inDomain takes in that a cluster of the current stage is in flight, or is not
// any more.
func (s *stepper) inDomain(pos, n int) {
	if s.domains == nil {
		return
	}
	for _, d := range s.p.Stages[s.r.Stage].Cells[s.p.Clusters[pos].Cell] {
		s.domains[d] += n
	}
}

// full returns the first domain of a cell that has as many clusters in flight as
// it may; nil where none has.
func (s *stepper) full(cell int) *PlannedDomain {
	in := s.inDomains()
	if in == nil {
		return nil
	}
	st := &s.p.Stages[s.r.Stage]
	for _, d := range st.Cells[cell] {
		if in[d] >= st.Domains[d].MaxConcurrency {
			return &st.Domains[d]
		}
	}
	return nil
}

// hasRoom reports whether the domains of the cluster at pos let it start.
func (s *stepper) hasRoom(pos int) bool { return s.full(s.p.Clusters[pos].Cell) == nil }

// cellsOf returns the cells of a group of the current stage.
func (s *stepper) cellsOf(g *PlannedGroup) []plan.CellMembers {
	if len(s.p.Stages[s.r.Stage].Cells) == 0 || g.Len == 0 {
		return nil
	}
	return s.p.Members(s.p.StageOf(g.First))
}

// takeNext moves the cursor of a group over the cluster that comes next of those
// whose domains have room, and returns its position; -1 where there is none.
func (s *stepper) takeNext(g *PlannedGroup, gr *GroupRun) int {
	pos, cell := s.head(g, gr)
	if pos < 0 {
		return -1
	}
	gr.Next++
	if len(gr.Cells) > 0 {
		gr.Cells[cell]++
	}
	s.changed = true
	return pos
}

// head returns the cluster that takeNext would take, and its cell in the group.
func (s *stepper) head(g *PlannedGroup, gr *GroupRun) (first, cell int) {
	cells := s.cellsOf(g)
	switch {
	case gr.Next >= g.Len:
		return -1, 0
	case cells == nil:
		return g.First + gr.Next, 0
	}
	first = -1
	for i := range cells {
		c := &cells[i]
		if next := gr.Cells[i]; next < len(c.Positions) && (first < 0 || int(c.Positions[next]) < first) && s.full(c.Cell) == nil {
			first, cell = int(c.Positions[next]), i
		}
	}
	return first, cell
}

// startable returns the first cluster of a range of those that let others go
// first whose domains have room; -1 where there is none. A range that is not to be
// divided has its first cluster or nobody to start.
func (s *stepper) startable(g *PlannedGroup, r Passed, whole bool) int {
	cells := s.cellsOf(g)
	switch {
	case cells == nil:
		return r.First
	case whole && s.hasRoom(r.First):
		return r.First
	case whole:
		return -1
	}
	first := -1
	for i := range cells {
		c := &cells[i]
		next := c.From(r.First)
		if next < len(c.Positions) && int(c.Positions[next]) <= r.Last && (first < 0 || int(c.Positions[next]) < first) && s.full(c.Cell) == nil {
			first = int(c.Positions[next])
		}
	}
	return first
}

// passSkippedCells is passSkipped in a stage with failure domains.
func (s *stepper) passSkippedCells(cells []plan.CellMembers, gr *GroupRun) {
	for i := range cells {
		for gr.Cells[i] < len(cells[i].Positions) && runstate.ExceptionAt(s.r.Exceptions, int(cells[i].Positions[gr.Cells[i]])) != nil {
			gr.Cells[i]++
			gr.Next++
			gr.Skipped++
			s.changed = true
		}
	}
}

// eachRun calls do with every run of neighbours from first to last that all match.
func eachRun(first, last int, match func(int) bool, do func(first, last int)) {
	begin := -1
	for pos := first; pos <= last+1; pos++ {
		in := pos <= last && match(pos)
		if in && begin < 0 {
			begin = pos
		}
		if !in && begin >= 0 {
			do(begin, pos-1)
			begin = -1
		}
	}
}
