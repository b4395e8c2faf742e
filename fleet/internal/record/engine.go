package record

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages"
)

// Engine is the session of an engine: the engine renews it while it drives runs, watches placements, or shares runs with
// other engines. It extends every lease that names the engine as its holder.
type Engine struct {
	Format int `json:"format"`
	// Runs is how many runs the engine drives, At when it renewed the session, Until when the session ends, by its clock.
	Runs  int            `json:"runs"`
	At    stages.Instant `json:"at"`
	Until stages.Instant `json:"until,omitempty"`
	// Lapsed are the keys of the records whose lease names the engine and that the session does not extend, because the engine
	// makes no progress with them or has let them go.
	Lapsed []string `json:"lapsed,omitempty"`
	// Ending reports whether the engine is about to end, and takes no more runs.
	Ending bool `json:"ending,omitempty"`
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
