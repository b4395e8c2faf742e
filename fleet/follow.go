package fleet

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/stages"
)

// Follower reads the events of each run and placement in their order. It must not be used
// concurrently.
type Follower struct {
	e  *Engine
	at cursor
	// yielded are the errors that were yielded already.
	yielded map[string]bool
	// stuck has the journals that cannot be read further, with their event counts at the failure. A
	// journal is retried when it has more events.
	stuck map[string]int64
	// known are the streams of the records that were listed last, by key, so that an event decodes
	// only the records that changed (BenchmarkFollow). It is only read during a wait for changes.
	known map[string]knownStream
	// rollback is the rollback of the single followed run as of the last listing; it is read once
	// the run has ended.
	rollback Rollback
	// rollbackErr is the error of reading the rollback.
	rollbackErr error
}

// cursor is a position in all journals.
type cursor struct {
	// Placement is the only placement that is followed; "" means all.
	Placement string `json:"p,omitempty"`
	// Run is the only run that is followed; "" means all.
	Run string `json:"n,omitempty"`
	// Read counts the events that were read, by the journal's stream.
	Read map[string]int64 `json:"r"`
}

// Follow returns a follower of the events of all placements and their runs, as
// [PlacementHandle.Follow] does for one placement.
func (e *Engine) Follow(after string) (*Follower, error) {
	return e.followFrom(cursor{}, after)
}

// Follow returns a follower of the events of the placement and its runs. The placement need not
// exist yet. The follower begins after the cursor, which must come from [Follower.Cursor] of a
// follower of the same placement; "" begins with the oldest event that is kept.
//
// The events of a run are kept as long as the run. If the run is deleted, because of its
// placement's RunHistory or at the end of the placement's deletion, its unread events are not
// yielded. A placement's own events are about its snapshots, its selections and its runs. Only the
// latest of them are kept: at least four for each snapshot and each run that it may keep, and at
// least 64. A follower that resumes after events of a placement were dropped yields a
// [MissedError], and continues with the oldest event that is kept.
func (h PlacementHandle) Follow(after string) (*Follower, error) {
	if err := problems.About("events", problems.Name(field.NewPath("placement"), h.name)); err != nil {
		return nil, err
	}
	return h.e.followFrom(cursor{Placement: h.name}, after)
}

// Follow returns a follower of the events of the run: [Follower.Events] yields them as they are
// committed, and ends after the last one when the run has ended and has released its placement. A
// run ends by [stages.RunCompleted], [stages.RunFailed], also if a gate was rejected,
// [stages.RunAborted] or [stages.RunSuperseded]. To follow a failed run that is started again, call
// Follow again with the cursor. A stopped run has not ended.
//
// If the run is rolled back, the events of the rollback run follow its own, and the follower ends
// when the rollback has ended or was refused: a host that returns then leaves no change half rolled
// back. Event.Run says to which of the two an event belongs, and [RunHandle.RollbackStatus] how the
// rollback ended. A host that only wants the events of the run itself breaks the loop at the event
// that ends it.
//
// The follower begins after the cursor of a follower of the same run, or with the first event of
// the run if after is "". The events of the placement about a run, such as [stages.RunCreated] and
// [stages.RunDeleted], come from [PlacementHandle.Follow]. A host that was restarted and keeps no
// cursor reads all events again, so its reactions to them must be idempotent. The last error
// matches [backend.ErrNotFound] if there is no such run, or if it is deleted before it ends, even
// if another run is given its name.
func (h RunHandle) Follow(after string) (*Follower, error) {
	if err := problems.About("events", problems.Name(field.NewPath("run"), h.name)); err != nil {
		return nil, err
	}
	return h.e.followFrom(cursor{Run: h.name}, after)
}

