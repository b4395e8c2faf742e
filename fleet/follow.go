package fleet

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages"
)

// Follower reads events in the order in which they happened to each run and
// placement. It is not for concurrent use.
type Follower struct {
	e *Engine
	// only restricts to one placement; "" is all.
	only string
	read map[string]int64
}

// Follow returns a follower of the events of a placement and its runs, or of
// all placements if that is "". It begins after cursor, which comes from
// [Follower.Cursor]; "" begins with the oldest event that is kept.
func (e *Engine) Follow(placement, cursor string) (*Follower, error) {
	f := &Follower{e: e, only: placement, read: map[string]int64{}}
	if cursor == "" {
		return f, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(b, &f.read)
	}
	if err != nil || f.read == nil {
		return nil, fmt.Errorf("cursor %.40q is none that Follower.Cursor returned", cursor)
	}
	return f, nil
}

// Cursor returns where the follower is: after the last event that it yielded.
func (f *Follower) Cursor() string {
	b, err := json.Marshal(f.read)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// Events yields every committed event after the cursor, and then each event as
// it is committed, until ctx ends; it yields ctx's error last. Events of one
// run are in order and exactly once; those of different runs are about in the
// order of their times.
func (f *Follower) Events(ctx context.Context) iter.Seq2[stages.Event, error] {
	return func(yield func(stages.Event, error) bool) {
		for {
			if !f.catchUp(ctx, yield) {
				return
			}
			if err := f.wait(ctx); err != nil {
				yield(stages.Event{}, err)
				return
			}
		}
	}
}

// Past yields the events that are committed now.
func (f *Follower) Past(ctx context.Context) iter.Seq2[stages.Event, error] {
	return func(yield func(stages.Event, error) bool) { f.catchUp(ctx, yield) }
}

// eventStream is a journal and how much of it is committed.
type eventStream struct {
	name string
	head journalHead
}

// told is an event with its stream and its number.
type told struct {
	stages.Event
	stream string
	next   int64
}

// catchUp yields what is committed and tells whether to go on.
func (f *Follower) catchUp(ctx context.Context, yield func(stages.Event, error) bool) bool {
	streams, err := f.streams(ctx)
	var batch []told
	for _, s := range streams {
		if err == nil {
			batch, err = f.collect(ctx, s, batch)
		}
	}
	if err != nil {
		return yield(stages.Event{}, err) && ctx.Err() == nil
	}
	slices.SortStableFunc(batch, func(a, b told) int { return a.Time.Compare(b.Time) })
	for i := range batch {
		f.read[batch[i].stream] = batch[i].next
		if !yield(batch[i].Event, nil) {
			return false
		}
	}
	return true
}

// streams lists the journals, those of placements before those of runs.
func (f *Follower) streams(ctx context.Context) ([]eventStream, error) {
	var out []eventStream
	for rec, err := range f.e.store.List(ctx, "placement/"+f.only) {
		var p placementRecord
		if err == nil {
			err = decodeRecord(rec, &p)
		}
		if err != nil {
			return nil, err
		}
		if f.only == "" || p.Placement.Name == f.only {
			out = append(out, eventStream{placementStream(p.Placement.Name), p.Journal})
		}
	}
	for rec, err := range f.e.store.List(ctx, "run/") {
		var r runRecord
		if err == nil {
			err = decodeRecord(rec, &r)
		}
		if err != nil {
			return nil, err
		}
		if f.only == "" || r.Run.Placement == f.only {
			out = append(out, eventStream{r.Run.UID, r.Journal})
		}
	}
	return out, nil
}

// collect adds the committed events of a stream that were not read. A stream
// whose last page was written anew or deleted meanwhile is left for the next
// time.
func (f *Follower) collect(ctx context.Context, s eventStream, batch []told) ([]told, error) {
	next := f.read[s.name]
	if next >= s.head.Events {
		return batch, nil
	}
	pages, err := readJournal(ctx, f.e.store, s.name, s.head, next)
	if isNotFound(err) {
		return batch, nil
	}
	if err != nil {
		return batch, err
	}
	for _, page := range pages {
		for i, raw := range page.Events {
			n := page.First + int64(i)
			if n < next {
				continue
			}
			t := told{stream: s.name, next: n + 1}
			if err := json.Unmarshal(raw, &t.Event); err != nil {
				return batch, damaged(journalPrefix(s.name), err)
			}
			batch = append(batch, t)
		}
	}
	return batch, nil
}

// wait returns when something may have been committed.
func (f *Follower) wait(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := make(chan error, 2)
	for _, prefix := range []string{"placement/" + f.only, "run/"} {
		go func() { changed <- f.firstChange(ctx, prefix) }()
	}
	err := <-changed
	cancel()
	<-changed
	return err
}

// firstChange waits for a write under prefix of a record that has more events
// than were read.
func (f *Follower) firstChange(ctx context.Context, prefix string) error {
	for c, err := range backend.Watch(ctx, f.e.store, prefix, f.e.cfg.Poll) {
		if err != nil {
			return err
		}
		if !c.Deleted && f.hasNews(ctx, c.Key) {
			return nil
		}
	}
	return ctx.Err()
}

// hasNews tells whether a record commits events that were not read.
func (f *Follower) hasNews(ctx context.Context, key string) bool {
	rec, err := f.e.store.Get(ctx, key)
	if err != nil {
		return false
	}
	if strings.HasPrefix(key, "placement/") {
		var p placementRecord
		return decodeRecord(rec, &p) == nil && p.Journal.Events > f.read[placementStream(p.Placement.Name)]
	}
	var r runRecord
	return decodeRecord(rec, &r) == nil && (f.only == "" || r.Run.Placement == f.only) && r.Journal.Events > f.read[r.Run.UID]
}

// Wait returns the status of a run once it has ended. It follows the store, so
// another engine may drive the run.
func (e *Engine) Wait(ctx context.Context, run string) (Status, error) {
	for {
		for c, err := range backend.Watch(ctx, e.store, runKey(run), e.cfg.Poll) {
			if err != nil {
				break
			}
			if c.Key != runKey(run) {
				continue
			}
			rr, _, err := e.runAt(ctx, run)
			if err != nil {
				return Status{}, err
			}
			if rr.Run.IsEnded() {
				return e.Status(ctx, run)
			}
		}
		if !sleep(ctx, e.cfg.Poll) {
			return Status{}, ctx.Err()
		}
	}
}
