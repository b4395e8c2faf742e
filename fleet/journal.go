package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages"
)

// A page takes events until it is pageFull; pageMost is the size at which one
// append is divided.
const (
	pageFull = 4 << 10
	pageMost = 64 << 10
)

// journalHead says how much of a journal is committed. It is part of the
// record that commits it.
type journalHead struct {
	// Events counts the committed events.
	Events int64 `json:"events,omitempty"`
	// Page is the last page, First the number of its first event.
	Page  int   `json:"page,omitempty"`
	First int64 `json:"first,omitempty"`
}

// journal appends to one stream of events. What it has written counts only
// once a record with the head it returned is committed; before that, and after
// a crash, it is written over.
type journal struct {
	store  backend.Store
	stream string
	// tail is the page that head.Page names, as it is stored.
	tail     [][]byte
	size     int
	page     int
	revision backend.Revision
	loaded   bool
}

type journalPage struct {
	Format int               `json:"format"`
	First  int64             `json:"first"`
	Events []json.RawMessage `json:"events"`
}

func journalPrefix(stream string) string { return "journal/" + stream }

// append writes events after those that head commits and returns the head that
// commits them too.
func (j *journal) append(ctx context.Context, head journalHead, events []stages.Event) (journalHead, error) {
	if len(events) == 0 {
		return head, nil
	}
	if err := j.load(ctx, head); err != nil {
		return head, err
	}
	for len(events) > 0 {
		if j.size >= pageFull {
			head.Page, head.First = head.Page+1, head.Events
			j.begin(head.Page)
		}
		n := j.fill(events)
		if err := j.write(ctx, head); err != nil {
			j.loaded = false
			return head, err
		}
		head.Events += int64(n)
		events = events[n:]
	}
	return head, nil
}

// fill adds events to the tail up to the size of a page.
func (j *journal) fill(events []stages.Event) (n int) {
	for n < len(events) && (n == 0 || j.size < pageMost) {
		b := encodeRecord(&events[n])
		j.tail = append(j.tail, b)
		j.size += len(b)
		n++
	}
	return n
}

func (j *journal) begin(page int) {
	j.tail, j.size, j.page, j.revision = nil, 0, page, ""
}

// load brings the tail to what head commits.
func (j *journal) load(ctx context.Context, head journalHead) error {
	committed := int(head.Events - head.First)
	if j.loaded && j.page == head.Page && len(j.tail) == committed {
		return nil
	}
	j.begin(head.Page)
	if committed > 0 {
		rec, page, err := readJournalPage(ctx, j.store, j.stream, head.Page)
		if err != nil {
			return err
		}
		if len(page.Events) < committed {
			return fmt.Errorf("journal %s: page %d has %d events, %d were committed: %w", j.stream, head.Page, len(page.Events), committed, backend.ErrPermanent)
		}
		j.revision = rec.Revision
		for _, e := range page.Events[:committed] {
			j.tail = append(j.tail, e)
			j.size += len(e)
		}
	}
	j.loaded = true
	return nil
}

// write stores the tail. A page that is there although this journal has not
// written it was left by a crash and is written over.
func (j *journal) write(ctx context.Context, head journalHead) error {
	page := journalPage{Format: recordFormat, First: head.First, Events: make([]json.RawMessage, len(j.tail))}
	for i, e := range j.tail {
		page.Events[i] = e
	}
	key := pageKey(journalPrefix(j.stream), head.Page)
	rev, err := j.store.Put(ctx, key, encodeRecord(page), j.revision)
	if errors.Is(err, backend.ErrConflict) && j.revision == "" {
		rec, gerr := j.store.Get(ctx, key)
		if gerr != nil {
			return gerr
		}
		rev, err = j.store.Put(ctx, key, encodeRecord(page), rec.Revision)
	}
	if err != nil {
		return err
	}
	j.revision = rev
	return nil
}

func readJournalPage(ctx context.Context, s backend.Store, stream string, n int) (backend.Record, journalPage, error) {
	var page journalPage
	rec, err := s.Get(ctx, pageKey(journalPrefix(stream), n))
	if err != nil {
		return rec, page, err
	}
	return rec, page, decodeRecord(rec, &page)
}
