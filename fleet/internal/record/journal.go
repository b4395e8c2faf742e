package record

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages"
)

// A journal's last events become a page when they reach pageFull bytes, and several pages when they
// exceed pageMost bytes.
const (
	pageFull = 4 << 10
	pageMost = 64 << 10
)

// Journal is the head of a journal: its committed extent and its last events. It is part of the
// record that commits it.
type Journal struct {
	// Events is the number of committed events, First the number of forgotten events. The first
	// kept event has the number First and begins a page.
	Events int64 `json:"events,omitempty"`
	First  int64 `json:"first,omitempty"`
	// Tail is the name of the last page.
	Tail string `json:"tail,omitempty"`
	// Last are the events after the events in pages.
	Last []json.RawMessage `json:"last,omitempty"`
}

// JournalPage is a part of a journal. A page is written once, under a name that no other writer
// uses, and never changed. Engines that append at the same time therefore conflict only when they
// commit.
type JournalPage struct {
	Format int   `json:"format"`
	First  int64 `json:"first"`
	// Prev is the name of the previous page; empty for the first page.
	Prev   string            `json:"prev,omitempty"`
	Events []json.RawMessage `json:"events"`
}

// Append returns the head with the events appended. If the head has enough events for a page,
// Append adds pages to the commit. Pages that no record commits are never read.
func (h Journal) Append(c *Commit, stream string, events []stages.Event) Journal {
	page := h.open()
	page.Events = slices.Clip(page.Events)
	for {
		events = events[page.fill(events):]
		h.Events = page.First + int64(len(page.Events))
		if len(events) == 0 && page.size() < pageFull {
			h.Last = page.Events
			return h
		}
		h.Tail = fmt.Sprintf("%d-%s", page.First, NewUID())
		c.page(JournalPrefix(stream)+h.Tail, page.encode())
		page = &JournalPage{Format: Format, First: h.Events, Prev: h.Tail}
	}
}

// open returns the last events as the page that they will become.
func (h Journal) open() *JournalPage {
	return &JournalPage{Format: Format, First: h.Events - int64(len(h.Last)), Prev: h.Tail, Events: h.Last}
}

// IsAt reports whether two heads of a journal have the same committed extent.
func (h Journal) IsAt(o Journal) bool {
	return h.Events == o.Events && h.First == o.First && h.Tail == o.Tail
}

// Kept returns the number of events that are not forgotten.
func (h Journal) Kept() int64 { return h.Events - h.First }

func (p *JournalPage) size() (n int) {
	for _, e := range p.Events {
		n += len(e)
	}
	return n
}

// fill adds events to the page up to pageMost bytes, and at least one. It returns the number of
// added events.
func (p *JournalPage) fill(events []stages.Event) (n int) {
	for size := p.size(); n < len(events) && (n == 0 || size < pageMost); n++ {
		b := Encode(&events[n])
		p.Events = append(p.Events, b)
		size += len(b)
	}
	return n
}

// encode encodes the page like Encode, but does not encode every event again.
func (p *JournalPage) encode() []byte {
	b, err := json.Marshal(JournalPage{Format: p.Format, First: p.First, Prev: p.Prev})
	if err != nil {
		return nil // see Encode: this cannot happen
	}
	return append(appendEvents(bytes.TrimSuffix(b, []byte("null}")), p.Events), '}')
}

// appendEvents appends encoded events to b as a JSON list.
func appendEvents(b []byte, events []json.RawMessage) []byte {
	size := len(",]}}")
	for _, e := range events {
		size += len(",") + len(e)
	}
	b = append(slices.Grow(b, size), '[')
	for i, e := range events {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, e...)
	}
	return append(b, ']')
}

func readJournalPage(ctx context.Context, s backend.Store, stream, name string) (*JournalPage, error) {
	rec, err := s.Get(ctx, JournalPrefix(stream)+name)
	if err != nil {
		return nil, err
	}
	page := new(JournalPage)
	return page, Decode(rec, page)
}

// ReadJournal returns the kept pages of a journal that hold event n and later events, in order.
func ReadJournal(ctx context.Context, s backend.Store, stream string, head Journal, n int64) ([]*JournalPage, error) {
	pages := []*JournalPage{head.open()}
	next, name := pages[0].First, head.Tail // pages are contiguous, so the chain ends
	for name != "" && next > max(n, head.First) {
		page, err := readJournalPage(ctx, s, stream, name)
		if err == nil {
			err = page.precedes(JournalPrefix(stream)+name, next)
		}
		if err != nil {
			return nil, err
		}
		next = page.First
		pages = append(pages, page)
		name = page.Prev
	}
	if err := head.reaches(JournalPrefix(stream), next, name); err != nil {
		return nil, err
	}
	slices.Reverse(pages)
	return pages, nil
}

// reaches returns an error unless the pages from event next on cover all committed events that are
// not forgotten. name is the name of the page before them, or "".
func (h Journal) reaches(key string, next int64, name string) error {
	if next >= max(0, h.First) && (name != "" || next == h.First) {
		return nil
	}
	return Damaged(key, fmt.Errorf("its first event has number %d, of %d that are committed and %d that are forgotten", next, h.Events, h.First))
}

// precedes returns an error unless the page can be the one before the page that begins with event
// next. key is the key of the page.
func (p *JournalPage) precedes(key string, next int64) error {
	if p.First >= 0 && p.First == next-int64(len(p.Events)) && len(p.Events) > 0 {
		return nil
	}
	return Damaged(key, fmt.Errorf("its %d events begin with number %d, and the page after it with %d", len(p.Events), p.First, next))
}

// Trimmed returns the head of a placement's journal without events that are too old, and the pages
// that this head does not name. It trims the journal to the minimum of kept events after it has
// more than twice as many.
func Trimmed(ctx context.Context, s backend.Store, rec *Placement) (head Journal, old []backend.Record, err error) {
	head = rec.Journal
	prefix := JournalPrefix(PlacementStream(rec.Placement.Name))
	pages := map[string]backend.Record{}
	for r, err := range s.List(ctx, prefix) {
		if err != nil {
			return rec.Journal, nil, err
		}
		pages[r.Key] = r
	}
	first := head.First
	if keep := rec.EventsKept(); head.Kept() > 2*keep {
		first = head.Events - keep
	}
	next, name := head.open().First, head.Tail
	for name != "" && next > first {
		r, there := pages[prefix+name]
		if !there {
			return rec.Journal, nil, fmt.Errorf("record %s is gone: %w", prefix+name, backend.ErrConflict)
		}
		var page JournalPage
		if err = Decode(r, &page); err == nil {
			err = page.precedes(r.Key, next)
		}
		if err != nil {
			return rec.Journal, nil, err
		}
		delete(pages, r.Key)
		next, name = page.First, page.Prev
	}
	if err := head.reaches(prefix, next, name); err != nil {
		return rec.Journal, nil, err
	}
	head.First = next
	for _, r := range pages {
		old = append(old, backend.Record{Key: r.Key, Revision: r.Revision})
	}
	return head, old, nil
}
