package member

import (
	"encoding/json"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/internal/keyed"
	"github.com/slipway-dev/slipway/snapshot"
)

const (
	// baselineKey is the key of the baselines in the data of a ledger's ConfigMap: the state of the
	// objects right after they were applied. The baselines have a key of their own beside the ledger.
	// So a writer that does not know this key drops it when it writes the ledger, and outdated
	// baselines explain no difference.
	baselineKey = "baseline"
	// baselineFormat is the version that is written, and the only version that is read.
	baselineFormat = 1
	// baselineMost bounds all baselines of a ledger, in bytes.
	baselineMost = 256 << 10
)

// baselineRecord is the stored form of baselines.
type baselineRecord struct {
	Format  int              `json:"format"`
	Objects []baselineObject `json:"objects"`
}

type baselineObject struct {
	snapshot.ID
	// Tag is the tag of the manifest that the baseline describes, see manifestTag.
	Tag  string `json:"tag"`
	Data []byte `json:"data"`
}

// baselines describe how the objects of a cluster, right after they were applied, differed from the
// applied manifests.
type baselines struct {
	key []byte
	at  map[snapshot.ID]baselineObject
}

// manifestTag returns the tag of a version of an object, derived from its digest under the
// placement's key.
func manifestTag(key []byte, item *revisionItem) string {
	return keyed.Tag(key, "manifest", item.Digest)[:32]
}

// decodeBaselines decodes baselines that a member returned. They only help to explain drift, so
// that text which cannot be decoded counts as no baselines.
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

// baseline decodes the stored baseline of an object, or returns nil if that fails.
func (o *baselineObject) baseline() *drift.Baseline {
	out := new(drift.Baseline)
	if out.UnmarshalBinary(o.Data) != nil {
		return nil
	}
	return out
}
