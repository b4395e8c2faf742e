package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slipway-dev/slipway/backend"
)

// acquire returns a connection whose server was checked.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	for {
		if s.closed.Load() {
			return nil, ErrClosed
		}
		c, err := s.pool.Acquire(ctx)
		if err != nil {
			return nil, withoutSecrets(err)
		}
		checked, now := s.epochOf(c.Conn())
		if checked && !now {
			discard(c.Conn())
			c.Release()
			continue
		}
		if !checked {
			err = s.admitServer(ctx, c.Conn())
		}
		if err == nil {
			return c, nil
		}
		err = s.failure(c, err)
		c.Release()
		return nil, err
	}
}

// mark is the key under which a connection carries the epoch of the last check of its server by
// this store.
func (s *Store) mark() string { return "slipway " + s.id }

// epochOf reports in checked whether the server of a connection was ever checked, and in now
// whether it was checked in the current epoch.
func (s *Store) epochOf(c *pgx.Conn) (checked, now bool) {
	epoch, checked := c.PgConn().CustomData()[s.mark()].(int64)
	return checked, checked && epoch == s.epoch.Load()
}

// admitServer checks the server of a connection that this store uses for the first time. If the
// check fails, it closes the connection.
func (s *Store) admitServer(ctx context.Context, c *pgx.Conn) error {
	if err := s.checkServer(ctx, c); err != nil {
		discard(c)
		return err
	}
	return nil
}

// server is the description of a server from a new connection.
type server struct {
	commit, fsync, messages, timeline, incarnation string
	standby                                        bool
}

// checkTimeout limits the check of a connection's server.
const checkTimeout = 10 * time.Second

// checkServer refuses a server that is not durable, is a standby, or is an old primary that still
// runs after a failover. After a failover it finds the lost writes.
func (s *Store) checkServer(ctx context.Context, c *pgx.Conn) error {
	select {
	case s.history <- struct{}{}:
		defer func() { <-s.history }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout) // other connections wait for this one
	defer cancel()
	now, err := s.describe(ctx, c)
	if err != nil {
		return err
	}
	switch {
	case now.fsync == "off":
		return fmt.Errorf("%w: fsync is off", ErrNotDurable)
	case now.commit == "off":
		return fmt.Errorf("%w: synchronous_commit is off", ErrNotDurable)
	case s.own && (now.messages == "error" || now.messages == "fatal" || now.messages == "panic"):
		return errHushed // heed would receive no warnings
	case now.standby:
		return errStandby
	case s.incarnation != "" && s.incarnation != now.incarnation:
		return errRestored
	}
	timeline, err := parseTimeline(now.timeline)
	switch {
	case err != nil:
		return err
	case timeline < s.timeline:
		return fmt.Errorf("%w: it is on timeline %d, %d was seen", errOldPrimary, timeline, s.timeline)
	case timeline > s.timeline && s.timeline != 0:
		if err := s.findLost(ctx, c, timeline); err != nil {
			return err
		}
	}
	s.timeline, s.incarnation = timeline, now.incarnation
	c.PgConn().CustomData()[s.mark()] = s.epoch.Load()
	return nil
}

// describe reads the description of a server. If a server never allowed reading its timeline, the
// timeline stays unknown.
func (s *Store) describe(ctx context.Context, c *pgx.Conn) (server, error) {
	now, err := s.ask(ctx, c, s.noTimeline.Load())
	if !noFunction(err) || s.timeline != 0 || s.noTimeline.Load() {
		return now, err
	}
	if now, err = s.ask(ctx, c, true); err == nil {
		s.noTimeline.Store(true)
		s.o.Logger.WarnContext(ctx, "the server does not say its timeline, failovers are not detected", slog.String("schema", s.o.Schema))
	}
	return now, err
}

func (s *Store) ask(ctx context.Context, c *pgx.Conn, noTimeline bool) (now server, err error) {
	err = c.QueryRow(ctx, s.sql.server(noTimeline)).Scan(&now.commit, &now.fsync, &now.messages, &now.standby, &now.timeline, &now.incarnation)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("%w: the schema %s is not complete: %w", backend.ErrPermanent, s.o.Schema, ErrNotMigrated)
	}
	return now, err
}

// noFunction reports whether a function of the server does not exist, or the role has no right to
// call it.
func noFunction(err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case "42501", "42883", "0A000": // insufficient_privilege, undefined_function, feature_not_supported
		return e.SeverityUnlocalized != "FATAL"
	}
	return false
}

// parseTimeline parses the hexadecimal number of a timeline; empty is 0.
func parseTimeline(digits string) (uint32, error) {
	if digits == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(digits, 16, 32)
	if err != nil {
		return 0, fmt.Errorf("the server has the timeline %.20q", digits)
	}
	return uint32(n), nil
}

// systemIdentifier returns the identifier of the database cluster, "" if it may not be read.
func systemIdentifier(ctx context.Context, c *pgx.Conn) (string, error) {
	var id string
	err := c.QueryRow(ctx, systemSQL).Scan(&id)
	if noFunction(err) {
		return "", nil
	}
	return id, err
}

// unreplicated is the mark of a connection after a commit that did not wait for its standby.
const unreplicated = "slipway: a commit was not replicated"

// heed notes the warning that a commit did not wait for a synchronous standby, because an
// administrator canceled the wait. The server still acknowledges such a commit.
func heed(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine == "SyncRepWaitForLSN" {
		c.CustomData()[unreplicated] = true
	}
}

// replicated returns an error if the last commit did not wait for a synchronous standby.
func replicated(c *pgx.Conn) error {
	data := c.PgConn().CustomData()
	if data[unreplicated] == nil {
		return nil
	}
	delete(data, unreplicated)
	return errUnreplicated
}
