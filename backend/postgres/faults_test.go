package postgres_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/postgres"
	"github.com/slipway-dev/slipway/internal/pgenv"
)

// newServer starts a server for one test.
func newServer(t testing.TB, o pgenv.Options) *pgenv.Server {
	t.Helper()
	server, err := pgenv.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func TestKillsLoseNothingAcknowledged(t *testing.T) {
	t.Parallel()
	server := newServer(t, pgenv.Options{})
	o := postgres.Options{Schema: newSchema(t, server.DSN())}
	s := open(t, server.DSN()+" pool_max_conns=8", o)
	r := referees(t, s, 8, nil)
	changes := observe(t, s, "watched/")
	changes.await(t, "watched/a", put(t, s, "watched/a"))
	for i := range 4 {
		r.await(t, 200)
		if i%2 == 0 {
			if err := errors.Join(server.Kill(), server.Start()); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := server.KillBackend(aBackend(t, server.DSN())); err != nil {
			t.Fatal(err)
		}
	}
	r.await(t, 200)
	r.finish(t)
	// A watch continues after crashes, and misses nothing.
	var rev backend.Revision
	eventually(t, "a write after crashes", func() bool {
		var err error
		rev, err = s.Put(t.Context(), "watched/b", nil, "")
		return err == nil
	})
	changes.await(t, "watched/b", rev)
}

// aBackend returns the process of a session of the store that is in the middle of a statement.
func aBackend(t testing.TB, dsn string) (pid int) {
	t.Helper()
	c := session(t, dsn)
	eventually(t, "a busy session", func() bool {
		return c.QueryRow(t.Context(), `SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND state = 'active'
			AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1`).Scan(&pid) == nil
	})
	return pid
}

// proxy passes a connection on until it is told to swallow an answer.
type proxy struct {
	listener net.Listener
	target   atomic.Value // of string
	// swallow is the fault of the next answer: the proxy cuts it off, completely or from its
	// ReadyForQuery on. The answer to several statements may also be replaced by the error of a
	// pooler that has lost its server.
	swallow atomic.Int32
	// hang makes the proxy send no answer after the login of the next connection.
	hang atomic.Bool
	// answers counts round trips.
	answers atomic.Int64
}

// dsn returns a connection string through the proxy.
func (p *proxy) dsn() string {
	return fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=postgres sslmode=disable", p.listener.Addr().(*net.TCPAddr).Port)
}

const (
	swallowNothing = iota
	swallowAll
	swallowReady
	swallowSeveral
)

// lostServer is the ErrorResponse of Odyssey for a lost server:
// https://www.postgresql.org/docs/current/protocol-message-formats.html
const lostServer = "SERROR\x00C08006\x00Mremote server read/write error\x00\x00"

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &proxy{listener: l}
	p.target.Store(target)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target.Load().(string))
	if err != nil {
		return
	}
	defer server.Close()
	go func() { _, _ = io.Copy(server, client) }()
	hangs := p.hang.Swap(false)
	var held []byte // of an answer that may be swallowed
	for statements := 0; ; {
		header := make([]byte, 5)
		if _, err := io.ReadFull(server, header); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(header[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return
		}
		mode := p.swallow.Load()
		ready := header[0] == 'Z'
		if ready {
			p.answers.Add(1)
		}
		if header[0] == '2' { // BindComplete
			statements++
		}
		switch {
		case mode == swallowSeveral && ready && statements > 1:
			p.swallow.Store(swallowNothing)
			_, _ = client.Write(append(binary.BigEndian.AppendUint32([]byte{'E'}, uint32(len(lostServer)+4)), lostServer...))
			return
		case mode == swallowSeveral && !ready:
			held = append(append(held, header...), body...)
			continue
		case mode != swallowNothing && mode != swallowSeveral && ready:
			p.swallow.Store(swallowNothing)
			return
		case mode == swallowAll:
			continue
		}
		if _, err := client.Write(append(append(held, header...), body...)); err != nil {
			return
		}
		if held = nil; ready {
			statements = 0
		}
		if ready && hangs {
			_, _ = io.Copy(io.Discard, server) // until the end of the connection
			return
		}
	}
}

func TestACommitWhoseAnswerIsLostIsUnknown(t *testing.T) {
	for name, mode := range map[string]int32{"the answer": swallowAll, "its end": swallowReady} {
		t.Run(name, func(t *testing.T) {
			p := newProxy(t, fmt.Sprintf("127.0.0.1:%d", shared.Port))
			s := open(t, p.dsn()+" pool_max_conns=1", postgres.Options{Schema: newSchema(t, shared.DSN()), NoNotify: true})
			put(t, s, "a")
			put(t, s, "a") // the statements are prepared
			before, err := s.Get(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			p.swallow.Store(mode)
			_, err = s.Put(t.Context(), "a", []byte("new"), before.Revision)
			transient(t, err)
			after, err := s.Get(t.Context(), "a")
			if err != nil || string(after.Value) != "new" || after.Revision == before.Revision {
				t.Errorf("after a write of which the outcome was unknown: %v, %v", after, err)
			}
		})
	}
}

func TestAPoolThatIsUsedUp(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), shared.DSN()+" pool_max_conns=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	schema := newSchema(t, shared.DSN())
	s := open(t, "", postgres.Options{Schema: schema, Pool: pool})
	changes := observe(t, s, "")
	changes.await(t, "a", put(t, s, "a"))
	held, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, getErr := s.Get(ctx, "a")
	_, putErr := s.Put(ctx, "b", nil, "")
	for _, err := range []error{getErr, putErr} {
		transient(t, err)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v, want that of the context", err)
		}
	}
	// A watch has its own connection, and a new watch waits for one.
	begins := observe(t, s, "c")
	time.Sleep(50 * time.Millisecond)
	rev := put(t, open(t, shared.DSN(), postgres.Options{Schema: schema}), "c")
	changes.await(t, "c", rev)
	held.Release()
	begins.await(t, "c", rev)
	put(t, s, "d")
}

