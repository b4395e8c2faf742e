package fleet

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/stages/lifecycle"
)

func placementKey(name string) string { return "placement/" + name }

func runKey(name string) string { return "run/" + name }

func commandKey(uid, id string) string { return "command/" + uid + "/" + id }

func pageKey(prefix string, n int) string { return prefix + "/" + strconv.Itoa(n) }

func capKey(name string) string { return "cap/" + name }

func contentPrefix(placement string) string { return "content/" + placement + "/" }

func decisionPrefix(placement string) string { return "decision/" + placement + "/" }

// pagesPrefix is that of the keys of a decision's pages.
func pagesPrefix(placement string, d *lifecycle.Decision) string {
	return decisionPrefix(placement) + d.Digest
}

func begunPrefix(placement string) string { return "begun/" + placement + "/" }

// ownPrefixes are those of the keys that belong to the run of a UID.
func ownPrefixes(uid string) []string {
	return []string{"flight/" + uid + "/", journalPrefix(uid), commandKey(uid, "")}
}

func deletedKey(placement string) string { return "deleted/" + placement }

// deletedStream is the stream of the event that a placement is gone.
func deletedStream(uid string) string { return "deleted." + uid }

func journalPrefix(stream string) string { return "journal/" + stream + "/" }

func bindingsPrefix(name string) string { return "bindings/" + name + "/" }

// generationPrefix is that of the keys of a generation of the bindings of a placement.
func generationPrefix(name string, g lifecycle.Generation) string {
	return fmt.Sprintf("%s%d-%s-", bindingsPrefix(name), g.Generation, g.ID)
}

func keepKey(placement string) string { return "keep/" + placement }

func sightingKey(placement, cluster string) string { return "drift/" + placement + "/" + cluster }

func placementStream(name string) string { return "placement." + name }

// newUID returns 128 random bits in lower-case letters and digits.
func newUID() string { return strings.ToLower(rand.Text()) }

const keyBytes = 32

// newKey returns the key of a placement.
func newKey() []byte {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // it never fails
	return key
}
