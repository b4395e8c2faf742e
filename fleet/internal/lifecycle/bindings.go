package lifecycle

import (
	"maps"
	"slices"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// None is the index that stands for no snapshot.
const None = -1

// Binding holds the snapshots that a cluster may have.
type Binding struct {
	// ProvenIndex is the index of the snapshot that the cluster was proven to have. Attempted is
	// the index of the last snapshot that a run tried to bring; the cluster may have parts of it.
	// Either may be [None].
	ProvenIndex int `json:"provenIndex"`
	Attempted   int `json:"attempted"`
	// Revision is the digest of the cluster's content of ProvenIndex, after overrides; empty if
	// unknown.
	Revision string `json:"revision,omitempty"`
	// Policy is the index, plus one, of the selection whose run last proved that the cluster has
	// ProvenIndex; 0 if unknown. A selection by another policy has another index.
	Policy int `json:"policy,omitempty"`
	// Unproven reports whether a run has begun to change the cluster since ProvenIndex was last
	// proven. Then the cluster may be unavailable, also if Attempted equals ProvenIndex.
	Unproven bool `json:"unproven,omitempty"`
}

// Bindings holds the bindings of the clusters that may have objects of the placement, by name, as
// far as runs brought them that have ended or were deleted. A cluster that an admitted run updates
// has a binding until that run has ended, an empty one at first. Bindings are stored in pages,
// separately from the state, which names the current generation.
type Bindings map[string]Binding

// Generation names stored bindings: each change makes a new generation.
type Generation struct {
	Generation int64 `json:"generation,omitempty"`
	// ID identifies the writer. Several engines may write a generation, but only one commits it.
	ID    string `json:"id,omitempty"`
	Pages int    `json:"pages,omitempty"`
}

// ClustersPerPage is the maximum number of clusters in a stored page of bindings.
const ClustersPerPage = 1000

// Pages returns the names of the clusters, ascending, divided into the stored pages.
func (b Bindings) Pages() [][]string {
	return slices.Collect(slices.Chunk(slices.Sorted(maps.Keys(b)), ClustersPerPage))
}

func (b Bindings) pages() int { return (len(b) + ClustersPerPage - 1) / ClustersPerPage }

// Of returns the binding of a cluster, an empty one if it has none.
func (b Bindings) Of(cluster string) Binding {
	if h, known := b[cluster]; known {
		return h
	}
	return Binding{ProvenIndex: None, Attempted: None}
}

// HasNothing reports whether the cluster is known to have nothing.
func (h Binding) HasNothing() bool { return h.ProvenIndex == None && h.Attempted == None }

// InUse returns the indexes that a cluster may have, ascending.
func (b Bindings) InUse() []int {
	all := map[int]bool{}
	for _, h := range b {
		all[h.ProvenIndex], all[h.Attempted] = true, true
	}
	delete(all, None)
	return slices.Sorted(maps.Keys(all))
}

// Names reports whether the state refers to a generation of the bindings: the current generation,
// or the generation that a rollback restores. The pages of all other generations are garbage.
func (s *State) Names(g Generation) bool {
	return s.Bindings == g || s.Base != nil && s.Base.Bindings == g
}

// set sets the binding of a cluster and reports whether that changes it.
func (b Bindings) set(cluster string, h Binding) bool {
	old, known := b[cluster]
	b[cluster] = h
	return !known || old != h
}

// attempt records that a cluster may have parts of the snapshot with this index.
func (b Bindings) attempt(cluster string, index int) bool {
	h := b.Of(cluster)
	h.Attempted, h.Unproven = index, true
	return b.set(cluster, h)
}

// add adds empty bindings for the clusters that a run updates, and reports whether one is new.
func (b Bindings) add(clusters []string) (changed bool) {
	for _, name := range clusters {
		changed = b.set(name, b.Of(name)) || changed
	}
	return changed
}

// remove records that a cluster was cleaned, and reports whether it had a binding.
func (b Bindings) remove(cluster string) bool {
	_, known := b[cluster]
	delete(b, cluster)
	return known
}

// lose empties the binding of a cluster that has left the inventory, and keeps it: the cluster must
// be cleaned if it comes back or another run plans to update it. The snapshots of the binding are
// no longer needed.
func (b Bindings) lose(cluster string) bool {
	_, known := b[cluster]
	return known && b.set(cluster, Binding{ProvenIndex: None, Attempted: None})
}

// cleaned returns the clusters with bindings that a run has cleaned.
func (b Bindings) cleaned(r *Result) map[string]bool {
	out := map[string]bool{}
	for i := range r.Clusters {
		c := &r.Clusters[i]
		if _, known := b[c.Cluster]; known && c.Index == None && c.Got == Proven {
			out[c.Cluster] = true
		}
	}
	return out
}

// take records the result of a run that has ended, and reports whether that changes anything. A
// cleaned cluster keeps an empty binding if another admitted run plans to update it: without the
// binding, a deletion of that run could not know that the cluster may have objects.
func (b Bindings) take(r *Result, planned map[string]bool) (changed bool) {
	for i := range r.Clusters {
		switch c := &r.Clusters[i]; {
		case c.Got == Untouched:
		case c.Got == Gone:
			if c.Index != None {
				changed = b.add([]string{c.Cluster}) || changed
			}
			changed = b.lose(c.Cluster) || changed
		case c.Index == None && c.Got != Proven:
		case c.Index == None && planned[c.Cluster]:
			changed = b.lose(c.Cluster) || changed
		case c.Index == None:
			changed = b.remove(c.Cluster) || changed
		case c.Got == Proven:
			changed = b.set(c.Cluster, Binding{ProvenIndex: c.Index, Attempted: c.Index, Revision: c.Revision, Policy: r.Policy}) || changed
		default:
			changed = b.attempt(c.Cluster, c.Index) || changed
		}
	}
	for _, name := range r.Left {
		changed = b.lose(name) || changed
	}
	return changed
}

// markAttempted records that the clusters of a deleted run may have parts of its snapshot, and
// reports whether that changes anything. Clusters that the run should have cleaned keep their
// bindings, because it is not certain that they are clean.
func (b Bindings) markAttempted(r *Result) (changed bool) {
	for i := range r.Clusters {
		if c := &r.Clusters[i]; c.Index != None && c.Got != Untouched {
			changed = b.attempt(c.Cluster, c.Index) || changed
		}
	}
	return changed
}

// markAllAttempted records that each cluster with a binding may have parts of the snapshot with
// this index.
func (b Bindings) markAllAttempted(index int) {
	for name := range b {
		b.attempt(name, index)
	}
}

// unplanned returns the clusters that may have objects and are not in the plan of the run,
// ascending.
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

// The values of [Got].
const (
	// Untouched means that the run did not begin with the cluster.
	Untouched Got = iota
	// Attempted means that the run began with the cluster and its content is not proven.
	Attempted
	// Proven means that the cluster was proven to have the content of the plan, or to be clean.
	Proven
	// Gone means that the cluster has left the inventory.
	Gone
)

// Reached is the result of a run on a cluster of its plan.
type Reached struct {
	Cluster string
	// Index is the index of the snapshot for the cluster, [None] if the plan cleans it. Revision is
	// the digest of its content.
	Index    int
	Revision string
	Got      Got
}

// Result is the result of a run on its clusters. [ResultOf] makes one; the driver sets the fields
// that only the host knows.
type Result struct {
	State   stages.State
	Attempt int
	// Index is the index of the plan. Clusters are the clusters of the plan, in its order.
	Index    int
	Clusters []Reached
	// Left are the clusters that had left the inventory when the run was planned; empty unless it
	// has completed.
	Left []string
	// Changed is the number of clusters that the run may have changed. Started reports whether it
	// has begun with any cluster.
	Changed int
	Started bool
	// Complete reports whether every cluster of the plan that is still in the inventory has the
	// content of the plan.
	Complete bool
	// RollsBack is the name of the run that this run rolls back. NoRollback reports whether the
	// strategy lacks a rollback, so that this run cannot be rolled back.
	RollsBack  string
	NoRollback bool
	// RollbackRequest is the request to roll the run back, nil if there is none.
	RollbackRequest *stages.RollbackRequest

	// Whole reports whether the run covers every cluster of its selection; a catch-up run does not.
	Whole bool
	// Final reports whether the run can never be rolled back, because it only reported, or cleaned
	// the clusters of a placement that is deleted.
	Final bool
	// Policy is the index, plus one, of the selection that picked the clusters; 0 if unknown.
	Policy int
	// RollbackName is the name of the run that rolls this run back if RollbackRequest has none.
	RollbackName string
}

// ResultOf returns the result of the run r of the plan p. If r is nil or does not match the plan,
// for example because its clusters in flight were not read, each cluster counts as possibly
// changed.
func ResultOf(p *stages.Plan, r *step.Run) Result {
	out := Result{Index: p.Index, NoRollback: p.Strategy.Rollback == nil, Clusters: make([]Reached, len(p.Clusters))}
	if p.Rollback != nil {
		out.RollsBack = p.Rollback.Run
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
			out.Clusters[pos].Got = Proven
		case stages.Skipped:
			if x := runstate.UnsuccessfulAt(r.Form(runstate.Key{}).Unsuccessful, pos); x.Attempts == 0 && !x.Sent {
				out.Clusters[pos].Got = Untouched
			}
		default:
		}
		if r.MayHaveChanged(pos, state) {
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
