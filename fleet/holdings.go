package fleet

import (
	"cmp"
	"maps"
	"slices"

	"github.com/slipway-dev/slipway/stages"
)

// none is the index of no snapshot.
const none = -1

// holding says what a cluster may hold: the snapshot that it last came to, and
// the one that a run last tried to bring it, which may have got there in part.
type holding struct {
	Proven int `json:"proven"`
	Tried  int `json:"tried"`
	// Revision is the digest of what it got of the snapshot that it came to, after
	// overrides; empty where there is none.
	Revision string `json:"revision,omitempty"`
}

func (h holding) compare(other holding) int {
	return cmp.Or(cmp.Compare(h.Proven, other.Proven), cmp.Compare(h.Tried, other.Tried), cmp.Compare(h.Revision, other.Revision))
}

// roster is what the clusters that may hold something of a placement may hold,
// as far as runs that have ended or were deleted brought it.
type roster map[string]holding

// set changes what is known of a cluster and reports whether that is new.
func (r roster) set(name string, h holding) bool {
	old, known := r[name]
	r[name] = h
	return !known || old != h
}

// of returns what a cluster may hold.
func (r roster) of(name string) holding {
	if h, known := r[name]; known {
		return h
	}
	return holding{Proven: none, Tried: none}
}

// try takes in that a cluster may hold the snapshot of index, in part.
func (r roster) try(name string, index int) bool {
	h := r.of(name)
	h.Tried = index
	return r.set(name, h)
}

// groups puts clusters together that may hold the same.
func (r roster) groups(names []string) []rosterGroup {
	by := map[holding][]string{}
	for _, name := range names {
		by[r[name]] = append(by[r[name]], name)
	}
	var out []rosterGroup
	for _, h := range slices.SortedFunc(maps.Keys(by), holding.compare) {
		out = append(out, rosterGroup{h, by[h]})
	}
	return out
}

// inUse are the indexes that a cluster may hold, ascending.
func (r roster) inUse() []int {
	all := map[int]bool{}
	for _, h := range r {
		all[h.Proven], all[h.Tried] = true, true
	}
	delete(all, none)
	return slices.Sorted(maps.Keys(all))
}

// enrol takes in the clusters that a plan updates, and reports whether that is
// anything new.
func (r roster) enrol(p *stages.Plan) bool {
	fresh := false
	for i := range p.Clusters {
		if c := &p.Clusters[i]; c.Revision >= 0 && r.set(c.Name, r.of(c.Name)) {
			fresh = true
		}
	}
	return fresh
}

// take takes in what a run that has ended brought to its clusters, and tells
// whether that is anything new.
func (r roster) take(p *stages.Plan, run *stages.Run) bool {
	fresh := false
	for pos, state := range stages.States(p, run) {
		c := &p.Clusters[pos]
		switch {
		case c.Revision < 0:
			fresh = state == stages.Completed && r.strikeOff(c.Name) || fresh
		case state == stages.Completed:
			index := p.IndexAt(pos)
			fresh = r.set(c.Name, holding{index, index, p.Revisions[c.Revision]}) || fresh
		case state != stages.NotStarted:
			fresh = r.try(c.Name, p.IndexAt(pos)) || fresh
		}
	}
	for _, x := range run.Exceptions {
		for pos := x.First; x.Gone && pos <= x.Last && pos < len(p.Clusters); pos++ {
			fresh = r.lose(p.Clusters[pos].Name) || fresh
		}
	}
	return fresh
}

// doubt takes in that clusters of a run that was deleted may hold what it
// brought. Where the run is not known, that may be each of them. That one was
// cleaned is not sure.
func (r roster) doubt(p *stages.Plan, run *stages.Run) bool {
	fresh := false
	untouched := map[int]bool{}
	if run != nil {
		for pos, state := range stages.States(p, run) {
			untouched[pos] = state == stages.NotStarted
		}
	}
	for pos := range p.Clusters {
		if c := &p.Clusters[pos]; c.Revision >= 0 && !untouched[pos] {
			fresh = r.try(c.Name, p.IndexAt(pos)) || fresh
		}
	}
	return fresh
}

// doubtAll takes in that each cluster may hold the snapshot of index.
func (r roster) doubtAll(index int) {
	for name := range r {
		r.try(name, index)
	}
}

// strikeOff takes in that a cluster was cleaned.
func (r roster) strikeOff(name string) bool {
	_, known := r[name]
	delete(r, name)
	return known
}

// lose takes in that a cluster has left the inventory: what it may hold is no
// longer needed, and if it comes back it is to be cleaned still.
func (r roster) lose(name string) bool {
	_, known := r[name]
	return known && r.set(name, holding{Proven: none, Tried: none})
}

// strangers are the clusters that may hold something and that a plan does not
// know.
func (r roster) strangers(p *stages.Plan) []string {
	var out []string
	for name, h := range r {
		if _, ok := p.Position(name); !ok && h != (holding{Proven: none, Tried: none}) {
			out = append(out, name)
		}
	}
	return out
}
