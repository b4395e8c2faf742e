package member

import (
	"encoding/json"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/internal/keyed"
	"github.com/slipway-dev/slipway/snapshot"
)

const (
	// baselineKey is the key in the data of a ledger's ConfigMap under which what
	// the objects were right after they were applied is kept. It stands beside the
	// ledger, not in it: a writer that does not know it drops it, and then nothing is
	// explained by it.
	baselineKey = "baseline"
	// baselineFormat is the version that is written, and the only one that is read.
	baselineFormat = 1
	// baselineMost bounds all baselines of a ledger.
	baselineMost = 256 << 10
)

// baselineRecord is the stored form.
type baselineRecord struct {
	Format  int              `json:"format"`
	Objects []baselineObject `json:"objects"`
}

type baselineObject struct {
	snapshot.ID
	// Tag is that of the digest of the manifest that the baseline is about, under the
	// placement's key.
	Tag  string `json:"tag"`
	Data []byte `json:"data"`
}

// baselines are what the objects of a cluster were right after they were
// applied, as far as that differs from what was applied.
type baselines struct {
	key []byte
	at  map[snapshot.ID]baselineObject
}

// manifestTag is what a baseline about a version of an object has.
func manifestTag(key []byte, item *revisionItem) string {
	return keyed.Tag(key, "manifest", item.Digest)[:32]
}

// decodeBaselines reads what a member has. It is a help in telling drift, not a
// record to rely on: what cannot be read explains nothing.
func decodeBaselines(text string, key []byte) *baselines {
	out := &baselines{key, map[snapshot.ID]baselineObject{}}
	var r baselineRecord
	if len(text) > baselineMost || json.Unmarshal([]byte(text), &r) != nil || r.Format != baselineFormat {
		return out
	}
	for _, o := range r.Objects {
		out.at[objectKey(o.ID)] = o
	}
	return out
}

// baseline is what is stored of an object, nil where it cannot be read.
func (o *baselineObject) baseline() *drift.Baseline {
	out := new(drift.Baseline)
	if out.UnmarshalBinary(o.Data) != nil {
		return nil
	}
	return out
}
