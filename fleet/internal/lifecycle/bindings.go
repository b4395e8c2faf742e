package lifecycle

import (
	"maps"
	"slices"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// None is the index of no snapshot.
const None = -1

// Binding is what a cluster may have of the placement.
type Binding struct {
	// Applied is the index of the snapshot that the cluster was proven to have, Attempted that of the one which
	// a run last tried to bring it, of which it may have parts; either may be [None].
	Applied   int `json:"applied"`
	Attempted int `json:"attempted"`
	// Revision is the digest of what it got of Applied, after overrides; empty where that is not known.
	Revision string `json:"revision,omitempty"`
	// Policy is the index of the selection, plus one, whose run proved the cluster to have Applied last; 0 where that is
	// not known. A selection by another policy has another index.
	Policy int `json:"policy,omitempty"`
}

// Bindings is what the clusters that may have something of the placement may have, by name, as far as it was
// brought by runs that have ended or were deleted. A cluster that an admitted run is to update is among them
// until that run has ended, with nothing at first. It is stored in pages, apart from the state, which names the
// generation that counts.
type Bindings map[string]Binding

// Generation names bindings as they are stored: each change makes another one.
type Generation struct {
	Generation int64 `json:"generation,omitempty"`
	// ID identifies the writer of a generation; one of several commits.
	ID    string `json:"id,omitempty"`
	Pages int    `json:"pages,omitempty"`
}

// ClustersPerPage bounds a stored page of the bindings.
const ClustersPerPage = 1000

// Pages returns the names of the clusters, ascending, as the pages in which they are stored.
func (b Bindings) Pages() [][]string {
	return slices.Collect(slices.Chunk(slices.Sorted(maps.Keys(b)), ClustersPerPage))
}

func (b Bindings) pages() int { return (len(b) + ClustersPerPage - 1) / ClustersPerPage }

// Of returns what a cluster may have.
func (b Bindings) Of(cluster string) Binding {
	if h, known := b[cluster]; known {
		return h
	}
	return Binding{Applied: None, Attempted: None}
}

// HasNothing reports whether the cluster has nothing, as far as is known.
func (h Binding) HasNothing() bool { return h.Applied == None && h.Attempted == None }

// InUse are the indexes that a cluster may have, ascending.
func (b Bindings) InUse() []int {
	all := map[int]bool{}
	for _, h := range b {
		all[h.Applied], all[h.Attempted] = true, true
	}
	delete(all, None)
	return slices.Sorted(maps.Keys(all))
}

// Names reports whether the state refers to a generation of the bindings: the current one, or that which a run
// can be rolled back to. Pages of others are garbage.
func (s *State) Names(g Generation) bool {
	return s.Bindings == g || s.Base != nil && s.Base.Bindings == g
}

// set changes what is known of a cluster and reports whether that is new.
func (b Bindings) set(cluster string, h Binding) bool {
	old, known := b[cluster]
	b[cluster] = h
	return !known || old != h
}

// attempt records that a cluster may have the snapshot of index, in part.
func (b Bindings) attempt(cluster string, index int) bool {
	h := b.Of(cluster)
	h.Attempted = index
	return b.set(cluster, h)
}

// add adds clusters that a run is to update, with nothing, and reports whether one is new.
func (b Bindings) add(clusters []string) (changed bool) {
	for _, name := range clusters {
		changed = b.set(name, b.Of(name)) || changed
	}
	return changed
}

// remove records that a cluster was cleaned.
func (b Bindings) remove(cluster string) bool {
	_, known := b[cluster]
	delete(b, cluster)
	return known
}

// lose records that a cluster has nothing that is needed, and keeps its binding: the cluster has left the inventory
// and must be cleaned if it comes back, or another run plans to update it.
func (b Bindings) lose(cluster string) bool {
	_, known := b[cluster]
	return known && b.set(cluster, Binding{Applied: None, Attempted: None})
}

// cleaned returns the clusters of the bindings that a run which has ended has cleaned.
func (b Bindings) cleaned(r *Result) map[string]bool {
	out := map[string]bool{}
	for i := range r.Clusters {
		c := &r.Clusters[i]
		if _, known := b[c.Cluster]; known && c.Index == None && c.Got == Applied {
			out[c.Cluster] = true
		}
	}
	return out
}

// take records what a run that has ended brought to its clusters, and reports whether that changes anything. A
// cluster that it cleaned keeps a binding, with nothing, if another admitted run plans to update it: without one, a
// deletion of that run could not tell that the cluster may have something.
func (b Bindings) take(r *Result, planned map[string]bool) (changed bool) {
	for i := range r.Clusters {
		switch c := &r.Clusters[i]; {
		case c.Got == Untouched:
		case c.Got == Gone:
			if c.Index != None {
				changed = b.add([]string{c.Cluster}) || changed
			}
			changed = b.lose(c.Cluster) || changed
		case c.Index == None && c.Got != Applied:
		case c.Index == None && planned[c.Cluster]:
			changed = b.lose(c.Cluster) || changed
		case c.Index == None:
			changed = b.remove(c.Cluster) || changed
		case c.Got == Applied:
			changed = b.set(c.Cluster, Binding{c.Index, c.Index, c.Revision, r.Policy}) || changed
		default:
			changed = b.attempt(c.Cluster, c.Index) || changed
		}
	}
	for _, name := range r.Left {
		changed = b.lose(name) || changed
	}
	return changed
}

// doubt records that the clusters of a run that was deleted may have what it brought, and reports whether that
// changes anything. That one of them was cleaned is not certain.
func (b Bindings) doubt(r *Result) (changed bool) {
	for i := range r.Clusters {
		if c := &r.Clusters[i]; c.Index != None && c.Got != Untouched {
			changed = b.attempt(c.Cluster, c.Index) || changed
		}
	}
	return changed
}

// doubtAll records that each cluster may have the snapshot of index.
func (b Bindings) doubtAll(index int) {
	for name := range b {
		b.attempt(name, index)
	}
}

// unplanned are the clusters that may have something and that a run did not know, ascending.
func (b Bindings) unplanned(r *Result) (out []string) {
	planned := make(map[string]bool, len(r.Clusters))
	for i := range r.Clusters {
		planned[r.Clusters[i].Cluster] = true
	}
	for name, h := range b {
		if !planned[name] && !h.HasNothing() {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Got is the result of a run on a cluster.
type Got int

// What that can be.
const (
	// Untouched: the run did not begin with it.
	Untouched Got = iota
	// Attempted: the run began with it, and what it has is not proven.
	Attempted
	// Applied: it was proven to have what the plan says, or to be clean.
	Applied
	// Gone: it has left the inventory.
	Gone
)

// Reached is the result of a run on a cluster of its plan.
type Reached struct {
	Cluster string
	// Index is that of the snapshot which the cluster gets, [None] for one that is cleaned; Revision the digest
	// of what it gets.
	Index    int
	Revision string
	Got      Got
}

// Result is the result of a run on its clusters. [ResultOf] makes one; what only the host knows of the run is
// set by the driver.
type Result struct {
	State   stages.State
	Attempt int
	// Index is that of the plan. Clusters are those of the plan, in its order.
	Index    int
	Clusters []Reached
	// Left are those that had left the inventory when a run was planned that has completed.
	Left []string
	// Changed counts the clusters that the run may have changed. Started reports whether it has begun with any.
	Changed int
	Started bool
	// Complete reports whether every cluster of the plan that is still there has what the plan says.
	Complete bool
	// TakesBack names the run that this one rolls back. NoRollback reports whether the strategy does not say how it is
	// rolled back itself.
	TakesBack  string
	NoRollback bool
	// RollbackRequest is set where the run is to be rolled back.
	RollbackRequest *stages.RollbackRequest

	// Whole reports whether the run covers every cluster of its selection: a catch-up run does not.
	Whole bool
	// Final reports whether what the run did can never be rolled back: it only reported, or cleaned the clusters of a
	// placement that is deleted.
	Final bool
	// Policy is the index of the selection that picked the clusters, plus one; 0 where that is not known.
	Policy int
	// RollbackName is the name of the run that rolls this one back, where RollbackRequest has none.
	RollbackName string
}

// ResultOf returns the result of the run r of the plan p. Where r is nil or not one of the plan, as when its
// clusters in flight were not read, each cluster may have been changed.
func ResultOf(p *stages.Plan, r *step.Run) Result {
	out := Result{Index: p.Index, NoRollback: p.Strategy.Rollback == nil, Clusters: make([]Reached, len(p.Clusters))}
	if p.Rollback != nil {
		out.TakesBack = p.Rollback.Run
	}
	for pos := range p.Clusters {
		c := &p.Clusters[pos]
		out.Clusters[pos] = Reached{Cluster: c.Name, Index: p.IndexAt(pos), Got: Attempted}
		if c.Revision >= 0 {
			out.Clusters[pos].Revision = p.Revisions[c.Revision]
		}
	}
	if r == nil || r.Check(p) != nil {
		out.Changed, out.Started = len(p.Clusters), true
		return out
	}
	out.State, out.Attempt, out.Started, out.RollbackRequest = r.State, r.Attempt, r.Started != 0, r.Form(runstate.Key{}).RollbackRequest
	for pos, state := range r.States(p) {
		switch state {
		case stages.NotStarted:
			out.Clusters[pos].Got = Untouched
		case stages.Completed:
			out.Clusters[pos].Got = Applied
		default:
		}
		if r.IsTouched(pos, state) {
			out.Changed++
		}
	}
	out.Complete = r.State == stages.Completed
	if out.Complete {
		out.Left = p.Left
	}
	for _, x := range r.Form(runstate.Key{}).Unsuccessful {
		out.Complete = out.Complete && x.Gone
		for pos := x.First; x.Gone && pos <= x.Last && pos < len(p.Clusters); pos++ {
			out.Clusters[pos].Got = Gone
		}
	}
	return out
}
