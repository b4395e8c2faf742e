package record

import "github.com/slipway-dev/slipway/stages"

// WatchLease names the engine that reconciles the drift of a placement. It is for liveness only.
type WatchLease struct {
	Format int            `json:"format"`
	Holder string         `json:"holder"`
	Until  stages.Instant `json:"until"`
}
