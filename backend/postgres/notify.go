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
	// notifyGap is the least time between two notifications of a store, because each takes a lock of
	// the whole server.
	notifyGap = 20 * time.Millisecond
	// notifyTimeout limits one notification.
	notifyTimeout = 5 * time.Second
	// proven is the time that a store waits for its own notification before it relies on
	// polling alone.
	proven = 3 * time.Second
)

// notifySQL sends a notification. It is a separate transaction that does not wait for the disk,
// because it holds a lock of the whole server until its end.
const notifySQL = `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, $2::text)`

// channel returns the name of the notifications of a schema.
func channel(schema string) string {
	sum := sha256.Sum256([]byte(schema))
	return "slipway_" + hex.EncodeToString(sum[:8])
}

// wrote wakes the watches of this process and of others.
func (s *Store) wrote() {
	feed.Wake(s.poll.wake)
	feed.Wake(s.written)
}

// notify notifies other processes of a write, after its commit.
func (s *Store) notify(ctx context.Context) {
	for feed.Await(ctx, s.written) == nil {
		// If a notification fails, polls find the change.
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
	since time.Time // start of listening
	heard bool      // received an own notification
	told  bool      // warned that none can be relied on
	// pooled reports whether there is a pooler in between, which passes on notifications only by
	// chance in transaction mode.
	pooled bool
}

// listen opens a separate connection, so that neither a full pool nor a slow statement of the
// host delays watches.
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
			cancel() // only buffered data is read
			continue
		}
		l.heard = true
	}
}

// judge decides whether notifications can be relied on.
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
