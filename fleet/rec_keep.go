package fleet

import "github.com/slipway-dev/slipway/stages"

// keepRecord says who keeps a placement. It is for liveness alone.
type keepRecord struct {
	Format int            `json:"format"`
	Holder string         `json:"holder"`
	Until  stages.Instant `json:"until"`
}
