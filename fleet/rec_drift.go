package fleet

import "github.com/slipway-dev/slipway/fleet/internal/member"

// sightingRecord is what was last seen of a cluster that differs. A cluster that
// does not differ has none.
type sightingRecord struct {
	Format int `json:"format"`
	member.ClusterDrift
}