// If a put is canceled while its transaction waits for a connection, it is not made later.
func TestPutCanceledBeforeItIsSent(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), shared.DSN()+" pool_max_conns=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := open(t, "", postgres.Options{Schema: newSchema(t, shared.DSN()), Pool: pool, NoNotify: true})
	held, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var patient sync.WaitGroup
	waits := func(key string) {
		patient.Go(func() { put(t, s, key) })
		time.Sleep(10 * time.Millisecond)
	}
	for i := range 3 { // two sent puts, and one that waits for the next transaction
		waits(fmt.Sprint("patient/", i))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = s.Put(ctx, "given-up", nil, "")
	transient(t, err)
	held.Release()
	patient.Wait()
	if _, err = s.Get(t.Context(), "given-up"); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("the error is %v, want that there is no record", err)
	}
}

// A connection that hangs when its server is checked delays others, and blocks none for good.
func TestACheckThatHangs(t *testing.T) {
	t.Parallel()
	p := newProxy(t, fmt.Sprintf("127.0.0.1:%d", shared.Port))
	pool, err := pgxpool.New(t.Context(), p.dsn()+" pool_max_conns=8")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := open(t, "", postgres.Options{Schema: newSchema(t, shared.DSN()), Pool: pool, NoNotify: true})
	pool.Reset()
	p.hang.Store(true)
	hung, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _, _ = s.Get(hung, "a") }()
	eventually(t, "a connection that hangs", func() bool { return !p.hang.Load() })
	ctx, end := context.WithTimeout(t.Context(), 30*time.Second)
	defer end()
	if _, err := s.Get(ctx, "a"); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("the error is %v, want that there is no record", err)
	}
}

// The server permits only one connection of the role.
func TestTooManyConnectionsAreTransient(t *testing.T) {
	role := "few"
	schema := newSchema(t, shared.DSN())
	sql(t, shared.DSN(), "CREATE ROLE few LOGIN CONNECTION LIMIT 1", "GRANT ALL ON SCHEMA "+schema+" TO few",
		"GRANT ALL ON ALL TABLES IN SCHEMA "+schema+" TO few", "GRANT ALL ON ALL SEQUENCES IN SCHEMA "+schema+" TO few")
	dsn := fmt.Sprintf("host=127.0.0.1 port=%d user=%s dbname=postgres sslmode=disable", shared.Port, role)
	open(t, dsn, postgres.Options{Schema: schema, NoNotify: true})
	_, err := postgres.Open(t.Context(), dsn, postgres.Options{Schema: schema})
	transient(t, err)
	contains(t, err, "too many connections")
}

