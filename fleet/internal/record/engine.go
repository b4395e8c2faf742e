package record

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages"
)

// Engine is what an engine says of itself where others have runs of the same store.
type Engine struct {
	Format int `json:"format"`
	// Runs is how many it drives, At when it said so.
	Runs int            `json:"runs"`
	At   stages.Instant `json:"at"`
}

// EnginesPrefix begins the keys of engines.
const EnginesPrefix = "engine/"

// EngineKey is that of the engine of a name, which may be one that no key can have.
func EngineKey(name string) string {
	if key := EnginesPrefix + name; backend.ValidateKey(key) == nil {
		return key
	}
	sum := sha256.Sum256([]byte(name))
	return EnginesPrefix + hex.EncodeToString(sum[:])
}
