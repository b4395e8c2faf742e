package step

import "github.com/slipway-dev/slipway/stages"

// domainLoad counts the clusters in flight of each failure domain of a stage. It is nil for a stage
// without domains, and then every cell has room.
type domainLoad struct {
	st       *stages.PlannedStage
	inFlight []int
}

// load returns the domainLoad of the current stage. It counts once; after that, [draft.take] and
// [draft.free] keep the counts up to date.
func (d *draft) load() *domainLoad {
	st, _, ok := d.stage()
	if !ok || len(st.Cells) == 0 {
		return nil
	}
	if d.domains == nil {
		d.domains = &domainLoad{st: st, inFlight: make([]int, len(st.Domains))}
		for i := range d.r.form.InFlight {
			if f := &d.r.form.InFlight[i]; f.Attempt != 0 {
				d.domains.count(d.p.Clusters[f.Pos].Cell, 1)
			}
		}
	}
	return d.domains
}

// count adds n to the clusters of a cell that are in flight.
func (l *domainLoad) count(cell, n int) {
	if l == nil {
		return
	}
	for _, i := range l.st.Cells[cell] {
		l.inFlight[i] += n
	}
}

// full returns the first exhausted domain of a cell; nil if every domain has room.
func (l *domainLoad) full(cell int) *stages.PlannedDomain {
	if l == nil {
		return nil
	}
	for _, i := range l.st.Cells[cell] {
		if l.inFlight[i] >= l.st.Domains[i].MaxConcurrency {
			return &l.st.Domains[i]
		}
	}
	return nil
}
