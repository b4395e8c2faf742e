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

// Options say how a store is opened. The zero value is right for most.
type Options struct {
	// Pool has the connections; the host closes it, after the store. Without one, Open makes a pool from the connection string.
	Pool *pgxpool.Pool
	// Migrate has Open call [Migrate] where the tables are missing, of an older version or restored from a dump.
	Migrate bool
	// ReadOnly opens a store whose role may only read: it needs USAGE on the schema and SELECT on the tables, its writes are
	// ErrPermanent, and it removes no deleted rows. It goes without Migrate.
	ReadOnly bool
	// Schema is where the tables are, one for each tenant; "" means slipway. A name has lower-case letters, digits and
	// underscores, at most 63, does not begin with a digit, and not with pg_.
	Schema string
	// Logger is told what an operator has to know: acknowledged writes that were lost, notifications that do not arrive, a
	// server that cannot be reached. Nil means none.
	Logger *slog.Logger
	// Poll is how often changes are read for watches; 0 means 200 ms. While nothing changes and notifications arrive, the
	// interval grows up to ten times that.
	Poll time.Duration
	// NoNotify has changes found by polling alone, here and by other processes that watch what this one writes.
	NoNotify bool
	// Retention is how long a deletion is kept for watches of processes that are away; 0 means an hour. A watch that was
	// away for longer ends.
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

// Store is a [backend.Store], [backend.Watcher] and [backend.Batcher] in a schema of a PostgreSQL database. Its methods may
// be called concurrently, also by other processes on the same schema.
type Store struct {
	o     Options
	id    string // of this Store, in its notifications
	pool  *pgxpool.Pool
	own   bool // pool is closed with the store
	sql   statements
	poll  *poller
	acked acknowledged
	group group

	// history is held while a connection's server is compared with what is known of it.
	history     chan struct{}
	timeline    uint32
	incarnation string
	// epoch counts the servers that took over. It rises before acknowledged writes are compared with what such a server has:
	// connections of an earlier epoch acknowledge nothing any more.
	epoch atomic.Int64
	// noTimeline reports whether the server does not say its timeline.
	noTimeline atomic.Bool

	written chan struct{} // signals that something was written
	cancel  context.CancelFunc
	ends    sync.WaitGroup
	closed  atomic.Bool
}

var (
	_ backend.Watcher = (*Store)(nil)
	_ backend.Batcher = (*Store)(nil)
)

// Open opens the store whose tables [Migrate] made. dsn is a connection string of PostgreSQL, in either form, and not used
// with Options.Pool. It may name several hosts: the store uses the one that takes writes.
//
// The error is ErrPermanent where the tables are missing, of an older version or restored from a dump ([ErrNotMigrated]), or of a newer
// version, where the server is not durable ([ErrNotDurable]), where dsn cannot be parsed, and if the role lacks a privilege that
// reads or, without Options.ReadOnly, writes need, which the error names; no error has the connection string or a password.
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

// connect returns the host's pool, or one of our own.
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
	// A pooler may bring what listeners subscribed to; pgx would keep it for a reader that a connection of the pool never has.
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

// restored reports whether tables are not where they were made.
func restored(cluster, now, place, here string) bool {
	return cluster != "" && now != "" && cluster != now || place != here
}

func wrongVersion(schema string, version int) error {
	if version > schemaVersion {
		return fmt.Errorf("%w: a newer version made the tables of schema %s: version %d, this one knows %d", backend.ErrPermanent, schema, version, schemaVersion)
	}
	return fmt.Errorf("%w: the tables of schema %s are of version %d, this one needs %d: %w", backend.ErrPermanent, schema, version, schemaVersion, ErrNotMigrated)
}

// Close ends watches and gives up connections. Calls in flight may fail; a pool of the store's own is closed when they have
// returned. The error is nil.
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
