package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/stages"
)

// aCommit replaces an existing record, adds two pages and deletes two.
func aCommit(t *testing.T, s backend.Store) *Commit {
	t.Helper()
	made, err := backend.WriteAll(t.Context(), s, []backend.Write{{Key: "record", Value: []byte("old")}, {Key: "old/1"}, {Key: "old/2"}})
	if err != nil {
		t.Fatal(err)
	}
	c := &Commit{Record: backend.Write{Key: "record", Value: []byte("new"), Prev: made[0]}}
	c.page("new/1", nil)
	c.drop("old/1", made[1])
	c.page("new/2", nil)
	c.drop("old/2", made[2])
	return c
}

func keysOf(t *testing.T, s backend.Store) (out []string) {
	t.Helper()
	for r, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r.Key)
	}
	return out
}

// An interrupted commit has written either unreferenced pages, or the record and everything that it
// names. It succeeds once the record is written. It makes no difference whether the store makes the
// writes one by one.
func TestACommitThatEndsInTheMiddle(t *testing.T) {
	pages := []string{"new/1", "new/2"}
	old := []string{"old/1", "old/2", "record"}
	for n, want := range map[int][]string{
		1: old, 2: slices.Concat(pages[:1], old), 3: slices.Concat(pages, old), 4: slices.Concat(pages, old), 5: slices.Concat(pages, old[1:]),
	} {
		for kind, open := range map[string]func(*faulty.Plan, backend.Store) backend.Store{
			"one by one": (*faulty.Plan).Store,
			"a batch":    func(p *faulty.Plan, s backend.Store) backend.Store { return p.BatchStore(s) },
		} {
			s := memory.NewStore()
			c := aCommit(t, s)
			_, err := c.Write(t.Context(), open(faulty.NewPlan(faulty.CrashBefore(n)), s))
			if (err == nil) != (kind == "one by one" && n > 3) {
				t.Errorf("%s, crash before write %d: %v", kind, n, err)
			}
			if d := cmp.Diff(want, keysOf(t, s)); d != "" {
				t.Errorf("%s, crash before write %d (-want +got):\n%s", kind, n, d)
			}
			if r, _ := s.Get(t.Context(), "record"); (string(r.Value) == "new") != (n > 3) {
				t.Errorf("%s, crash before write %d: the record is %s", kind, n, r.Value)
			}
		}
	}
}

