package record

import "github.com/slipway-dev/slipway/drift"

// Drift is what was last seen of a cluster that differs. A cluster that
// does not differ has none.
type Drift struct {
	Format int `json:"format"`
	drift.ClusterReport
}
