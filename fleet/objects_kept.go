package fleet

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/snapshot"
)

const (
	// objectKeptMost is how large an object may be that is kept, and objectsKept
	// how much all are together that an engine keeps. They are counted in bytes of
	// text, of which an object in memory takes several times as many.
	objectKeptMost = 8 << 10
	objectsKept    = 8 << 20
)

// keptObjects are objects as this process applied them, kept with the ledger that
// says so. What is applied in another version next needs no look at the member: the
// apply demands that the object still is the one that is kept, and where it is not
// it is looked at then. So it is as if it had been looked at long before.
//
// An object that is to be there as it is has to be looked at all the same: only
// the member can prove that it is.
type keptObjects struct {
	byID map[snapshot.ID]*unstructured.Unstructured
	size int64
}

// keepObjects keeps those that are as they were applied, and nobody else's, as far
// as there is room.
func keepObjects(targets []*target, placement string, room *atomic.Int64) keptObjects {
	k := keptObjects{byID: map[snapshot.ID]*unstructured.Unstructured{}}
	for _, t := range targets {
		if t.want == nil || t.held != nil || t.live == nil || isTerminating(t.live) ||
			annotation(t.live, digestMark+placement) != t.want.Digest || len(otherPlacements(t.live, placement)) > 0 {
			continue
		}
		size := textOf(t.live.Object, objectKeptMost)
		if size > objectKeptMost {
			continue
		}
		if room.Add(-size) < 0 {
			room.Add(size)
			continue
		}
		k.byID[objectKey(t.id)], k.size = t.live, k.size+size
	}
	return k
}

// textOf is about how much text a value has; where it has more than most, it is
// more than that.
func textOf(v any, most int64) (n int64) {
	const each = 8
	switch v := v.(type) {
	case string:
		return each + int64(len(v))
	case map[string]any:
		for key, value := range v {
			if n += each + int64(len(key)) + textOf(value, most-n); n > most {
				break
			}
		}
	case []any:
		for _, value := range v {
			if n += textOf(value, most-n); n > most {
				break
			}
		}
	}
	return n + each
}

// remembered is the object of a target as it is kept, where it is to be applied in
// another version in any case; nil where it has to be looked at.
func (w *work) remembered(t *target) *unstructured.Unstructured {
	live := w.memory.byID[objectKey(t.id)]
	if live == nil || t.want == nil || !t.listed || w.takeover || w.a.Strategy.watches() {
		return nil
	}
	if t.entry.Digest == t.want.Digest || annotation(live, digestMark+w.a.Placement) != t.entry.Digest {
		return nil
	}
	return live
}
