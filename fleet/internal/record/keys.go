package record

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
)

// PlacementKey returns the key of the record of a placement.
func PlacementKey(name string) string { return "placement/" + name }

// RunKey returns the key of the record of a run.
func RunKey(name string) string { return "run/" + name }

// CommandKey returns the key of a command for the run with this UID.
func CommandKey(uid, id string) string { return "command/" + uid + "/" + id }

// PageKey returns the key of the nth page under a prefix.
func PageKey(prefix string, n int) string { return prefix + "/" + strconv.Itoa(n) }

// CapKey returns the key of a cap.
func CapKey(name string) string { return "cap/" + name }

// StrategyKey returns the key of a declared strategy.
func StrategyKey(name string) string { return "strategy/" + name }

// ContentPrefix returns the prefix of the keys of a placement's contents.
func ContentPrefix(placement string) string { return "content/" + placement + "/" }

// SelectionPrefix returns the prefix of the keys of a placement's selections.
func SelectionPrefix(placement string) string { return "selection/" + placement + "/" }

// SelectionPagesPrefix returns the prefix of the keys of a selection's pages.
func SelectionPagesPrefix(placement string, d *lifecycle.Selection) string {
	return SelectionPrefix(placement) + d.Digest
}

// IntentPrefix returns the prefix of the keys of a placement's intents.
func IntentPrefix(placement string) string { return "intent/" + placement + "/" }

// OwnPrefixes returns the prefixes of the keys that belong only to the run with this UID.
func OwnPrefixes(uid string) []string {
	return []string{"inflight/" + uid + "/", JournalPrefix(uid), CommandKey(uid, "")}
}

// DeletedKey returns the key of the record that remains of a deleted placement.
func DeletedKey(placement string) string { return "deleted/" + placement }

// DeletedStream returns the stream of the event that a placement is gone.
func DeletedStream(uid string) string { return "deleted." + uid }

// JournalPrefix returns the prefix of the keys of the pages of an event stream.
func JournalPrefix(stream string) string { return "journal/" + stream + "/" }

// BindingsPrefix returns the prefix of the keys of a placement's bindings.
func BindingsPrefix(name string) string { return "bindings/" + name + "/" }

// generationName returns a unique name for a generation of the bindings of a placement.
func generationName(g lifecycle.Generation) string { return fmt.Sprintf("%d-%s", g.Generation, g.ID) }

// generationPrefix returns the prefix of the keys of a generation of a placement's bindings.
func generationPrefix(name string, g lifecycle.Generation) string {
	return BindingsPrefix(name) + generationName(g) + "-"
}

// WatchKey returns the key of the lease to watch the clusters of a placement.
func WatchKey(placement string) string { return "watch/" + placement }

// DriftKey returns the key of the drift record of a cluster.
func DriftKey(placement, cluster string) string { return "drift/" + placement + "/" + cluster }

// PlacementStream returns the stream of the events of a placement.
func PlacementStream(name string) string { return "placement." + name }

// NewUID returns 128 random bits in lower-case letters and digits.
func NewUID() string { return strings.ToLower(rand.Text()) }

// KeyBytes is the length of a placement's key, in bytes.
const KeyBytes = 32

// NewKey returns a random key for a placement.
func NewKey() []byte {
	key := make([]byte, KeyBytes)
	_, _ = rand.Read(key) // it never fails
	return key
}
