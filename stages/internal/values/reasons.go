package values

// Reasons that a step and the planner of rollbacks both give.
const (
	// NoRollback is the reason why a run without Rollback in its strategy is not rolled back.
	NoRollback = "its strategy has no rollback: roll out the snapshot that the clusters should have, by a run with its index"
	// HasLeft is the reason why a cluster that left the inventory is skipped.
	HasLeft = "Removed: the cluster has left the inventory"
)
