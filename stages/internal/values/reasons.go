package values

// Reasons that a step and the planner of rollbacks both give.
const (
	// NoRollback is why a run whose strategy has no Rollback is not rolled back.
	NoRollback = "its strategy has no rollback: roll out the snapshot that is to be there, in a run of its own"
	// HasLeft is why a cluster is skipped that has left the inventory.
	HasLeft = "Removed: the cluster has left the inventory"
)