// followFrom returns a follower for the scope of from that begins after a cursor of the same scope.
func (e *Engine) followFrom(from cursor, after string) (*Follower, error) {
	from.Read = map[string]int64{}
	f := &Follower{e: e, at: from, yielded: map[string]bool{}, stuck: map[string]int64{}}
	if after == "" {
		return f, nil
	}
	var at cursor
	if !at.decode(after) {
		return nil, fmt.Errorf("cursor %.40q is none that Follower.Cursor returned: pass on what it returned, or \"\" to begin with the oldest event", after)
	}
	if at.Placement != from.Placement || at.Run != from.Run {
		return nil, fmt.Errorf("cursor is that of a follower of %s, and cannot be used for %s", at.subject(), from.subject())
	}
	f.at = at
	return f, nil
}

// subject names the scope of the cursor.
func (c *cursor) subject() string {
	switch {
	case c.Run != "":
		return "run " + c.Run
	case c.Placement != "":
		return "placement " + c.Placement
	}
	return "all placements"
}

func (c *cursor) decode(text string) bool {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(b, c) != nil || c.Read == nil {
		return false
	}
	for _, n := range c.Read {
		if n < 0 {
			return false
		}
	}
	return true
}

// Cursor returns the position of the follower: after the last event that it yielded.
func (f *Follower) Cursor() string {
	b, err := json.Marshal(f.at)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// Events yields every kept event after the cursor, and then each event as it is committed, until
// ctx ends; it yields ctx's error last. For a single run, see [RunHandle.Follow], it ends with the
// run and its rollback. Events of one run are in order and yielded exactly once; events of
// different runs are roughly in the order of their times.
//
// Events waits while the store fails. If a record cannot be read, because it is damaged or of a
// newer format, Events yields one error and continues with the events of other records; the events
// of this record follow once it can be read again. Events also continue after a [MissedError].
func (f *Follower) Events(ctx context.Context) iter.Seq2[stages.Event, error] {
	return func(yield func(stages.Event, error) bool) {
		pause := backoff.Poll(f.e.cfg.Poll).Spread()
		for {
			more, err := f.catchUp(ctx, yield)
			if !more || err == nil && f.isOver() {
				return
			}
			if f.isGone(err) {
				yield(stages.Event{}, err)
				return
			}
			if err == nil {
				pause.Reset()
				err = f.wait(ctx)
			}
			if err == nil && ctx.Err() == nil {
				continue
			}
			if !pause.Wait(ctx) {
				yield(stages.Event{}, ctx.Err())
				return
			}
			f.e.cfg.Log.Debug("events are read again", "error", err)
		}
	}
}

// Past yields the events after the cursor that are committed now. An error of the store ends it;
// after any other error, which Events would yield too, it continues.
func (f *Follower) Past(ctx context.Context) iter.Seq2[stages.Event, error] {
	return func(yield func(stages.Event, error) bool) {
		if more, err := f.catchUp(ctx, yield); more && err != nil {
			yield(stages.Event{}, err)
		}
	}
}

// numbered is an event with its stream and its number.
type numbered struct {
	stages.Event
	stream string
	next   int64
	// at is the time of the event, or the time of an earlier event of the stream if a clock went
	// back.
	at time.Time
}

// catchUp yields the committed events and reports whether the consumer wants more.
func (f *Follower) catchUp(ctx context.Context, yield func(stages.Event, error) bool) (more bool, err error) {
	streams, unreadable, err := f.streams(ctx)
	if err != nil {
		return true, err
	}
	if len(unreadable) == 0 {
		f.forget(streams)
	}
	for _, s := range streams {
		if err := f.missed(s); err != nil && !yield(stages.Event{}, err) {
			return false, nil
		}
	}
	var batch []numbered
	for _, s := range streams {
		part, err := f.collect(ctx, s)
		if state.IsLasting(err) {
			f.stuck[s.name] = s.head.Events
			unreadable = append(unreadable, err)
		} else if err != nil {
			return true, err
		}
		batch = append(batch, part...)
	}
	for _, err := range unreadable {
		if !f.report(err, yield) {
			return false, nil
		}
	}
	afterCreation(batch)
	slices.SortStableFunc(batch, func(a, b numbered) int { return a.at.Compare(b.at) })
	for i := range batch {
		f.at.Read[batch[i].stream] = batch[i].next
		if !yield(batch[i].Event, nil) {
			return false, nil
		}
	}
	return true, nil
}

// afterCreation sorts every event of a run after its creation, which is in the placement's journal:
// the clock of the engine that created the run may be ahead of the clock of the engine that drives
// it.
func afterCreation(batch []numbered) {
	created := map[string]time.Time{}
	for i := range batch {
		switch e := &batch[i]; {
		case e.Type == stages.RunCreated:
			created[e.Run] = e.at
		case e.at.Before(created[e.Run]):
			e.at = created[e.Run]
		}
	}
}

// MissedError reports that events of a placement were dropped before the follower had read them. It
// is yielded once, when the follower has skipped them.
type MissedError struct {
	Placement string
	// Events is the number of dropped events.
	Events int64
}

func (e *MissedError) Error() string {
	return fmt.Sprintf("%d events of placement %s were forgotten before they were read: follow it more often, or have more runs kept (Placement.RunHistory)", e.Events, e.Placement)
}

// missed moves the cursor to the oldest kept event of a stream, and returns a MissedError if it
// skipped events.
func (f *Follower) missed(s eventStream) error {
	read, known := f.at.Read[s.name]
	if !known || read >= s.head.First {
		return nil
	}
	f.at.Read[s.name] = s.head.First
	return &MissedError{Placement: strings.TrimPrefix(s.name, record.PlacementStream("")), Events: s.head.First - read}
}

// report yields an error once.
func (f *Follower) report(err error, yield func(stages.Event, error) bool) bool {
	if f.yielded[err.Error()] {
		return true
	}
	f.yielded[err.Error()] = true
	return yield(stages.Event{}, err)
}

// forget removes journals that are gone from the cursor.
func (f *Follower) forget(streams []eventStream) {
	there := map[string]bool{}
	for _, s := range streams {
		there[s.name] = true
	}
	maps.DeleteFunc(f.at.Read, func(name string, _ int64) bool { return !there[name] })
}

// streams lists the journals, the ones of placements first, and the errors of the records that
// cannot be read.
func (f *Follower) streams(ctx context.Context) (out []eventStream, unreadable []error, err error) {
	var runs []eventStream
	known := map[string]knownStream{}
	for rec, err := range f.records(ctx) {
		if err != nil {
			return nil, nil, err
		}
		k, err := f.streamOf(rec)
		if err != nil {
			unreadable = append(unreadable, err)
			continue
		}
		known[rec.Key] = k
		switch {
		case rec.Key == f.runKey() && !f.isFollowed(k.name):
			return nil, nil, errdef.Replaced(f.at.Run)
		case f.at.Placement != "" && f.at.Placement != k.placement:
		case strings.HasPrefix(rec.Key, record.PlacementKey("")):
			out = append(out, k.eventStream)
		default:
			runs = append(runs, k.eventStream)
		}
	}
	if f.rollbackErr != nil {
		unreadable = append(unreadable, f.rollbackErr)
	}
	f.known = known
	return append(out, runs...), unreadable, nil
}

// records yields the records that commit the followed events.
func (f *Follower) records(ctx context.Context) iter.Seq2[backend.Record, error] {
	return func(yield func(backend.Record, error) bool) {
		if f.at.Run != "" { // listing would read every run whose name begins like this one
			f.recordsOfRun(ctx, yield)
			return
		}
		for _, prefix := range f.followed() {
			for rec, err := range f.e.store.List(ctx, prefix) {
				if err == nil && f.skips(rec.Key) {
					continue
				}
				if !yield(rec, err) || err != nil {
					return
				}
			}
		}
	}
}

// recordsOfRun yields the record of the single followed run and, once it has ended, the record of
// its rollback run.
func (f *Follower) recordsOfRun(ctx context.Context, yield func(backend.Record, error) bool) {
	f.rollback, f.rollbackErr = Rollback{}, nil
	rec, err := f.e.store.Get(ctx, f.runKey())
	if state.IsNotFound(err) {
		err = errdef.NotFound(errdef.Run, f.at.Run, "")
	}
	if !yield(rec, err) || err != nil {
		return
	}
	if k, err := f.streamOf(rec); err != nil || !k.ended {
		return // an error was reported for the record
	}
	f.rollback, err = f.rollbackOf(ctx)
	switch {
	case state.IsLasting(err):
		f.rollback.Pending, f.rollbackErr = true, err
		return
	case err == nil && f.rollback.State == "": // there is none, not yet or not any more
		return
	case err == nil:
		rec, err = f.e.store.Get(ctx, record.RunKey(f.rollback.By))
	}
	if state.IsNotFound(err) {
		f.rollback.State = ""
		return
	}
	yield(rec, err)
}

// rollbackOf returns the state of the rollback of the single followed run.
func (f *Follower) rollbackOf(ctx context.Context) (Rollback, error) {
	back, err := f.e.Run(f.at.Run).RollbackStatus(ctx)
	if errors.Is(err, errdef.ErrNotFound) && !errdef.IsMissing(err, errdef.Run) {
		err = nil // the placement is gone, and nothing is rolled back any more
	}
	return back, err
}

// runKey returns the key of the single followed run; "" if all runs are followed.
func (f *Follower) runKey() string {
	if f.at.Run == "" {
		return ""
	}
	return record.RunKey(f.at.Run)
}

// isFollowed reports whether a stream belongs to the single followed run: the first run that was
// read under its name, whose stream the cursor then names.
func (f *Follower) isFollowed(stream string) bool {
	if len(f.at.Read) == 0 {
		f.at.Read[stream] = 0
	}
	_, same := f.at.Read[stream]
	return same
}

// isOver reports whether the single followed run and its rollback have ended, and both journals
// were read completely.
func (f *Follower) isOver() bool {
	if f.at.Run == "" || f.rollback.Pending {
		return false
	}
	for _, key := range f.followed() {
		if k, is := f.known[key]; is && (!k.ended || f.hasMore(k.eventStream)) {
			return false
		}
	}
	_, read := f.known[f.runKey()]
	return read
}

// isGone reports whether an error says that the single followed run does not exist or was replaced.
func (f *Follower) isGone(err error) bool {
	return f.at.Run != "" && errdef.IsMissing(err, errdef.Run)
}

// hasMore reports whether a stream has unread events that can be read.
func (f *Follower) hasMore(s eventStream) bool {
	return s.head.Events > f.at.Read[s.name] && f.stuck[s.name] != s.head.Events
}

// followed returns the key prefixes of the records that commit events. For a single run they are
// keys, including the placement's while a rollback is pending.
func (f *Follower) followed() []string {
	if f.at.Run == "" {
		return []string{record.DeletedKey(f.at.Placement), record.RunKey(""), record.PlacementKey(f.at.Placement)}
	}
	out := []string{f.runKey()}
	switch {
	case f.rollback.Pending:
		out = append(out, record.PlacementKey(f.known[f.runKey()].placement))
	case f.rollback.State != "":
		out = append(out, record.RunKey(f.rollback.By))
	}
	return out
}

// skips reports whether a record under one of the prefixes belongs to another run or placement,
// judging by its key.
func (f *Follower) skips(key string) bool {
	if f.at.Run != "" {
		return !slices.Contains(f.followed(), key)
	}
	_, name, _ := strings.Cut(key, "/")
	return f.at.Placement != "" && !strings.HasPrefix(key, record.RunKey("")) && name != f.at.Placement
}

// collect returns the committed events of a stream that are unread. If the stream was deleted in
// between, the next round handles it.
func (f *Follower) collect(ctx context.Context, s eventStream) ([]numbered, error) {
	if !f.hasMore(s) {
		return nil, nil
	}
	next := f.at.Read[s.name]
	pages, err := record.ReadJournal(ctx, f.e.store, s.name, s.head, next)
	if state.IsNotFound(err) {
		return nil, f.lost(ctx, s, err)
	}
	if err != nil {
		return nil, err
	}
	var batch []numbered
	var at time.Time
	for _, page := range pages {
		for i := max(0, next-page.First); i < int64(len(page.Events)); i++ {
			t := numbered{stream: s.name, next: page.First + i + 1}
			if err := json.Unmarshal(page.Events[i], &t.Event); err != nil {
				return batch, record.Damaged(record.JournalPrefix(s.name), err)
			}
			if t.Time.After(at) {
				at = t.Time
			}
			t.at = at
			batch = append(batch, t)
		}
	}
	return batch, nil
}

// lost returns err if the missing page is part of the current journal, and nil if the journal has
// changed.
func (f *Follower) lost(ctx context.Context, s eventStream, err error) error {
	rec, gerr := f.e.store.Get(ctx, s.key)
	if state.IsNotFound(gerr) {
		return nil
	}
	if gerr != nil {
		return gerr
	}
	if now, derr := f.streamOf(rec); derr != nil || now.name != s.name || !now.head.IsAt(s.head) {
		return nil //nolint:nilerr // the record has changed; the next round reads it again
	}
	return err
}

// wait returns when something may have been committed.
func (f *Follower) wait(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := make(chan error, len(f.followed()))
	var both sync.WaitGroup
	for _, prefix := range f.followed() {
		both.Go(func() { changed <- f.firstChange(ctx, prefix) })
	}
	err := <-changed
	cancel()
	both.Wait()
	return err
}

// firstChange waits for a write under prefix after which a record has unread events, or the
// follower of a single run ends.
func (f *Follower) firstChange(ctx context.Context, prefix string) error {
	for c, err := range backend.Watch(ctx, f.e.store, prefix, f.e.cfg.Poll) {
		if err != nil {
			return err
		}
		if f.skips(c.Key) {
			continue
		}
		if news, err := f.hasNews(ctx, c.Key); news || err != nil {
			return err
		}
	}
	return errors.New("the watch ended")
}

// hasNews reports whether a record commits unread events, or decides that the follower of a single
// run ends.
func (f *Follower) hasNews(ctx context.Context, key string) (bool, error) {
	rec, err := f.e.store.Get(ctx, key)
	if state.IsNotFound(err) {
		return f.at.Run != "", nil
	}
	if err != nil {
		return false, err
	}
	s, err := f.streamOf(rec)
	if err != nil {
		return !f.yielded[err.Error()], nil //nolint:nilerr // an unreadable record is news once
	}
	switch {
	case f.at.Run == "":
		mine := f.at.Placement == "" || f.at.Placement == s.placement
		return mine && f.hasMore(s.eventStream), nil
	case strings.HasPrefix(key, record.PlacementKey("")):
		back, err := f.rollbackOf(ctx)
		return back != f.rollback, err
	default:
		known := f.known[key]
		return s.name != known.name || s.ended != known.ended || f.hasMore(s.eventStream), nil
	}
}

// eventStream is a journal with its committed length.
type eventStream struct {
	name string
	head record.Journal
	// key is the key of the record that commits the journal.
	key string
	// ended reports whether the journal belongs to a run that has ended and has released its
	// placement.
	ended bool
}

// knownStream is the stream of one write of a record, and its placement.
type knownStream struct {
	eventStream
	placement string
	revision  backend.Revision
}

// streamOf returns the stream of a record. It decodes each version of a record once.
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
		return eventStream{name: record.DeletedStream(d.UID), head: d.Journal, key: rec.Key}, name, err
	}
	if strings.HasPrefix(rec.Key, "placement/") {
		var p record.Placement
		err := record.Decode(rec, &p)
		return eventStream{name: record.PlacementStream(p.Placement.Name), head: p.Journal, key: rec.Key}, p.Placement.Name, err
	}
	var r record.Run
	err := record.Decode(rec, &r)
	ended := r.Run.IsEnded() && r.Lease.Holder == ""
	return eventStream{r.Run.UID, r.Journal, rec.Key, ended}, r.Run.Placement, err
}
