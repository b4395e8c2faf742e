package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/postgres"
	"github.com/slipway-dev/slipway/internal/pgenv"
)

// observer follows a watch and keeps the last change of each key.
type observer struct {
	mu   sync.Mutex
	last map[string]backend.Change
	at   map[string]time.Time
	err  error
	done chan struct{}
}

// observe watches until the test ends.
func observe(t testing.TB, s *postgres.Store, prefix string) *observer {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	o := &observer{last: map[string]backend.Change{}, at: map[string]time.Time{}, done: make(chan struct{})}
	go func() {
		defer close(o.done)
		for c, err := range s.Watch(ctx, prefix) {
			o.add(c, err)
		}
	}()
	t.Cleanup(func() { cancel(); <-o.done })
	return o
}

func (o *observer) add(c backend.Change, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.err = err
		return
	}
	o.last[c.Key], o.at[c.Key] = c, time.Now()
}

// sees reports whether the last change of the key is to this revision, or a deletion if that is
// zero.
func (o *observer) sees(key string, rev backend.Revision) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last[key] == backend.Change{Key: key, Revision: rev, Deleted: rev == ""}
}

func (o *observer) await(t testing.TB, key string, rev backend.Revision) {
	t.Helper()
	eventually(t, fmt.Sprintf("the change of %s to %q", key, rev), func() bool {
		if o.sees(key, rev) {
			return true
		}
		if err := o.error(); err != nil {
			t.Fatalf("the watch ended before the change of %s to %q: %v", key, rev, err)
		}
		return false
	})
}

// error returns the error with which the watch has ended, nil if it has not.
func (o *observer) error() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// when returns when the last change of a key arrived.
func (o *observer) when(key string) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.at[key]
}

// ended returns the error of the ended watch.
func (o *observer) ended(t testing.TB) error {
	t.Helper()
	select {
	case <-o.done:
	case <-time.After(30 * time.Second):
		t.Fatal("the watch did not end")
	}
	return o.error()
}

