package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/postgres"
)

func TestStore(t *testing.T) {
	t.Parallel()
	backendtest.TestStore(t, func(t *testing.T) backend.Store { return fresh(t, postgres.Options{}) })
}

func TestEachCallIsOneRoundTrip(t *testing.T) {
	p := newProxy(t, fmt.Sprintf("127.0.0.1:%d", shared.Port))
	s := open(t, p.dsn()+" pool_max_conns=1", postgres.Options{Schema: newSchema(t, shared.DSN()), NoNotify: true})
	var trips []string
	for round := range 2 { // statements are prepared in the first
		var revs []backend.Revision
		var rec backend.Record
		key := fmt.Sprintf("k/%d", round)
		for _, call := range []struct {
			name string
			make func() error
		}{
			{"create", func() (err error) { _, err = s.Put(t.Context(), key, nil, ""); return err }},
			{"get", func() (err error) { rec, err = s.Get(t.Context(), key); return err }},
			{"change", func() (err error) { rec.Revision, err = s.Put(t.Context(), key, nil, rec.Revision); return err }},
			{"batch", func() (err error) {
				revs, err = s.WriteAll(t.Context(), []backend.Write{{Key: key + "/b"}, {Key: key, Prev: rec.Revision}, {Key: key + "/a"}})
				return err
			}},
			{"delete", func() error { return s.Delete(t.Context(), key, revs[1]) }},
		} {
			before := p.answers.Load()
			if err := call.make(); err != nil {
				t.Fatalf("%s: %v", call.name, err)
			}
			if n := p.answers.Load() - before; round > 0 && n != 1 {
				trips = append(trips, fmt.Sprintf("%s: %d", call.name, n))
			}
		}
	}
	if len(trips) > 0 {
		t.Errorf("round trips: %q", trips)
	}
}

// rowsOf records the number of rows in each answer to a list of a pool.
type rowsOf struct{ lists []int64 }

type isList struct{}

func (*rowsOf) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, isList{}, strings.Contains(q.SQL, "LIMIT $3"))
}

func (r *rowsOf) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryEndData) {
	if ctx.Value(isList{}) == true {
		r.lists = append(r.lists, q.CommandTag.RowsAffected())
	}
}

// If a page is larger than the previous page predicted, the store keeps 4 MiB of it and requests
// the rest again. A list of few records is one page.
func TestPagesOfAList(t *testing.T) {
	c, err := pgxpool.ParseConfig(shared.DSN() + " pool_max_conns=1")
	if err != nil {
		t.Fatal(err)
	}
	read := &rowsOf{}
	c.ConnConfig.Tracer = read
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := open(t, "", postgres.Options{Schema: newSchema(t, shared.DSN()), Pool: pool, NoNotify: true})
	put := func(key string, n, size int) {
		t.Helper()
		for i := range n {
			if _, err := s.Put(t.Context(), fmt.Sprintf("%s/%03d", key, i), make([]byte, size), ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("a", 64, 1)
	put("b", 40, 500<<10)
	put("c", 70, 1)
	for _, list := range []struct {
		prefix string
		n      int
		pages  []int64
	}{
		{"", 174, []int64{64, 110, 4, 4, 4, 4, 4, 4, 4, 4, 5, 64}},
		{"b/", 40, []int64{40, 4, 4, 4, 4, 4, 4, 4, 3}},
		{"a/", 64, []int64{64, 0}},
		{"a/06", 4, []int64{4}},
		{"d/", 0, []int64{0}},
	} {
		read.lists = nil
		n := 0
		for rec, err := range s.List(t.Context(), list.prefix) {
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(rec.Key, list.prefix) {
				t.Errorf("%q lists %q", list.prefix, rec.Key)
			}
			n++
		}
		if n != list.n || !slices.Equal(read.lists, list.pages) {
			t.Errorf("%q: %d records in pages of %v, want %d in %v", list.prefix, n, read.lists, list.n, list.pages)
		}
	}
}

// Batches of the same keys in any order wait for each other, and none fails because of this.
// Separate batches never deadlock; shared transactions that deadlock fail, and their batches are
// made separately.
func TestBatchesDoNotDeadlock(t *testing.T) {
	s := fresh(t, postgres.Options{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 60 {
				writes := make([]backend.Write, 0, 6)
				for _, k := range rand.Perm(6) {
					key := fmt.Sprintf("k/%d", k)
					rec, err := s.Get(t.Context(), key)
					if err != nil && !errors.Is(err, backend.ErrNotFound) {
						t.Error(err)
					}
					writes = append(writes, backend.Write{Key: key, Prev: rec.Revision, Delete: rec.Revision != "" && rand.IntN(3) == 0})
				}
				if _, err := s.WriteAll(t.Context(), writes); err != nil && !errors.Is(err, backend.ErrConflict) && !errors.Is(err, backend.ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// Notifications take a lock of the whole server: a burst of writes sends few.
func TestNotificationsAreFew(t *testing.T) {
	dsn := shared.DSN()
	schema := newSchema(t, dsn)
	s := open(t, dsn, postgres.Options{Schema: schema})
	c := session(t, dsn)
	var channel string
	// The name contains the digest of the schema; the watch of every store listens to it.
	if err := c.QueryRow(t.Context(), "SELECT 'slipway_' || left(encode(sha256(convert_to($1, 'UTF8')), 'hex'), 16)", schema).Scan(&channel); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "LISTEN "+channel); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for i := range 300 {
		put(t, s, fmt.Sprintf("k/%d", i%10))
	}
	took := time.Since(begin)
	time.Sleep(100 * time.Millisecond)
	if _, err := c.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	n := 0
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := c.WaitForNotification(ctx)
		cancel()
		if err != nil {
			break
		}
		n++
	}
	if most := int(took/(20*time.Millisecond)) + 3; n == 0 || n > most {
		t.Errorf("%d notifications of 300 writes in %v, want 1 to %d", n, took, most)
	}
}
