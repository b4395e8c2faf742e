package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slipway-dev/slipway/backend"
)

// Options say how a store is opened. The zero value is right for most stores.
type Options struct {
	// Pool provides the connections; the host must close it, after the store. Without it, Open makes
	// a pool from the connection string.
	Pool *pgxpool.Pool
	// Migrate makes Open call [Migrate] if the tables are missing, have an older version or were
	// restored from a dump.
	Migrate bool
	// ReadOnly opens a store whose role may only read: it needs USAGE on the schema and SELECT on
	// the tables, its writes are ErrPermanent, and it removes no deleted rows. It cannot be combined
	// with Migrate.
	ReadOnly bool
	// Schema is the schema of the tables, one for each tenant; "" means slipway. A name has
	// lower-case letters, digits and underscores, at most 63; it must not begin with a digit or with
	// pg_.
	Schema string
	// Logger receives messages for operators: lost acknowledged writes, missing notifications, an
	// unreachable server. Nil means none.
	Logger *slog.Logger
	// Poll is the polling interval for watches; 0 means 200 ms. While nothing changes and
	// notifications arrive, the interval grows up to ten times that.
	Poll time.Duration
	// NoNotify disables notifications, so that this process and others find its changes by polling
	// alone.
	NoNotify bool
	// Retention is the time that a deletion is kept for the watches of disconnected
	// processes; 0 means an hour. A watch that was disconnected for longer ends.
	Retention time.Duration
}