// put creates or changes a key, whatever it was.
func put(t testing.TB, s *postgres.Store, key string) backend.Revision {
	t.Helper()
	rec, _ := s.Get(t.Context(), key)
	rev, err := s.Put(t.Context(), key, []byte(key), rec.Revision)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

// A long transaction has a lower number than many transactions committed before it. The watch
// does not miss it, and it delays no other transaction: neither one on the table, nor one of
// another application.
func TestATransactionThatHangs(t *testing.T) {
	t.Parallel()
	dsn := shared.DSN()
	o := postgres.Options{Schema: newSchema(t, dsn)}
	writer, watcher := open(t, dsn, o), open(t, dsn, o)
	slow := put(t, writer, "slow")
	changes := observe(t, watcher, "")
	changes.await(t, "slow", slow)
	// Another application's transaction has an xid; the store's has written and is not committed.
	other := session(t, dsn)
	if _, err := other.Exec(t.Context(), "BEGIN; SELECT pg_current_xact_id()"); err != nil {
		t.Fatal(err)
	}
	hanging := session(t, dsn)
	tx, err := hanging.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var rev string
	update := `UPDATE {schema}.records SET seq = nextval('{schema}.revisions'), previous = seq, xid = pg_current_xact_id() WHERE key = 'slow'
		RETURNING seq || '-' || lpad(to_hex(nonce), 16, '0')`
	if err := tx.QueryRow(t.Context(), strings.ReplaceAll(update, "{schema}", o.Schema)).Scan(&rev); err != nil {
		t.Fatal(err)
	}
	var worst time.Duration
	lasts := 10 * time.Second
	if os.Getenv("SLIPWAY_SOAK") != "" {
		lasts = time.Minute
	}
	for i, end := 0, time.Now().Add(lasts); time.Now().Before(end); i++ {
		key := fmt.Sprintf("quick/%d", i%20)
		quick := put(t, writer, key)
		written := time.Now()
		changes.await(t, key, quick)
		worst = max(worst, changes.when(key).Sub(written))
		time.Sleep(20 * time.Millisecond)
	}
	if worst > 2*time.Second {
		t.Errorf("a change arrived after %v", worst)
	}
	if !changes.sees("slow", slow) {
		t.Error("a change was announced before its commit")
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	changes.await(t, "slow", backend.Revision(rev))
	t.Logf("the slowest change arrived after %v", worst)
}

// Every last write is announced while stores write to the same keys at once, and deletions are.
func TestWatchesOfSeveralStores(t *testing.T) {
	dsn := shared.DSN()
	o := postgres.Options{Schema: newSchema(t, dsn)}
	stores := []*postgres.Store{open(t, dsn, o), open(t, dsn, o), open(t, dsn, o)}
	var observers []*observer
	for _, s := range stores {
		observers = append(observers, observe(t, s, "k/"))
	}
	var all sync.WaitGroup
	for _, s := range stores {
		all.Go(func() {
			for i := range 200 {
				key := fmt.Sprintf("k/%d", i%7)
				rec, err := s.Get(t.Context(), key)
				if err == nil && i%5 == 0 {
					_ = s.Delete(t.Context(), key, rec.Revision) // it may be another's turn
					continue
				}
				_, _ = s.Put(t.Context(), key, []byte("x"), rec.Revision)
			}
		})
	}
	all.Wait()
	for i := range 7 {
		key := fmt.Sprintf("k/%d", i)
		rec, _ := stores[0].Get(t.Context(), key)
		for _, o := range observers {
			o.await(t, key, rec.Revision)
		}
	}
}

// A store whose notifications do not arrive, as behind a pooler in transaction mode, polls.
func TestWithoutNotifications(t *testing.T) {
	dsn := shared.DSN()
	o := postgres.Options{Schema: newSchema(t, dsn)}
	watcher := open(t, dsn, o)
	o.NoNotify = true
	writer := open(t, dsn, o)
	changes := observe(t, watcher, "")
	for i := range 5 {
		key := fmt.Sprint(i)
		changes.await(t, key, put(t, writer, key))
	}
}

// A store notices that its own notifications do not arrive.
func TestNotificationsThatDoNotArriveAreNoticed(t *testing.T) {
	t.Parallel()
	dsn := shared.DSN()
	schema := newSchema(t, dsn)
	role := "silent_" + schema
	sql(t, dsn, "CREATE ROLE "+role+" LOGIN", "GRANT ALL ON SCHEMA "+schema+" TO "+role, "GRANT ALL ON ALL TABLES IN SCHEMA "+schema+" TO "+role,
		"GRANT ALL ON ALL SEQUENCES IN SCHEMA "+schema+" TO "+role, "REVOKE EXECUTE ON FUNCTION pg_notify FROM PUBLIC")
	t.Cleanup(func() { sql(t, dsn, "GRANT EXECUTE ON FUNCTION pg_notify TO PUBLIC") })
	var said logs
	watcher := open(t, strings.Replace(dsn, "user=postgres", "user="+role, 1), postgres.Options{Schema: schema, Logger: said.logger()})
	writer := open(t, dsn, postgres.Options{Schema: schema, NoNotify: true})
	changes := observe(t, watcher, "")
	eventually(t, "the warning", func() bool { return said.has("notifications do not arrive") })
	rev := put(t, writer, "a")
	written := time.Now()
	changes.await(t, "a", rev)
	if late := changes.when("a").Sub(written); late > time.Second {
		t.Errorf("the change arrived after %v", late)
	}
}

func TestDeletionsAreKeptForWatchesAndRemovedLater(t *testing.T) {
	dsn := shared.DSN()
	o := postgres.Options{Schema: newSchema(t, dsn), Retention: 300 * time.Millisecond}
	s := open(t, dsn, o)
	changes := observe(t, s, "")
	var writes, deletions []backend.Write
	for i := range 2500 {
		writes = append(writes, backend.Write{Key: fmt.Sprintf("k/%d", i), Value: []byte("x")})
	}
	revs, err := s.WriteAll(t.Context(), writes)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range writes {
		deletions = append(deletions, backend.Write{Key: w.Key, Prev: revs[i], Delete: true})
	}
	if _, err := s.WriteAll(t.Context(), deletions); err != nil {
		t.Fatal(err)
	}
	changes.await(t, "k/2499", "")
	eventually(t, "the rows of deleted keys are removed", func() bool {
		return count(t, "SELECT count(*) FROM "+o.Schema+".records") == 0
	})
	again := put(t, s, "k/1")
	changes.await(t, "k/1", again)
	if again == revs[1] {
		t.Error("a revision was used twice")
	}
}

// A watch that may have missed a deletion ends.
func TestWatchThatMissedPurgedRowsEnds(t *testing.T) {
	dsn := shared.DSN()
	o := postgres.Options{Schema: newSchema(t, dsn)}
	s := open(t, dsn, o)
	changes := observe(t, s, "")
	changes.await(t, "a", put(t, s, "a"))
	// The horizon of removed rows is beyond the position of the store's reads.
	sql(t, dsn, "UPDATE "+o.Schema+".meta SET purged = (pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 10000)::text::xid8")
	put(t, s, "b")
	contains(t, changes.ended(t), "watch again")
	sql(t, dsn, "UPDATE "+o.Schema+".meta SET purged = '0'")
	again := observe(t, s, "")
	again.await(t, "b", put(t, s, "b"))
}

// logs collects log records.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logs) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// During a long transaction, polls do not repeatedly read the writes since its start.
func TestALongTransactionDoesNotSlowPolls(t *testing.T) {
	server := newServer(t, pgenv.Options{})
	o := postgres.Options{Schema: newSchema(t, server.DSN()), NoNotify: true, Poll: 10 * time.Millisecond}
	s := open(t, server.DSN(), o)
	changes := observe(t, s, "")
	changes.await(t, "a", put(t, s, "a"))
	other := session(t, server.DSN())
	if _, err := other.Exec(t.Context(), "BEGIN; SELECT pg_current_xact_id()"); err != nil {
		t.Fatal(err)
	}
	var writes []backend.Write
	for i := range 2000 {
		writes = append(writes, backend.Write{Key: fmt.Sprintf("k/%d", i)})
	}
	revs, err := s.WriteAll(t.Context(), writes)
	if err != nil {
		t.Fatal(err)
	}
	changes.await(t, "k/1999", revs[1999])
	statistics := session(t, server.DSN())
	read := func() (n int) {
		query := "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'records_xid'"
		if err := statistics.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	time.Sleep(1500 * time.Millisecond) // sessions report their reads once a second
	before := read()
	time.Sleep(2500 * time.Millisecond)
	if n := read() - before; n > 1000 {
		t.Errorf("polls read %d rows of the index while nothing changed", n)
	}
}

// Polls find changes by the index, whatever statistics have the planner believe.
func TestPollsReadNoWholeTable(t *testing.T) {
	t.Parallel()
	dsn := shared.DSN()
	o := postgres.Options{Schema: newSchema(t, dsn), Poll: 5 * time.Millisecond}
	s := open(t, dsn, o)
	var writes []backend.Write
	for i := range 3000 {
		writes = append(writes, backend.Write{Key: fmt.Sprintf("k/%d", i), Value: make([]byte, 200)})
	}
	if _, err := s.WriteAll(t.Context(), writes); err != nil {
		t.Fatal(err)
	}
	// Numbers in no order make the index look expensive.
	sql(t, dsn, "UPDATE "+o.Schema+".records SET xid = (3 + (random() * 600)::int)::text::xid8", "ANALYZE "+o.Schema+".records")
	changes := observe(t, s, "k/1")
	changes.await(t, "k/1", put(t, s, "k/1"))
	scans := func() int {
		return count(t, "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'records' AND schemaname = '"+o.Schema+"'")
	}
	time.Sleep(1200 * time.Millisecond) // statistics are up to a second late
	before := scans()
	for range 50 {
		changes.await(t, "k/1", put(t, s, "k/1"))
	}
	time.Sleep(1200 * time.Millisecond)
	if after := scans(); after != before {
		t.Errorf("polls read the whole table %d times", after-before)
	}
}

// Watches that begin and end frequently, like those of a reader that waits for the next change,
// see every change, even if polls end with one watch while another begins.
func TestShortWatches(t *testing.T) {
	t.Parallel()
	o := postgres.Options{Schema: newSchema(t, shared.DSN()), NoNotify: true, Poll: time.Millisecond}
	writer, watcher := open(t, shared.DSN(), o), open(t, shared.DSN()+" pool_max_conns=8", o)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	at := put(t, writer, "a")
	for n := range 400 {
		// A watch that ends after the existing records, while the polls of the previous watch are about
		// to end.
		time.Sleep(time.Duration(n%20) * time.Millisecond)
		for range watcher.Watch(ctx, "a") {
			break
		}
		next := make(chan backend.Revision, 1)
		go func() {
			time.Sleep(time.Millisecond)
			next <- put(t, writer, "a")
		}()
		var seen backend.Revision
		for c, err := range watcher.Watch(ctx, "a") {
			if err != nil {
				t.Fatalf("after %d changes: %v", n, err)
			}
			if seen = c.Revision; seen != at {
				break
			}
		}
		if at = <-next; seen != at {
			t.Errorf("a is at %s, and %s was seen", at, seen)
		}
	}
}
