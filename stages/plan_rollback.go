package stages

import (
	"slices"
)

// IndexAt returns the index of the snapshot that the cluster at pos gets, or -1 if the cluster
// is cleaned. It differs from p.Index only in the plan of a rollback.
func (p *Plan) IndexAt(pos int) int {
	switch r := p.Clusters[pos].Revision; {
	case r < 0:
		return -1
	case p.Rollback != nil:
		return p.Rollback.Indexes[r]
	default:
		return p.Index
	}
}

// Includes reports whether a cause makes a run of the strategy roll back.
func (b *RollbackPolicy) Includes(c RollbackCause) bool {
	switch {
	case b == nil:
		return false
	case c == OnCommand, len(b.Causes) == 0:
		return true
	default:
		return slices.Contains(b.Causes, c)
	}
}

// Absent explains why a plan does not have a cluster.
func (b *PlannedRollback) Absent(cluster string) string {
	if b == nil {
		return "if it joined or was picked after the plan was made, a catch-up run takes it"
	}
	for _, k := range b.Kept {
		if slices.Contains(k.Clusters, cluster) {
			return "it stays as run " + b.Run + " left it: " + k.Reason
		}
	}
	return "run " + b.Run + ", which is rolled back, did not change it, or it has its earlier revision again"
}

// AsBefore returns the end of a sentence about a cluster that was rolled back.
func (b *PlannedRollback) AsBefore() string {
	if b == nil {
		return ""
	}
	return ", as before run " + b.Run
}
