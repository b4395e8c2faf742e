package record

import "github.com/slipway-dev/slipway/stages"

// WatchLease names the engine that reconciles the drift of a placement. It is for liveness only.
// The session of the holder extends it past Until.
type WatchLease struct {
	Format int            `json:"format"`
	Holder string         `json:"holder"`
	Until  stages.Instant `json:"until"`
}
