package record

import "github.com/slipway-dev/slipway/stages"

// Cap is the one record of a cap that is compared and swapped.
type Cap struct {
	Format int        `json:"format"`
	Cap    stages.Cap `json:"cap"`
}
