package record

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages"
)

// Engine is the session of an engine. The engine renews it while it drives runs, watches
// placements, or divides runs with other engines. The session extends every lease that names the
// engine as its holder.
type Engine struct {
	Format int `json:"format"`
	// Runs is the number of runs that the engine drives. At is the time of the last renewal, Until
	// the end of the session, both by the engine's clock.
	Runs  int            `json:"runs"`
	At    stages.Instant `json:"at"`
	Until stages.Instant `json:"until,omitempty"`
	// Lapsed are the keys of records whose leases name the engine but are not extended by the
	// session, because the engine makes no progress with them or has let them go.
	Lapsed []string `json:"lapsed,omitempty"`
	// Ending reports whether the engine is about to stop and takes no more runs.
	Ending bool `json:"ending,omitempty"`
}

// EnginesPrefix is the prefix of the keys of engines.
const EnginesPrefix = "engine/"

// EngineKey returns the key of the engine with this name. If no key can contain the name, the key
// contains its SHA-256 digest.
func EngineKey(name string) string {
	if key := EnginesPrefix + name; backend.ValidateKey(key) == nil {
		return key
	}
	sum := sha256.Sum256([]byte(name))
	return EnginesPrefix + hex.EncodeToString(sum[:])
}
