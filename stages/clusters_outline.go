package stages

import (
	"iter"
	"time"
)

// ClusterOutline is the place of a cluster in a plan and its state in a run.
type ClusterOutline struct {
	Name  string `json:"name"`
	Stage string `json:"stage"`
	Group string `json:"group,omitempty"`
	State State  `json:"state"`
	// Phase is the name of the phase of a cluster in flight, and Since the time when it
	// started; see [InFlight].
	Phase string    `json:"phase,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Message explains the state: the condition that a cluster in flight waits for, the
	// last failure of a cluster that waits for a retry, or the reason of a failed or
	// skipped cluster.
	Message string `json:"message,omitempty"`
}

// Clusters yields every cluster of the plan, by position, like [States]. A host shows them
// beside the outline of [Derive].
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
