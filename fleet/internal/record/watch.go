package record

import "github.com/slipway-dev/slipway/stages"

// WatchLease says who keeps a placement. It is for liveness alone.
type WatchLease struct {
	Format int            `json:"format"`
	Holder string         `json:"holder"`
	Until  stages.Instant `json:"until"`
}
