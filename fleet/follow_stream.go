package fleet

import (
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
)

// eventStream is a journal and how much of it is committed.
type eventStream struct {
	name string
	head record.Journal
	// key is that of the record which commits it.
	key string
}

// knownStream is the stream of one write of a record, and its placement.
type knownStream struct {
	eventStream
	placement string
	revision  backend.Revision
}

// streamOf returns what a record commits. It decodes it once for each of its writes.
func (f *Follower) streamOf(rec backend.Record) (knownStream, error) {
	if k, ok := f.known[rec.Key]; ok && k.revision == rec.Revision {
		return k, nil
	}
	s, placement, err := streamOf(rec)
	return knownStream{s, placement, rec.Revision}, err
}

// streamOf returns the journal that a record commits, and its placement.
func streamOf(rec backend.Record) (eventStream, string, error) {
	if name, ok := strings.CutPrefix(rec.Key, record.DeletedKey("")); ok {
		var d record.Deleted
		err := record.Decode(rec, &d)
		return eventStream{record.DeletedStream(d.UID), d.Journal, rec.Key}, name, err
	}
	if strings.HasPrefix(rec.Key, "placement/") {
		var p record.Placement
		err := record.Decode(rec, &p)
		return eventStream{record.PlacementStream(p.Placement.Name), p.Journal, rec.Key}, p.Placement.Name, err
	}
	var r record.Run
	err := record.Decode(rec, &r)
	return eventStream{r.Run.UID, r.Journal, rec.Key}, r.Run.Placement, err
}
