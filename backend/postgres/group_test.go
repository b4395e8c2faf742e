package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/postgres"
)

// crowd contains records whose puts share a transaction: two other puts wait for rows that
// another session has locked, and occupy all transactions that a store sends at a time.
type crowd struct {
	*postgres.Store

	schema string
	revs   map[string]backend.Revision
	// release gives the locked rows up.
	release func()
	locked  sync.WaitGroup
}

func newCrowd(t *testing.T, n int) *crowd {
	t.Helper()
	return newCrowdOver(t, shared.DSN(), n)
}

// newCrowdOver has a store with this connection string.
func newCrowdOver(t *testing.T, dsn string, n int) *crowd {
	t.Helper()
	c := &crowd{schema: newSchema(t, shared.DSN()), revs: map[string]backend.Revision{}}
	c.Store = open(t, dsn+" pool_max_conns=60", postgres.Options{Schema: c.schema, NoNotify: true})
	for i := range n {
		key := fmt.Sprintf("k/%02d", i)
		c.revs[key] = put(t, c.Store, key)
	}
	one, two := put(t, c.Store, "locked/1"), put(t, c.Store, "locked/2")
	tx, err := session(t, shared.DSN()).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM "+c.schema+".records WHERE key LIKE 'locked/%' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	c.release = sync.OnceFunc(func() { _ = tx.Rollback(context.Background()) }) // nothing was written
	t.Cleanup(func() { c.release(); c.locked.Wait() })
	for key, rev := range map[string]backend.Revision{"locked/1": one, "locked/2": two} {
		c.locked.Go(func() {
			if _, err := c.Put(context.Background(), key, nil, rev); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		})
	}
	waiting := session(t, shared.DSN())
	eventually(t, "two puts that wait for a row", func() bool {
		var n int
		query := "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'"
		return waiting.QueryRow(t.Context(), query, c.schema).Scan(&n) == nil && n == 2
	})
	return c
}

// putAll puts every record of the crowd at once, and returns how many are in conflict.
func (c *crowd) putAll(t *testing.T) (conflicts int) {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	for key, rev := range c.revs {
		all.Go(func() {
			made, err := c.Put(t.Context(), key, []byte("new"), rev)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, backend.ErrConflict):
				conflicts++
			case err != nil:
				t.Errorf("%s: %v", key, err)
			}
			if rec, err := c.Get(t.Context(), key); made != "" && (err != nil || string(rec.Value) != "new" || rec.Revision != made) {
				t.Errorf("%s is %v (%v), want %s", key, rec, err, made)
			}
		})
	}
	all.Wait()
	return conflicts
}

