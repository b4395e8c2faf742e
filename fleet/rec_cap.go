package fleet

import "github.com/slipway-dev/slipway/stages"

// capRecord is the one record of a cap that is compared and swapped.
type capRecord struct {
	Format int        `json:"format"`
	Cap    stages.Cap `json:"cap"`
}
