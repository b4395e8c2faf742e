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
	out := baselines{}
	var r baselineRecord
	if len(text) > baselineMost || json.Unmarshal([]byte(text), &r) != nil || r.Format != baselineFormat {
		return out
	}
	for _, o := range r.Objects {
		out[objectKey(o.ID)] = o
	}
	return out
}

// of returns the baseline of an object, nil for none.
func (b baselines) of(t *target) *drift.Baseline {
	if o := b[objectKey(t.id)]; t.want != nil && o.Digest == t.want.Digest {
		return o.baseline()
	}
	return nil
}

// baseline is what is stored of an object, nil where it cannot be read.
func (o *baselineObject) baseline() *drift.Baseline {
	out := new(drift.Baseline)
	if out.UnmarshalBinary(o.Data) != nil {
		return nil
	}
	return out
}

// takeBaselines returns the stored form of what the objects of an update are
// now, empty where there is nothing to tell or too much.
func (w *work) takeBaselines() string {
	r := baselineRecord{Format: baselineFormat}
	for _, t := range w.targets {
		if o, ok := w.baselineOf(t); ok {
			r.Objects = append(r.Objects, o)
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

// baselineOf returns the baseline of an object: a new one where it was applied,
// by this update or by one that did not live to record it, otherwise the one
// there was. What somebody did to an object that was not applied is no part of it.
func (w *work) baselineOf(t *target) (baselineObject, bool) {
	old, known := w.ledger.baselines()[objectKey(t.id)]
	if t.want == nil || t.live == nil {
		return old, false
	}
	known = known && old.Digest == t.want.Digest
	if !t.applied && (known || t.held != nil || !w.resumed) {
		return old, known
	}
	// An object that cannot be compared has none.
	m, err := w.manifests().of(t.want)
	if err != nil {
		return old, false
	}
	b := m.BaselineAfter(t.before, t.live, old.baseline())
	if b.Len() == 0 {
		return old, false
	}
	data, err := b.MarshalBinary()
	return baselineObject{t.id, t.want.Digest, data}, err == nil
}
