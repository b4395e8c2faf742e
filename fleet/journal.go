package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

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
	// Tail names the last page, First is the number of its first event.
	Tail  string `json:"tail,omitempty"`
	First int64  `json:"first,omitempty"`
}

// journalPage is a part of a journal. A page is written once, under a name that
// nobody else writes to, and never changed: whoever appends to the last page
// writes another one in its place. So what several engines append at the same
// time does not meet before one of them commits.
type journalPage struct {
	Format int   `json:"format"`
	First  int64 `json:"first"`
	// Prev names the page before; empty for the first one.
	Prev   string            `json:"prev,omitempty"`
	Events []json.RawMessage `json:"events"`
}

// journal appends to one stream of events. What it writes counts once a record
// with the head that append returned is committed.
type journal struct {
	store  backend.Store
	stream string
	// head and tail are what is committed, as far as it was read.
	head journalHead
	tail *journalPage
	// next and last are what append wrote, under the names in fresh.
	next  journalHead
	last  *journalPage
	fresh []string
	// revisions are those of pages that this process wrote.
	revisions map[string]backend.Revision
}

func journalPrefix(stream string) string { return "journal/" + stream + "/" }

// append writes events after those that head commits and returns the head that
// commits them too. It is followed by commit, by abandon where the record was
// not committed, or by neither where that is not known: then the pages stay,
// and are read only if it was.
func (j *journal) append(ctx context.Context, head journalHead, events []stages.Event) (journalHead, error) {
	j.last, j.fresh = nil, nil
	if len(events) == 0 {
		return head, nil
	}
	if err := j.load(ctx, head); err != nil {
		return head, err
	}
	page := j.open(head)
	for {
		events = events[page.fill(events):]
		name, err := j.write(ctx, page)
		if err != nil {
			return head, err
		}
		next := journalHead{Events: page.First + int64(len(page.Events)), Tail: name, First: page.First}
		if len(events) == 0 {
			j.next, j.last = next, page
			return next, nil
		}
		page = &journalPage{Format: recordFormat, First: next.Events, Prev: next.Tail}
	}
}

// open returns the page to append to: a copy of the last one, or a new one when
// that is full.
func (j *journal) open(head journalHead) *journalPage {
	if j.tail == nil || j.tail.size() >= pageFull {
		return &journalPage{Format: recordFormat, First: head.Events, Prev: head.Tail}
	}
	page := *j.tail
	page.Events = slices.Clone(page.Events)
	return &page
}

func (p *journalPage) size() (n int) {
	for _, e := range p.Events {
		n += len(e)
	}
	return n
}

// fill adds events to the page up to its size, and at least one.
func (p *journalPage) fill(events []stages.Event) (n int) {
	for size := p.size(); n < len(events) && (n == 0 || size < pageMost); n++ {
		b := encodeRecord(&events[n])
		p.Events = append(p.Events, b)
		size += len(b)
	}
	return n
}

// load reads the page that head names, unless it is known.
func (j *journal) load(ctx context.Context, head journalHead) error {
	if j.head == head && (j.tail != nil || head.Tail == "") {
		return nil
	}
	j.head, j.tail = head, nil
	if head.Tail == "" {
		return nil
	}
	page, err := readJournalPage(ctx, j.store, j.stream, head.Tail)
	if err == nil && page.First+int64(len(page.Events)) != head.Events {
		err = fmt.Errorf("journal %s: page %s ends at event %d, %d are committed: %w",
			j.stream, head.Tail, page.First+int64(len(page.Events)), head.Events, backend.ErrPermanent)
	}
	if err != nil {
		j.head = journalHead{}
		return err
	}
	j.tail = page
	return nil
}

// write stores a page under a new name.
func (j *journal) write(ctx context.Context, page *journalPage) (string, error) {
	name := fmt.Sprintf("%d-%s", page.First, newUID())
	j.fresh = append(j.fresh, name)
	rev, err := j.store.Put(ctx, journalPrefix(j.stream)+name, encodeRecord(page), "")
	if err != nil {
		return "", err
	}
	if j.revisions == nil {
		j.revisions = map[string]backend.Revision{}
	}
	j.revisions[name] = rev
	return name, nil
}

// commit takes in that the record with head was committed. The page that was
// written anew is deleted. Where head is not the last that append returned, an
// earlier append was committed after all, and the next one reads it.
func (j *journal) commit(ctx context.Context, head journalHead) {
	if j.last == nil || j.next != head {
		j.last, j.fresh = nil, nil
		return
	}
	replaced := ""
	if j.tail != nil && j.tail.size() < pageFull {
		replaced = j.head.Tail
	}
	j.head, j.tail, j.last, j.fresh = j.next, j.last, nil, nil
	if replaced != "" {
		j.drop(ctx, replaced)
	}
	rev := j.revisions[j.head.Tail]
	j.revisions = map[string]backend.Revision{j.head.Tail: rev}
}

// abandon deletes what append wrote and no record commits.
func (j *journal) abandon(ctx context.Context) {
	for _, name := range j.fresh {
		j.drop(ctx, name)
	}
	j.last, j.fresh = nil, nil
}

// drop deletes a page. One that cannot be deleted is read by nobody.
func (j *journal) drop(ctx context.Context, name string) {
	key := journalPrefix(j.stream) + name
	rev := j.revisions[name]
	if rev == "" {
		rec, err := j.store.Get(ctx, key)
		if err != nil {
			return
		}
		rev = rec.Revision
	}
	delete(j.revisions, name)
	_ = j.store.Delete(ctx, key, rev)
}

func readJournalPage(ctx context.Context, s backend.Store, stream, name string) (*journalPage, error) {
	rec, err := s.Get(ctx, journalPrefix(stream)+name)
	if err != nil {
		return nil, err
	}
	page := new(journalPage)
	return page, decodeRecord(rec, page)
}

// readJournal returns the pages of a journal that hold event n and those after
// it, in order.
func readJournal(ctx context.Context, s backend.Store, stream string, head journalHead, n int64) ([]*journalPage, error) {
	var pages []*journalPage
	for name := head.Tail; name != ""; {
		page, err := readJournalPage(ctx, s, stream, name)
		if err != nil {
			return nil, err
		}
		pages = append(pages, page)
		if page.First <= n {
			break
		}
		name = page.Prev
	}
	slices.Reverse(pages)
	return pages, nil
}
