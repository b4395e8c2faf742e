package record

import "github.com/slipway-dev/slipway/stages"

// Cap is the record of a cap, which is written by compare-and-swap.
type Cap struct {
	Format int        `json:"format"`
	Cap    stages.Cap `json:"cap"`
}