// transactions is how many wrote the records.
func (c *crowd) transactions(t *testing.T) (n int) {
	t.Helper()
	query := "SELECT count(DISTINCT xid) FROM " + c.schema + ".records WHERE key LIKE 'k/%' AND value = 'new'"
	if err := session(t, shared.DSN()).QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPutsThatArriveTogetherShareATransaction(t *testing.T) {
	const n = 40
	c := newCrowd(t, n)
	c.revs["k/07"], c.revs["k/23"] = "1-0000000000000001", "" // neither is its revision
	if conflicts := c.putAll(t); conflicts != 2 {
		t.Errorf("%d puts are in conflict, want 2", conflicts)
	}
	if got := c.transactions(t); got > n/4 {
		t.Errorf("%d puts took %d transactions", n, got)
	}
}

// Batches of few writes share transactions, whatever the order of their keys; each of them makes
// its writes up to the first that is in conflict.
func TestBatchesThatArriveTogetherShareATransaction(t *testing.T) {
	const n = 40
	c := newCrowd(t, n)
	c.revs["k/38"] = "1-0000000000000001" // is not its revision
	var all sync.WaitGroup
	for i := range n / 2 {
		all.Go(func() {
			low, high, made := fmt.Sprintf("k/%02d", i), fmt.Sprintf("k/%02d", n-1-i), fmt.Sprintf("made/%02d", i)
			revs, err := c.WriteAll(t.Context(), []backend.Write{
				{Key: made, Value: []byte("new")}, {Key: low, Value: []byte("new"), Prev: c.revs[low]}, {Key: high, Prev: c.revs[high], Delete: true},
			})
			if want := 3; i == 1 {
				if want = 2; !errors.Is(err, backend.ErrConflict) || len(revs) != want {
					t.Errorf("the batch in conflict made %d of its writes, want %d: %v", len(revs), want, err)
				}
			} else if err != nil || len(revs) != want {
				t.Errorf("batch %d made %d of its writes, want %d: %v", i, len(revs), want, err)
			}
			for j, key := range []string{made, low} {
				if rec, err := c.Get(t.Context(), key); err != nil || string(rec.Value) != "new" || j < len(revs) && rec.Revision != revs[j] {
					t.Errorf("%s is %v (%v), want one of %v", key, rec, err, revs)
				}
			}
			if _, err := c.Get(t.Context(), high); (i != 1) != errors.Is(err, backend.ErrNotFound) {
				t.Errorf("%s after its deletion: %v", high, err)
			}
		})
	}
	all.Wait()
	if got := c.transactions(t); got > n/8 {
		t.Errorf("%d batches took %d transactions", n/2, got)
	}
}

// Transactions that wait for each other's rows end: one fails, and its writes are made alone.
func TestSharedTransactionsThatWaitForEachOther(t *testing.T) {
	c := newCrowd(t, 40)
	tx, err := session(t, shared.DSN()).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lock := "SELECT 1 FROM " + c.schema + ".records WHERE key = $1 FOR UPDATE"
	if _, err := tx.Exec(t.Context(), lock, "k/11"); err != nil {
		t.Fatal(err)
	}
	var batch sync.WaitGroup
	first, last := c.revs["k/00"], c.revs["k/39"]
	delete(c.revs, "k/00")
	delete(c.revs, "k/39")
	batch.Go(func() {
		revs, err := c.WriteAll(t.Context(), []backend.Write{{Key: "k/00", Value: []byte("new"), Prev: first}, {Key: "k/39", Value: []byte("new"), Prev: last}})
		if err != nil || len(revs) != 2 {
			t.Errorf("the batch made %d of two: %v", len(revs), err)
		}
	})
	batch.Go(func() {
		if conflicts := c.putAll(t); conflicts != 0 {
			t.Errorf("%d puts are in conflict", conflicts)
		}
	})
	eventually(t, "a transaction that waits for k/11", func() bool {
		var n int
		query := "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'"
		return session(t, shared.DSN()).QueryRow(t.Context(), query, c.schema).Scan(&n) == nil && n > 2
	})
	if _, err := tx.Exec(t.Context(), lock, "k/39"); err != nil {
		t.Errorf("the other one: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	batch.Wait()
}

// If another transaction holds a row, only the put of that row waits for it.
func TestLockedRowDelaysOnlyItsOwnPut(t *testing.T) {
	c := newCrowd(t, 40)
	tx, err := session(t, shared.DSN()).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM "+c.schema+".records WHERE key = 'k/11' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	held := c.revs["k/11"]
	delete(c.revs, "k/11")
	answered := make(chan error, 1)
	go func() {
		_, err := c.Put(context.Background(), "k/11", []byte("new"), held)
		answered <- err
	}()
	if conflicts := c.putAll(t); conflicts != 0 {
		t.Errorf("%d puts are in conflict", conflicts)
	}
	select {
	case err := <-answered:
		t.Errorf("a put of a locked row returned: %v", err)
	default:
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// If the server refuses one record, only the put of this record fails.
func TestAPutThatIsRefusedFailsNoOther(t *testing.T) {
	c := newCrowd(t, 40)
	trigger := `CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON {schema}.records FOR EACH ROW WHEN (OLD.key = 'k/11') EXECUTE FUNCTION {schema}.refuse()`
	go func() { time.Sleep(50 * time.Millisecond); c.release() }() // the definition waits for it
	sql(t, shared.DSN(), strings.ReplaceAll(trigger, "{schema}", c.schema))
	refused := c.revs["k/11"]
	delete(c.revs, "k/11")
	answered := make(chan error, 1)
	go func() {
		_, err := c.Put(t.Context(), "k/11", []byte("new"), refused)
		answered <- err
	}()
	if conflicts := c.putAll(t); conflicts != 0 {
		t.Errorf("%d puts are in conflict", conflicts)
	}
	contains(t, <-answered, "not this one")
}

// A pooler that loses the server during a commit answers ERROR, like a server that has done
// nothing. The result of the puts is unknown, and the store does not repeat them, because a
// repeated put would conflict with its own write.
func TestLostCommitAnswerOfAGroupIsUnknown(t *testing.T) {
	p := newProxy(t, fmt.Sprintf("127.0.0.1:%d", shared.Port))
	c := newCrowdOver(t, p.dsn(), 20)
	p.swallow.Store(swallowSeveral)
	var all sync.WaitGroup
	var unknown atomic.Int64
	for key, rev := range c.revs {
		all.Go(func() {
			_, err := c.Put(t.Context(), key, []byte("new"), rev)
			if err != nil {
				unknown.Add(1)
				transient(t, err)
			}
			if rec, err := c.Get(t.Context(), key); err != nil || string(rec.Value) != "new" {
				t.Errorf("%s is %v (%v)", key, rec, err)
			}
		})
	}
	all.Wait()
	if unknown.Load() < 2 {
		t.Errorf("the answers of %d puts were lost", unknown.Load())
	}
}

// A caller that cancels gets its answer immediately, even if the other puts of its transaction
// continue, and may reuse its value.
func TestCanceledPut(t *testing.T) {
	c := newCrowd(t, 40)
	ctx, cancel := context.WithCancel(t.Context())
	given := c.revs["k/11"]
	delete(c.revs, "k/11")
	answered := make(chan error, 1)
	go func() {
		value := bytes.Repeat([]byte("new"), 100_000)
		_, err := c.Put(ctx, "k/11", value, given)
		clear(value)
		answered <- err
	}()
	time.AfterFunc(2*time.Millisecond, cancel)
	if conflicts := c.putAll(t); conflicts != 0 {
		t.Errorf("%d puts are in conflict", conflicts)
	}
	if err := <-answered; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := c.Get(t.Context(), "k/11"); err != nil {
		t.Error(err)
	}
}