// A failed deletion prevents neither the success of a commit nor the other deletions.
func TestACommitWhoseDeletionFailsSucceeds(t *testing.T) {
	s := memory.NewStore()
	c := aCommit(t, s)
	gone, err := s.Get(t.Context(), "old/1")
	if err != nil || s.Delete(t.Context(), gone.Key, gone.Revision) != nil {
		t.Fatal(err)
	}
	rev, err := c.Write(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := s.Get(t.Context(), "record"); err != nil || r.Revision != rev || c.Revisions["record"] != rev || c.Revisions["new/2"] == "" {
		t.Errorf("the record is at %s, %v; the commit says %s and knows %v", r.Revision, err, rev, c.Revisions)
	}
	if d := cmp.Diff([]string{"new/1", "new/2", "record"}, keysOf(t, s)); d != "" {
		t.Error(d)
	}
}

// A commit with a refused record deletes its pages, and nothing else.
func TestAbandonedCommitDeletesItsPages(t *testing.T) {
	s := memory.NewStore()
	c := aCommit(t, s)
	c.Record.Prev = "other"
	other, err := s.Get(t.Context(), "old/2")
	if err != nil {
		t.Fatal(err)
	}
	c.Pages = append([]backend.Write{{Key: "old/2", Prev: other.Revision}}, c.Pages...)
	if _, err := c.Write(t.Context(), s); !errors.Is(err, backend.ErrConflict) {
		t.Fatalf("a record at another revision: %v", err)
	}
	c.Abandon(t.Context(), s)
	if d := cmp.Diff([]string{"old/1", "old/2", "record"}, keysOf(t, s)); d != "" {
		t.Error(d)
	}
}

// Independent writes are divided into batches, in order and without a loss.
func TestBatchesAreBounded(t *testing.T) {
	var all []backend.Write
	for i := range 200 {
		all = append(all, backend.Write{Key: fmt.Sprint(i), Value: make([]byte, i*i)})
	}
	all = append(all, backend.Write{Key: "largest", Value: make([]byte, backend.MaxValue)}, backend.Write{Key: "last"})
	var want, back []string
	for _, w := range all {
		want = append(want, w.Key)
	}
	n := 0
	for batch := range Batches(all) {
		size := 0
		for _, w := range batch {
			size += len(w.Value)
			back = append(back, w.Key)
		}
		if len(batch) == 0 || len(batch) > BatchWrites || size > batchBytes {
			t.Errorf("batch %d has %d writes with %d bytes", n, len(batch), size)
		}
		n++
	}
	if !slices.Equal(want, back) || n > 40 {
		t.Errorf("%d batches with %v", n, back)
	}
}

// Run.Encode assembles the same bytes as Encode.
func TestRunsAreEncodedAsRecords(t *testing.T) {
	rec := goldenRun()
	for range 3 {
		if got, want := rec.Encode(), Encode(rec); !bytes.Equal(got, want) {
			t.Errorf("%d events:\n got %s\nwant %s", len(rec.Journal.Last), got, want)
		}
		rec.Journal = rec.Journal.Append(new(Commit), "s", []stages.Event{{Type: stages.RunFailed, Message: "<a> & \"b\" \u2028\x00"}})
	}
	rec.Journal = Journal{}
	if got, want := rec.Encode(), Encode(rec); !bytes.Equal(got, want) {
		t.Errorf("no events:\n got %s\nwant %s", got, want)
	}
}

// JournalPage.encode assembles the same bytes as Encode.
func TestJournalPagesAreEncodedAsRecords(t *testing.T) {
	events := []json.RawMessage{}
	for range 3 {
		page := &JournalPage{Format: Format, First: 7, Prev: "4-before", Events: events}
		if got, want := page.encode(), Encode(page); !bytes.Equal(got, want) {
			t.Errorf("%d events:\n got %s\nwant %s", len(events), got, want)
		}
		page.Prev = ""
		if got, want := page.encode(), Encode(page); !bytes.Equal(got, want) {
			t.Errorf("the first page with %d events:\n got %s\nwant %s", len(events), got, want)
		}
		events = append(events, Encode(&stages.Event{Type: stages.RunFailed, Message: "<a> & \"b\" \u2028\x00"}))
	}
}

// The events of a journal are in order and complete, whatever the division into pages. Only full
// pages are written, each once, and uncommitted pages do not affect other pages.
func TestJournalHasExactlyTheCommittedEvents(t *testing.T) {
	s, rng := memory.NewStore(), rand.New(rand.NewPCG(1, 1))
	var head Journal
	var want []int64
	for n := int64(0); n < 300; {
		var c Commit
		var events []stages.Event
		for range rng.IntN(40) {
			n++
			events = append(events, stages.Event{Type: stages.RunTaken, Epoch: n, Message: strings.Repeat("x", rng.IntN(3000))})
		}
		next := head.Append(&c, "r", events)
		c.Record = backend.Write{Key: fmt.Sprint("record/", n, "/", rng.Int64())}
		if _, err := c.Write(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(4) == 0 {
			continue // another writer's record was committed
		}
		head = next
		for _, e := range events {
			want = append(want, e.Epoch)
		}
		if size := head.open().size(); size >= pageFull {
			t.Fatalf("the record has %d bytes of events, a page has %d", size, pageFull)
		}
	}
	for _, from := range []int64{0, 1, head.Events / 2, head.Events - 1} {
		pages, err := ReadJournal(t.Context(), s, "r", head, from)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, p := range pages {
			if p.size() > pageMost+3000+200 {
				t.Errorf("a page has %d bytes", p.size())
			}
			for i, raw := range p.Events {
				var e stages.Event
				if err := json.Unmarshal(raw, &e); err != nil {
					t.Fatal(err)
				}
				if p.First+int64(i) >= from {
					got = append(got, e.Epoch)
				}
			}
		}
		if diff := cmp.Diff(want[from:], got); diff != "" {
			t.Errorf("from %d (-want +got):\n%s", from, diff)
		}
	}
}
