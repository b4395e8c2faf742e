package fleet

import (
	"encoding/json"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/snapshot"
)

const (
	// baselineKey is the key in the data of a ledger's ConfigMap under which what
	// the objects were right after they were applied is kept. It stands beside the
	// ledger, not in it: whoever does not know it drops it, and then nothing is
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
	// Digest is that of the manifest that the baseline is about.
	Digest string `json:"digest"`
	Data   []byte `json:"data"`
}

// baselines are what the objects of a cluster were right after they were
// applied, as far as that differs from what was applied.
type baselines map[snapshot.ID]baselineObject

// decodeBaselines reads what a member has. It is a help in telling drift, not a
// record to rely on: what cannot be read explains nothing.
func decodeBaselines(text string) baselines {
	var r baselineRecord
	if len(text) > baselineMost || json.Unmarshal([]byte(text), &r) != nil || r.Format != baselineFormat {
		return nil
	}
	out := make(baselines, len(r.Objects))
	for _, o := range r.Objects {
		out[objectKey(o.ID)] = o
	}
	return out
}

// of returns the baseline of an object, nil for none.
func (b baselines) of(t *target) *drift.Baseline {
	o, ok := b[objectKey(t.id)]
	if !ok || t.want == nil || o.Digest != t.want.Digest {
		return nil
	}
	out := new(drift.Baseline)
	if out.UnmarshalBinary(o.Data) != nil {
		return nil
	}
	return out
}

// takeBaselines returns the stored form of what the objects of an update are
// now, empty where there is nothing to tell or too much. An object that cannot
// be compared has none.
func takeBaselines(c *comparison, targets []*target) string {
	r := baselineRecord{Format: baselineFormat}
	for _, t := range targets {
		if t.want == nil || t.live == nil {
			continue
		}
		m, err := c.manifests.of(t.want)
		if err != nil {
			continue
		}
		b := m.Baseline(t.live)
		if b.Len() == 0 {
			continue
		}
		if data, err := b.MarshalBinary(); err == nil {
			r.Objects = append(r.Objects, baselineObject{t.id, t.want.Digest, data})
		}
	}
	if len(r.Objects) == 0 {
		return ""
	}
	b, err := json.Marshal(r)
	if err != nil || len(b) > baselineMost {
		return ""
	}
	return string(b)
}
