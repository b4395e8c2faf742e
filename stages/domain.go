package stages

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Bounds of failure domains.
const (
	// maxDomainKeys is how many labels a stage may divide its clusters by.
	maxDomainKeys = 4
	// maxDomains is how many values such a label may have in a stage.
	maxDomains = 256
	// maxCells is how many combinations of a group and of values there may be in a
	// stage: a run keeps a number for each.
	maxCells = 4096
)

// Domain divides the clusters of a stage into failure domains, one for each value
// of a label, for example regions, and bounds how many of each are in flight.
type Domain struct {
	// Key is the label. Clusters without it are a domain of their own.
	Key string `json:"key"`
	// MaxConcurrency is how many clusters of one domain may be in flight at once,
	// over all groups of the stage: a number of at least 1, or a percentage from 1%
	// to 100% of the domain's clusters in the stage, rounded down, at least 1.
	// Default: 1.
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency,omitempty"`
}

// PlannedDomain is a failure domain of a stage with its number resolved: the
// clusters that have one value of a label.
type PlannedDomain struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
	// Absent tells that it is the domain of the clusters without the label.
	Absent bool `json:"absent,omitempty"`
	// Clusters is how many there are in the stage.
	Clusters int `json:"clusters"`
	// MaxConcurrency is a number of clusters, at least 1.
	MaxConcurrency int `json:"maxConcurrency"`
}

// String names the domain, for example region=eu.
func (d PlannedDomain) String() string {
	if d.Absent {
		return "those without " + d.Key
	}
	return d.Key + "=" + d.Value
}

// cellMembers are the clusters of a group that have the same domains.
type cellMembers struct {
	// cell is an index into PlannedStage.Cells.
	cell int
	// positions ascend.
	positions []int32
}

// from returns the index of the first member at or after pos.
func (c *cellMembers) from(pos int) int {
	i, _ := slices.BinarySearch(c.positions, int32(pos))
	return i
}

// indexDomains finds the members of the cells of every group.
func (p *Plan) indexDomains() {
	p.cells = nil
	if !p.hasDomains() {
		return
	}
	p.cells = make([][][]cellMembers, len(p.Stages))
	for i := range p.Stages {
		if st := &p.Stages[i]; len(st.Cells) > 0 {
			p.cells[i] = make([][]cellMembers, len(st.Groups))
			for j := range st.Groups {
				p.cells[i][j] = p.membersOf(&st.Groups[j])
			}
		}
	}
}

// membersOf returns the cells of a group, ascending.
func (p *Plan) membersOf(g *PlannedGroup) (out []cellMembers) {
	byCell := map[int][]int32{}
	for pos := g.First; pos < g.First+g.Len; pos++ {
		cell := p.Clusters[pos].Cell
		byCell[cell] = append(byCell[cell], int32(pos))
	}
	for cell, positions := range byCell {
		out = append(out, cellMembers{cell, positions})
	}
	slices.SortFunc(out, func(a, b cellMembers) int { return a.cell - b.cell })
	return out
}

// hasDomains tells that a stage of the plan is divided.
func (p *Plan) hasDomains() bool {
	return slices.ContainsFunc(p.Stages, func(st PlannedStage) bool { return len(st.Cells) > 0 })
}

// members returns the cells of a group; nil where its stage is not divided.
func (p *Plan) members(stage, group int) []cellMembers {
	if p.cells == nil || p.cells[stage] == nil {
		return nil
	}
	return p.cells[stage][group]
}

// CellSizes returns how many clusters of a group stand in each of its cells, in
// the order of [GroupRun].Cells; nil where the stage has no failure domains.
func (p *Plan) CellSizes(stage, group int) (sizes []int) {
	for _, c := range p.members(stage, group) {
		sizes = append(sizes, len(c.positions))
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

// HasComeTo tells whether the run has come to the cluster at pos: it has ended, is
// in flight, waits, or let others go first.
func (r *Run) HasComeTo(p *Plan, pos int) bool {
	stage, group := p.StageOf(pos)
	if stage < 0 || stage >= len(r.Stages) || len(r.Stages[stage].Groups) == 0 {
		return false
	}
	gr := &r.Stages[stage].Groups[group]
	for i, c := range p.members(stage, group) {
		if c.cell == p.Clusters[pos].Cell && i < len(gr.Cells) {
			return c.from(pos) < gr.Cells[i]
		}
	}
	return pos < p.Stages[stage].Groups[group].First+gr.Next
}

// isCapped tells that the strategy bounds what is in flight by more than the caps
// of stages and groups.
func (s *Strategy) isCapped() bool {
	return s.Cap != "" || slices.ContainsFunc(s.Stages, func(st Stage) bool { return len(st.Domains) > 0 })
}
