package record

import "github.com/slipway-dev/slipway/stages"

// Strategy is the record of a declared strategy, which is written by compare-and-swap.
type Strategy struct {
	Format   int             `json:"format"`
	Strategy stages.Strategy `json:"strategy"`
}
