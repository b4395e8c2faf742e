package record

import "github.com/slipway-dev/slipway/stages"

// Engine is what an engine says of itself where others have runs of the same store.
type Engine struct {
	Format int `json:"format"`
	// Runs is how many it drives, At when it said so.
	Runs int            `json:"runs"`
	At   stages.Instant `json:"at"`
}

// EnginesPrefix begins the keys of engines, which their names follow.
const EnginesPrefix = "engine/"