// replicas starts a primary with a standby, and returns a connection string with both.
func replicas(t *testing.T) (primary, standby *pgenv.Server, dsn string) {
	t.Helper()
	primary = newServer(t, pgenv.Options{})
	standby, err := primary.Standby("copy")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Close(); err != nil {
			t.Error(err)
		}
	})
	return primary, standby, fmt.Sprintf("host=127.0.0.1,127.0.0.1 port=%d,%d user=postgres dbname=postgres sslmode=disable", primary.Port, standby.Port)
}

func TestFailoverToASynchronousStandbyLosesNothing(t *testing.T) {
	t.Parallel()
	primary, standby, dsn := replicas(t)
	o := postgres.Options{Schema: newSchema(t, dsn)}
	if err := primary.Set("synchronous_standby_names = 'copy'"); err != nil {
		t.Fatal(err)
	}
	watcher := session(t, primary.DSN())
	eventually(t, "replication is synchronous", func() bool {
		var state string
		return watcher.QueryRow(t.Context(), "SELECT sync_state FROM pg_stat_replication").Scan(&state) == nil && state == "sync"
	})
	s := open(t, dsn+" pool_max_conns=8", o)
	changes := observe(t, s, "")
	r := referees(t, s, 8, nil)
	r.await(t, 300)
	if err := errors.Join(primary.Kill(), standby.Promote()); err != nil {
		t.Fatal(err)
	}
	r.await(t, 300)
	r.finish(t)
	if lost := s.Lost(); len(lost) > 0 {
		t.Errorf("lost: %q", lost)
	}
	contains(t, changes.ended(t), "another server took over")
}

// An administrator may release a commit from waiting for its standby: the server acknowledges it,
// with a warning.
func TestACommitThatDidNotWaitForItsStandbyIsNotAcknowledged(t *testing.T) {
	server := newServer(t, pgenv.Options{})
	o := postgres.Options{Schema: newSchema(t, server.DSN()), NoNotify: true}
	s := open(t, server.DSN(), o)
	rev := put(t, s, "a")
	if err := server.Set("synchronous_standby_names = 'none'"); err != nil {
		t.Fatal(err)
	}
	admin := session(t, server.DSN())
	eventually(t, "commits wait", func() bool {
		var names string
		return admin.QueryRow(t.Context(), "SHOW synchronous_standby_names").Scan(&names) == nil && names == "none"
	})
	answer := make(chan error, 1)
	go func() {
		_, err := s.Put(t.Context(), "a", []byte("new"), rev)
		answer <- err
	}()
	eventually(t, "the commit is released", func() bool {
		var n int
		err := admin.QueryRow(t.Context(), "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").Scan(&n)
		return err == nil && n > 0
	})
	err := <-answer
	transient(t, err)
	contains(t, err, "did not wait for the synchronous standby")
}

func TestFailoverToAnAsynchronousStandbyReportsLostWrites(t *testing.T) {
	t.Parallel()
	primary, standby, dsn := replicas(t)
	var said logs
	o := postgres.Options{Schema: newSchema(t, dsn), Logger: said.logger(), NoNotify: true}
	s := open(t, dsn, o)
	for _, key := range []string{"kept", "changed", "deleted", "overwritten"} {
		put(t, s, key)
	}
	behind(t, primary, standby)
	// The following writes do not reach the standby.
	sql(t, standby.DSN(), "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
	eventually(t, "replication has ended", func() bool {
		var n int
		return session(t, primary.DSN()).QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_replication").Scan(&n) == nil && n == 0
	})
	for _, key := range []string{"changed", "created", "overwritten"} {
		put(t, s, key)
	}
	rec, err := s.Get(t.Context(), "deleted")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "deleted", rec.Revision); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(primary.Kill(), standby.Promote()); err != nil {
		t.Fatal(err)
	}
	// Another process writes first, until its numbers are above the lost ones.
	other := open(t, standby.DSN(), postgres.Options{Schema: o.Schema})
	for range 100 {
		put(t, other, "other")
	}
	put(t, other, "overwritten")
	eventually(t, "the store goes on", func() bool {
		_, err := s.Get(t.Context(), "kept")
		return err == nil
	})
	if lost, want := fmt.Sprint(s.Lost()), "[changed created deleted overwritten]"; lost != want {
		t.Errorf("lost: %s, want %s", lost, want)
	}
	if !said.has("lost acknowledged writes") {
		t.Error("nothing was logged")
	}
	put(t, s, "created")
}