// identifier matches the names of schemas.
var identifier = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// complete returns o with its defaults.
func (o Options) complete() (Options, error) {
	if o.Schema == "" {
		o.Schema = "slipway"
	}
	if !identifier.MatchString(o.Schema) || len(o.Schema) >= 3 && o.Schema[:3] == "pg_" {
		return o, fmt.Errorf("%w: %q is no name of a schema: lower-case letters, digits and underscores, at most 63, neither a digit nor pg_ first",
			backend.ErrPermanent, o.Schema)
	}
	if o.ReadOnly && o.Migrate {
		return o, fmt.Errorf("%w: Migrate writes, and ReadOnly forbids it", backend.ErrPermanent)
	}
	if o.Poll < 0 || o.Retention < 0 {
		return o, fmt.Errorf("%w: Poll and Retention must not be negative", backend.ErrPermanent)
	}
	if o.Poll == 0 {
		o.Poll = 200 * time.Millisecond
	}
	if o.Retention == 0 {
		o.Retention = time.Hour
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// Store is a [backend.Store], [backend.Watcher] and [backend.Batcher] in a schema of a PostgreSQL
// database. Its methods may be called concurrently, also by other processes on the same schema.
type Store struct {
	o     Options
	id    string // this Store's id in notifications
	pool  *pgxpool.Pool
	own   bool // pool is closed with the store
	sql   statements
	poll  *poller
	acked acknowledged
	group group

	// history is held while a connection's server is compared with the known history.
	history     chan struct{}
	timeline    uint32
	incarnation string
	// epoch counts the failovers. It rises before acknowledged writes are compared with the new
	// server: connections of an earlier epoch acknowledge nothing any more.
	epoch atomic.Int64
	// noTimeline reports whether the server hides its timeline.
	noTimeline atomic.Bool

	written chan struct{} // signals a write
	cancel  context.CancelFunc
	ends    sync.WaitGroup
	closed  atomic.Bool
}

var (
	_ backend.Watcher = (*Store)(nil)
	_ backend.Batcher = (*Store)(nil)
)

// Open opens a store whose tables [Migrate] made. dsn is a connection string of PostgreSQL, in
// either form; Open ignores it with Options.Pool. It may name several hosts: the store uses the
// host that accepts writes.
//
// The error is ErrPermanent if the tables are missing, have an older version or were restored
// from a dump ([ErrNotMigrated]), if they have a newer version, if the server is not durable
// ([ErrNotDurable]), if dsn cannot be parsed, and if the role lacks a privilege for reading or,
// without Options.ReadOnly, for writing. The error names missing privileges. No error contains
// the connection string or a password.
func Open(ctx context.Context, dsn string, o Options) (*Store, error) {
	o, err := o.complete()
	if err != nil {
		return nil, failed("open", "schema "+o.Schema, err)
	}
	pool, own, err := connect(ctx, dsn, o)
	if err != nil {
		return nil, failed("open", "schema "+o.Schema, err)
	}
	s := &Store{
		o: o, id: randomID(), pool: pool, own: own, sql: statementsFor(o.Schema),
		history: make(chan struct{}, 1), written: make(chan struct{}, 1),
	}
	s.poll = newPoller(s)
	err = s.identify(ctx)
	if o.Migrate && errors.Is(err, backend.ErrPermanent) && !errors.Is(err, ErrNotDurable) {
		if err = Migrate(ctx, dsn, o); err == nil {
			err = s.identify(ctx)
		}
	}
	if err == nil || lacksPrivilege(err) {
		err = cmp.Or(s.checkPrivileges(ctx), err)
	}
	if err != nil {
		if own {
			pool.Close()
		}
		return nil, failed("open", "schema "+o.Schema, err)
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	s.ends.Go(func() { s.poll.run(background) })
	if !o.ReadOnly {
		s.ends.Go(func() { s.purge(background) })
	}
	if !o.NoNotify {
		s.ends.Go(func() { s.notify(background) })
	}
	return s, nil
}

// connect returns the host's pool, or a new one.
func connect(ctx context.Context, dsn string, o Options) (pool *pgxpool.Pool, own bool, err error) {
	if o.Pool != nil {
		return o.Pool, false, nil
	}
	c, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, false, fmt.Errorf("%w: the connection string cannot be parsed", backend.ErrPermanent) // err may have a password
	}
	if c.ConnConfig.ValidateConnect == nil {
		c.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	c.ConnConfig.OnNotice = heed
	// A pooler may deliver notifications of other listeners; pgx would keep them for a reader that
	// does not exist.
	c.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
	pool, err = pgxpool.NewWithConfig(ctx, c)
	return pool, true, withoutSecrets(err)
}

// identify checks the tables and the server when a store is opened.
func (s *Store) identify(ctx context.Context) error {
	c, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	var version int
	var cluster, place, here string
	var future bool
	err = c.QueryRow(ctx, s.sql.meta).Scan(&version, &cluster, &place, &here, &future)
	switch {
	case err != nil:
		return s.failure(c, err)
	case version != schemaVersion:
		return wrongVersion(s.o.Schema, version)
	}
	now, err := systemIdentifier(ctx, c.Conn())
	if err != nil {
		return s.failure(c, err)
	}
	if restored(cluster, now, place, here) || future {
		return fmt.Errorf("%w: the tables of schema %s were restored from a dump: %w", backend.ErrPermanent, s.o.Schema, ErrNotMigrated)
	}
	return nil
}

// restored reports whether the tables were made in another place.
func restored(cluster, now, place, here string) bool {
	return cluster != "" && now != "" && cluster != now || place != here
}

func wrongVersion(schema string, version int) error {
	if version > schemaVersion {
		return fmt.Errorf("%w: a newer version made the tables of schema %s: version %d, this one knows %d", backend.ErrPermanent, schema, version, schemaVersion)
	}
	return fmt.Errorf("%w: the tables of schema %s are of version %d, this one needs %d: %w", backend.ErrPermanent, schema, version, schemaVersion, ErrNotMigrated)
}

// Close ends watches and releases connections. Calls in flight may fail; Close waits until they
// have returned, and then closes the store's own pool. The error is nil.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.cancel()
	s.ends.Wait()
	s.poll.end()
	if s.own {
		s.pool.Close()
	}
	return nil
}

// randomID returns 16 hexadecimal digits.
func randomID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}
