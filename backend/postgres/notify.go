package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slipway-dev/slipway/internal/feed"
)

const (
	// notifyGap is how long there is between two notifications of a store at least: each takes a lock of the whole server.
	notifyGap = 20 * time.Millisecond
	// notifyTimeout is how long one may take.
	notifyTimeout = 5 * time.Second
	// proven is after how long a notification of its own that did not arrive makes a store poll only.
	proven = 3 * time.Second
)

// notifySQL sends a notification. It is a transaction of its own, not waited for on the disk: it holds a lock of the whole
// server until its end.
const notifySQL = `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, $2::text)`

// channel returns the name of the notifications of a schema.
func channel(schema string) string {
	sum := sha256.Sum256([]byte(schema))
	return "slipway_" + hex.EncodeToString(sum[:8])
}

// wrote has this process's watches and those of others told.
func (s *Store) wrote() {
	feed.Wake(s.poll.wake)
	feed.Wake(s.written)
}

// notify tells other processes that something was written, after that was committed.
func (s *Store) notify(ctx context.Context) {
	for feed.Await(ctx, s.written) == nil {
		// Polls find what a notification that fails would have told.
		_ = s.notifyOnce(ctx)
		s.poll.pause(ctx, notifyGap)
	}
}

func (s *Store) notifyOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	return s.with(ctx, func(c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, notifySQL, channel(s.o.Schema), s.id)
		return err
	})
}

// listener is a connection that polls and receives notifications.
type listener struct {
	store *Store
	conn  *pgx.Conn
	since time.Time // when it began to listen
	heard bool      // one of its own
	told  bool      // that none can be relied on
	// pooled reports whether a pooler is between: what one in transaction mode passes on depends on chance.
	pooled bool
}

// listen makes a connection of its own, so that neither a full pool nor a slow statement of the host delays watches.
func (s *Store) listen(ctx context.Context) (*listener, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	config := s.pool.Config()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
			return nil, err
		}
	}
	config.ConnConfig.OnNotification = nil // pgx keeps them for WaitForNotification
	l := &listener{store: s, since: time.Now()}
	c, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, withoutSecrets(err)
	}
	l.conn = c
	if config.AfterConnect != nil {
		err = config.AfterConnect(ctx, c)
	}
	if err == nil {
		err = s.admitServer(ctx, c)
	}
	if err == nil && !s.o.NoNotify {
		_, err = c.Exec(ctx, "LISTEN "+channel(s.o.Schema))
		feed.Wake(s.written) // the answer shows whether notifications arrive
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *listener) close() {
	l.store.poll.listening.Store(false)
	discard(l.conn)
}

// wait returns after a time, at a notification of another store, or when it is woken.
func (l *listener) wait(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	woken := make(chan struct{})
	go func() {
		defer close(woken)
		select {
		case <-wake:
			cancel()
		case <-ctx.Done():
		}
	}()
	defer func() { cancel(); <-woken }()
	for {
		n, err := l.conn.WaitForNotification(ctx)
		l.judge()
		switch {
		case err != nil && (ctx.Err() != nil || pgconn.Timeout(err)) && !l.conn.IsClosed():
			return nil
		case err != nil:
			return err
		case n.Payload != l.store.id:
			cancel() // what has arrived already is read, and nothing more
			continue
		}
		l.heard = true
	}
}

// judge finds out whether notifications can be relied on.
func (l *listener) judge() {
	s := l.store
	if s.o.NoNotify {
		return
	}
	s.poll.listening.Store(l.heard && !l.pooled)
	why := ""
	switch {
	case l.told:
	case l.pooled:
		why = "a pooler is before the server, changes are found by polling alone"
	case !l.heard && time.Since(l.since) > proven:
		why = "notifications do not arrive, changes are found by polling alone"
	}
	if why != "" {
		l.told = true
		s.o.Logger.Warn(why, slog.String("schema", s.o.Schema))
	}
}
