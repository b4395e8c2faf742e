package stages

import (
	"iter"
	"time"
)

// ClusterOutline is where a cluster stands in a plan, and what it has come to in a run.
type ClusterOutline struct {
	Name  string `json:"name"`
	Stage string `json:"stage"`
	Group string `json:"group,omitempty"`
	State State  `json:"state"`
	// Phase is that of a cluster in flight by its name, and Since is when the cluster started; see [InFlight].
	Phase string    `json:"phase,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Message is why the cluster is not further: of one in flight what it waits for, of one that waits to be started
	// again what failed, and of one that has failed or was skipped the reason.
	Message string `json:"message,omitempty"`
}

// Clusters yields every cluster of the plan, by position, as [States] does. A host shows them beside the outline of
// [Derive].
func Clusters(p *Plan, r *Run) iter.Seq[ClusterOutline] {
	return func(yield func(ClusterOutline) bool) {
		book := NewLookup(p, r)
		for pos, state := range States(p, r) {
			stage, group := p.StageOf(pos)
			c := ClusterOutline{Name: p.Clusters[pos].Name, Stage: p.Stages[stage].Name, Group: p.Stages[stage].Groups[group].Name, State: state}
			switch state { //nolint:exhaustive // the others say nothing more
			case Running:
				f := book.InFlight(pos)
				c.Phase, c.Since, c.Message = f.Phase.String(), f.Started.Time(), f.Message
			case Pending:
				if out := r.DeferredAt(p, pos); out != nil {
					c.Message = out.Reason
				} else {
					c.Message = book.Retrying(pos).Message
				}
			case Failed, Skipped:
				c.Message = UnsuccessfulAt(r.Unsuccessful, pos).Reason
			}
			if !yield(c) {
				return
			}
		}
	}
}
