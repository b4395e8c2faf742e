package snapshot

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/versioned"
)

// origins is the document of [Set.Origins].
type origins struct {
	Format    int            `json:"format"`
	Envelopes []originOfMany `json:"envelopes"`
}

// originOfMany is an envelope, and the positions of the objects that it contained.
type originOfMany struct {
	ID
	Items []int `json:"items"`
}

// Origins returns a document that maps objects of the set to their envelopes, nil if none came in
// an envelope. The envelopes do not belong to the identity of a set, so its digest does not cover
// them: the document is stored beside the set, under its own digest, and read by [WithOrigins].
func (s Set) Origins() []byte {
	doc := origins{Format: Format}
	at := map[ID]int{}
	for i := range s.Items {
		envelope := s.Items[i].Envelope
		if envelope == nil {
			continue
		}
		n, known := at[*envelope]
		if !known {
			n = len(doc.Envelopes)
			at[*envelope], doc.Envelopes = n, append(doc.Envelopes, originOfMany{ID: *envelope})
		}
		doc.Envelopes[n].Items = append(doc.Envelopes[n].Items, i)
	}
	if len(doc.Envelopes) == 0 {
		return nil
	}
	slices.SortFunc(doc.Envelopes, func(a, b originOfMany) int { return a.Compare(b.ID) })
	b, _ := json.Marshal(doc) // it has only strings and numbers
	return b
}

// WithOrigins returns a copy of the items of a set with their envelopes. The document must be the
// result of [Set.Origins] for the same set.
func WithOrigins(items []Item, document []byte) ([]Item, error) {
	var doc origins
	if err := versioned.Decode("origins of a snapshot", Format, document, &doc); err != nil {
		return nil, err
	}
	out := slices.Clone(items)
	for i := range doc.Envelopes {
		envelope := &doc.Envelopes[i]
		for _, at := range envelope.Items {
			if at < 0 || at >= len(out) {
				return nil, fmt.Errorf("snapshot: origins: %s has item %d of %d", envelope.ID, at, len(out))
			}
			out[at].Envelope = &envelope.ID
		}
	}
	return out, nil
}