// behind returns when the standby has all writes of the primary.
func behind(t testing.TB, primary, standby *pgenv.Server) {
	t.Helper()
	var lsn string
	if err := session(t, primary.DSN()).QueryRow(t.Context(), "SELECT pg_current_wal_lsn()::text").Scan(&lsn); err != nil {
		t.Fatal(err)
	}
	c := session(t, standby.DSN())
	eventually(t, "the standby has everything", func() bool {
		var ok bool
		return c.QueryRow(t.Context(), "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn", lsn).Scan(&ok) == nil && ok
	})
}

// An old primary that keeps running next to its successor is refused after the store has seen the
// successor.
func TestAnOldPrimaryIsRefused(t *testing.T) {
	t.Parallel()
	primary, standby, _ := replicas(t)
	schema := newSchema(t, primary.DSN())
	behind(t, primary, standby)
	if err := standby.Promote(); err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, fmt.Sprintf("127.0.0.1:%d", standby.Port))
	dsn := fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=postgres sslmode=disable", p.listener.Addr().(*net.TCPAddr).Port)
	s := open(t, dsn, postgres.Options{Schema: schema, NoNotify: true})
	rev := put(t, s, "a")
	p.target.Store(fmt.Sprintf("127.0.0.1:%d", primary.Port))
	sql(t, standby.DSN(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
	eventually(t, "the old primary is refused", func() bool {
		_, err := s.Put(t.Context(), "a", nil, rev)
		transient(t, err)
		return err != nil && strings.Contains(err.Error(), "old primary")
	})
}

// An open connection to the old primary is closed after another connection has reached the
// successor.
func TestConnectionsToAnOldPrimaryAreClosed(t *testing.T) {
	t.Parallel()
	primary, standby, _ := replicas(t)
	schema := newSchema(t, primary.DSN())
	p := newProxy(t, fmt.Sprintf("127.0.0.1:%d", primary.Port))
	pool, err := pgxpool.New(t.Context(), fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=postgres sslmode=disable pool_max_conns=2",
		p.listener.Addr().(*net.TCPAddr).Port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := open(t, "", postgres.Options{Schema: schema, Pool: pool, NoNotify: true})
	put(t, s, "a")
	old, err := pool.Acquire(t.Context()) // the connection that the store used
	if err != nil {
		t.Fatal(err)
	}
	behind(t, primary, standby)
	if err := standby.Promote(); err != nil {
		t.Fatal(err)
	}
	p.target.Store(fmt.Sprintf("127.0.0.1:%d", standby.Port))
	put(t, s, "b")
	old.Release()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				if _, err := s.Get(t.Context(), "b"); err != nil {
					t.Errorf("the server that took over was not read: %v", err)
				}
			}
		})
	}
	all.Wait()
}

// After a crash the server reuses the numbers of transactions that left no trace on the disk. A
// watch that has seen these transactions end still reports the new transactions.
func TestAWatchAfterACrashThatReusesTransactionNumbers(t *testing.T) {
	t.Parallel()
	// Nothing but commits is written to the log before the crash.
	server := newServer(t, pgenv.Options{Settings: []string{"wal_writer_delay = 10s", "wal_level = minimal", "max_wal_senders = 0"}})
	o := postgres.Options{Schema: newSchema(t, server.DSN()), NoNotify: true, Poll: 10 * time.Millisecond}
	s := open(t, server.DSN(), o)
	rev := put(t, s, "a")
	changes := observe(t, s, "")
	changes.await(t, "a", rev)
	before := rolledBack(t, server, 50)
	time.Sleep(500 * time.Millisecond) // polls see that they ended
	if err := errors.Join(server.Kill(), server.Start()); err != nil {
		t.Fatal(err)
	}
	if after := rolledBack(t, server, 0); after >= before {
		t.Fatalf("the server uses no number again: %d after %d", after, before)
	}
	eventually(t, "the store goes on", func() bool {
		rec, err := s.Get(t.Context(), "a")
		if err == nil {
			rev, err = s.Put(t.Context(), "a", []byte("new"), rec.Revision)
		}
		return err == nil
	})
	changes.await(t, "a", rev)
}

// rolledBack begins transactions, rolls them back, and returns the number that the next one has.
func rolledBack(t testing.TB, server *pgenv.Server, n int) (next uint64) {
	t.Helper()
	c := session(t, server.DSN())
	for range n {
		if _, err := c.Exec(t.Context(), "BEGIN; SELECT pg_current_xact_id(); ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.QueryRow(t.Context(), "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").Scan(&next); err != nil {
		t.Fatal(err)
	}
	return next
}
