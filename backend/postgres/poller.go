package postgres

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/internal/feed"
)

const (
	// pollGap is the least time between two polls, however often the poller is woken.
	pollGap = 10 * time.Millisecond
	// pollTimeout limits a poll, and opening a connection.
	pollTimeout = 30 * time.Second
	// growth is the greatest factor of the interval between polls while nothing changes.
	growth = 10
)

// poller reads the changes for all watches of a store, and announces them. It keeps no lock on
// the server and needs no order of commits: it remembers the snapshot of its last reading, and
// reads the rows whose transaction was not visible in it. A long transaction is found when it
// commits, and delays no other.
type poller struct {
	store *Store
	// turn is held by a poll, and by a watch that begins.
	turn chan struct{}
	at   *position // position of the last poll, nil if there was none; guarded by turn
	wake chan struct{}

	mu       sync.Mutex
	feed     *feed.Feed
	watchers int
	closed   bool

	polls atomic.Int64
	// listening reports whether notifications arrive.
	listening atomic.Bool
}

func newPoller(s *Store) *poller {
	return &poller{store: s, turn: make(chan struct{}, 1), wake: make(chan struct{}, 1), feed: &feed.Feed{}}
}

// enter returns the feed for a watch.
func (p *poller) enter() *feed.Feed {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchers++
	return p.feed
}

func (p *poller) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchers--
}

// watched reports whether there are watches.
func (p *poller) watched() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.watchers > 0
}

func (p *poller) take(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *poller) give() { <-p.turn }

// begin sets the position to the beginning of a watch, if there is none. The turn is held. Polls
// may have ended with an earlier watch whose position is still set.
func (p *poller) begin(now position) {
	if p.at == nil {
		p.at = &now
	}
	feed.Wake(p.wake)
}

// endWatches ends all watches with an error, so that their callers watch again. The turn is held.
func (p *poller) endWatches(err error) {
	p.at = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	p.feed.End(failed("watch", "schema "+p.store.o.Schema, err))
	if !p.closed {
		p.feed = &feed.Feed{}
	}
}

// end ends all watches, now and later.
func (p *poller) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.feed.End(failed("watch", "schema "+p.store.o.Schema, ErrClosed))
}

// run polls while there are watches.
func (p *poller) run(ctx context.Context) {
	wait := p.store.o.Poll
	for ctx.Err() == nil {
		if !p.watched() || !p.begun(ctx) {
			_ = feed.Await(ctx, p.wake) // the loop ends with ctx
			continue
		}
		polls := p.polls.Load()
		err := p.session(ctx)
		if ctx.Err() != nil || err == nil {
			continue
		}
		if errors.Is(err, errRestored) && p.take(ctx) == nil { // found by the check of a new connection
			p.endWatches(err)
			p.give()
			continue
		}
		if p.polls.Load() > polls {
			wait = p.store.o.Poll
		}
		p.store.o.Logger.WarnContext(ctx, "changes cannot be read, trying again", slog.String("schema", p.store.o.Schema), slog.Any("error", err))
		p.pause(ctx, wait)
		wait = min(2*wait, growth*p.store.o.Poll)
	}
}

// begun reports whether a watch has begun.
func (p *poller) begun(ctx context.Context) bool {
	if p.take(ctx) != nil {
		return false
	}
	defer p.give()
	return p.at != nil
}

func (p *poller) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// session polls over one connection until it fails or there are no watches.
func (p *poller) session(ctx context.Context) error {
	l, err := p.store.listen(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	for wait := p.store.o.Poll; ; {
		if !p.watched() {
			return p.rest(ctx)
		}
		changed, err := p.once(ctx, l)
		if err != nil {
			return err
		}
		if wait = min(2*wait, growth*p.store.o.Poll); changed || !p.listening.Load() {
			wait = p.store.o.Poll
		}
		p.pause(ctx, pollGap)
		if err := l.wait(ctx, wait, p.wake); err != nil {
			return err
		}
	}
}

// rest clears the position if no watch needs it.
func (p *poller) rest(ctx context.Context) error {
	if err := p.take(ctx); err != nil {
		return err
	}
	defer p.give()
	if !p.watched() {
		p.at = nil
	}
	return nil
}

// once polls, and reports whether anything changed.
func (p *poller) once(ctx context.Context, l *listener) (changed bool, err error) {
	if err := p.take(ctx); err != nil {
		return false, err
	}
	defer p.give()
	if p.at == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	next, changes, err := p.read(ctx, l.conn, *p.at)
	if err != nil {
		return false, err
	}
	p.polls.Add(1)
	l.pooled = l.pooled || next.process != l.conn.PgConn().PID()
	switch {
	case next.incarnation != p.at.incarnation:
		p.endWatches(errRestored)
		return true, nil
	case next.timeline != p.at.timeline && p.at.timeline != 0:
		p.endWatches(errFailover)
		// Behind a pooler no connection was lost, so the lost writes were not determined.
		return true, p.store.checkServer(ctx, l.conn)
	case next.purged > p.at.ended:
		p.endWatches(errPurged)
		return true, nil
	}
	f := p.current()
	for _, change := range changes {
		f.Announce(change)
	}
	p.at = &next.position
	return len(changes) > 0, nil
}

func (p *poller) current() *feed.Feed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.feed
}

// reading is the result of a poll without the changes.
type reading struct {
	position

	purged  uint64
	process uint32 // of the server
}

// read returns the changes that became visible after a position.
func (p *poller) read(ctx context.Context, c *pgx.Conn, at position) (next reading, changes []backend.Change, err error) {
	rows, err := c.Query(ctx, p.store.sql.changes(p.store.noTimeline.Load()), at.snapshot.String())
	if err != nil {
		return next, nil, err
	}
	next.newest = at.newest
	var text, timeline string
	var key *string
	var seq, nonce *int64
	var xid *uint64
	var deleted *bool
	_, err = pgx.ForEachRow(rows, []any{&next.incarnation, &text, &timeline, &next.purged, &next.process, &key, &seq, &nonce, &deleted, &xid}, func() error {
		if key == nil {
			return nil
		}
		change := backend.Change{Key: *key, Deleted: *deleted}
		if !*deleted {
			change.Revision = revision{*seq, *nonce}.public()
		}
		changes, next.newest = append(changes, change), max(next.newest, *xid)
		return nil
	})
	if err != nil {
		return next, nil, err
	}
	if next.snapshot, err = parseSnapshot(text); err != nil {
		return next, nil, err
	}
	next.settle()
	next.timeline, err = parseTimeline(timeline)
	return next, changes, err
}
