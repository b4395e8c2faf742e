package stages

import (
	"slices"
)

// indexDomains finds the members of the cells of every group.
func (p *Plan) indexDomains() {
	p.cells = nil
	if !p.hasDomains() {
		return
	}
	p.cells = make([][][]CellMembers, len(p.Stages))
	for i := range p.Stages {
		if st := &p.Stages[i]; len(st.Cells) > 0 {
			p.cells[i] = make([][]CellMembers, len(st.Groups))
			for j := range st.Groups {
				p.cells[i][j] = p.membersOf(&st.Groups[j])
			}
		}
	}
}

// membersOf returns the cells of a group, ascending.
func (p *Plan) membersOf(g *PlannedGroup) (out []CellMembers) {
	byCell := map[int][]int32{}
	for pos := g.First; pos < g.First+g.Len; pos++ {
		cell := p.Clusters[pos].Cell
		byCell[cell] = append(byCell[cell], int32(pos))
	}
	for cell, positions := range byCell {
		out = append(out, CellMembers{cell, positions})
	}
	slices.SortFunc(out, func(a, b CellMembers) int { return a.Cell - b.Cell })
	return out
}

// hasDomains reports whether a stage of the plan is divided.
func (p *Plan) hasDomains() bool {
	return slices.ContainsFunc(p.Stages, func(st PlannedStage) bool { return len(st.Cells) > 0 })
}

// Members returns the cells of a group; nil if its stage has no failure domains.
func (p *Plan) Members(stage, group int) []CellMembers {
	if p.cells == nil || p.cells[stage] == nil {
		return nil
	}
	return p.cells[stage][group]
}

// CellSizes returns the number of clusters in each cell of a group, in the order of [Plan.Members];
// nil if the stage has no failure domains.
func (p *Plan) CellSizes(stage, group int) (sizes []int) {
	for _, c := range p.Members(stage, group) {
		sizes = append(sizes, len(c.Positions))
	}
	return sizes
}

// Domains returns the failure domains that the cluster at pos is in, one for
// each of the labels that divide its stage.
func (p *Plan) Domains(pos int) (out []PlannedDomain) {
	stage, _ := p.StageOf(pos)
	if stage < 0 || len(p.Stages[stage].Cells) == 0 {
		return nil
	}
	st := &p.Stages[stage]
	for _, d := range st.Cells[p.Clusters[pos].Cell] {
		out = append(out, st.Domains[d])
	}
	return out
}
