package record

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
)

// PlacementKey is that of the record of a placement.
func PlacementKey(name string) string { return "placement/" + name }

// RunKey is that of the record of a run.
func RunKey(name string) string { return "run/" + name }

// CommandKey is that of a command to the run of a UID.
func CommandKey(uid, id string) string { return "command/" + uid + "/" + id }

// PageKey is that of the nth page of what is under prefix.
func PageKey(prefix string, n int) string { return prefix + "/" + strconv.Itoa(n) }

// CapKey is that of a cap.
func CapKey(name string) string { return "cap/" + name }

// ContentPrefix begins the keys of the contents of a placement.
func ContentPrefix(placement string) string { return "content/" + placement + "/" }

// SelectionPrefix begins the keys of the selections of a placement.
func SelectionPrefix(placement string) string { return "selection/" + placement + "/" }

// SelectionPagesPrefix is that of the keys of a selection's pages.
func SelectionPagesPrefix(placement string, d *lifecycle.Selection) string {
	return SelectionPrefix(placement) + d.Digest
}

// IntentPrefix begins the keys of the intents to create runs of a placement.
func IntentPrefix(placement string) string { return "intent/" + placement + "/" }

// OwnPrefixes are those of the keys that belong to the run of a UID.
func OwnPrefixes(uid string) []string {
	return []string{"inflight/" + uid + "/", JournalPrefix(uid), CommandKey(uid, "")}
}

// DeletedKey is that of what is kept of a placement that was deleted.
func DeletedKey(placement string) string { return "deleted/" + placement }

// DeletedStream is the stream of the event that a placement is gone.
func DeletedStream(uid string) string { return "deleted." + uid }

// JournalPrefix begins the keys of the pages of a stream of events.
func JournalPrefix(stream string) string { return "journal/" + stream + "/" }

// BindingsPrefix begins the keys of the bindings of a placement.
func BindingsPrefix(name string) string { return "bindings/" + name + "/" }

// generationName distinguishes a generation of the bindings of a placement from all others.
func generationName(g lifecycle.Generation) string { return fmt.Sprintf("%d-%s", g.Generation, g.ID) }

// generationPrefix is that of the keys of a generation of the bindings of a placement.
func generationPrefix(name string, g lifecycle.Generation) string {
	return BindingsPrefix(name) + generationName(g) + "-"
}

// WatchKey is that of the lease to watch the clusters of a placement.
func WatchKey(placement string) string { return "watch/" + placement }

// DriftKey is that of what differs on a cluster.
func DriftKey(placement, cluster string) string { return "drift/" + placement + "/" + cluster }

// PlacementStream is the stream of the events of a placement.
func PlacementStream(name string) string { return "placement." + name }

// NewUID returns 128 random bits in lower-case letters and digits.
func NewUID() string { return strings.ToLower(rand.Text()) }

// KeyBytes is how long the key of a placement is.
const KeyBytes = 32

// NewKey returns the key of a placement.
func NewKey() []byte {
	key := make([]byte, KeyBytes)
	_, _ = rand.Read(key) // it never fails
	return key
}
