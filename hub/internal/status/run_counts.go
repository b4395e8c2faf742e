package status

import (
	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// clusterCounts counts all clusters, even if a status lists only some. The other clusters, up to
// total, have not started.
type clusterCounts struct {
	total, completed, inFlight, failed, skipped int
	// waiting counts the clusters that released their slot and are tried again later.
	waiting int
}

func (c *clusterCounts) add(o *clusterCounts) {
	c.total += o.total
	c.completed += o.completed
	c.inFlight += o.inFlight
	c.failed += o.failed
	c.skipped += o.skipped
	c.waiting += o.waiting
}

// form returns the counts as a type of the API.
func (c *clusterCounts) form() *v1beta1.ClusterCounts {
	return &v1beta1.ClusterCounts{
		Total: int32(c.total), Completed: int32(c.completed), InFlight: int32(c.inFlight), Failed: int32(c.failed), Skipped: int32(c.skipped),
		Waiting: int32(c.waiting),
	}
}

// countClusters counts the clusters of a run by stage.
func countClusters(plan *stages.Plan, run *runstate.Form) []clusterCounts {
	counts := make([]clusterCounts, len(plan.Stages))
	for i := range plan.Stages {
		for j := range plan.Stages[i].Groups {
			counts[i].total += plan.Stages[i].Groups[j].Len
		}
		for j := range run.Stages[i].Groups {
			counts[i].completed += run.Stages[i].Groups[j].Completed
		}
	}
	countUnsuccessful(counts, run)
	if run.Stage >= len(counts) {
		return counts
	}
	now := &counts[run.Stage]
	now.waiting = len(run.Waiting)
	for i := range run.InFlight {
		if run.InFlight[i].Attempt != 0 {
			now.inFlight++
		}
	}
	return counts
}

// countUnsuccessful counts the skipped and failed clusters. The ranges in Unsuccessful are in the
// order of the plan, and a range may cover several stages.
func countUnsuccessful(counts []clusterCounts, run *runstate.Form) {
	first, i := 0, 0
	for _, e := range run.Unsuccessful {
		for pos := e.First; pos <= e.Last; {
			for pos >= first+counts[i].total {
				first += counts[i].total
				i++
			}
			n := min(e.Last+1, first+counts[i].total) - pos
			if e.State == stages.Failed {
				counts[i].failed += n
			} else {
				counts[i].skipped += n
			}
			pos += n
		}
	}
}
