package record

import "github.com/slipway-dev/slipway/drift"

// Drift is the last report about a cluster that differs. A cluster without differences has none.
type Drift struct {
	Format int `json:"format"`
	drift.ClusterReport
}
