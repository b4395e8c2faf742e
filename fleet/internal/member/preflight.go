package member

import (
	"context"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Preflighter is an [Updater] that can reject a plan before it is recorded.
type Preflighter interface {
	Updater
	// Preflight is called with what a plan would bring to clusters, before the plan is
	// recorded: by Preview, CreateRun, CatchUp, PreviewRollback and Rollback, and where
	// a run is taken back without being asked for. Its error is theirs, and nothing has
	// been started or stored then; it should name everything that is wrong. It changes
	// nothing, may be called more than once for a plan, and takes no longer than a
	// call may, whatever the number of clusters. Clusters that a plan cleans are not
	// among them.
	Preflight(ctx context.Context, intents []Intent) error
}

// Intent is what a plan would bring to some clusters.
type Intent struct {
	Placement string
	// Revision is the digest of Content, what the clusters are to have.
	Revision string
	Content  snapshot.Set
	// Clusters are in the order of the plan, as the inventory has them.
	Clusters []placement.Cluster
}
