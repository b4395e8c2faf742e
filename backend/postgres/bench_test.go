package postgres_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/postgres"
)

// saver saves a value, each client a record of its own.
type saver func(ctx context.Context, client int, value []byte) error

// BenchmarkSaves measures saves of records by several clients, each of a record of its own, and
// beside it, by turns, the floor: bare compare-and-swaps of a table of id, rev and value, over
// the same pool with the same bytes. The metric of-floor is the ratio of both rates.
func BenchmarkSaves(b *testing.B) {
	for _, size := range []int{2 << 10, 16 << 10} {
		for _, clients := range []int{1, 8, 32} {
			b.Run(fmt.Sprintf("bytes=%d/clients=%d", size, clients), func(b *testing.B) { benchmarkSaves(b, size, clients) })
		}
	}
}

func benchmarkSaves(b *testing.B, size, clients int) {
	pool, err := pgxpool.New(b.Context(), fmt.Sprintf("%s pool_max_conns=%d", shared.DSN(), max(2, clients)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	schema := newSchema(b, shared.DSN())
	s := open(b, "", postgres.Options{Schema: schema, Pool: pool})
	value := make([]byte, size)
	_, _ = rand.Read(value) // it never fails
	saves := map[string]saver{"store": storeSaver(b, s, clients), "floor": floorSaver(b, pool, schema, clients)}
	took := map[string]time.Duration{}
	const turn = 50 // saves of each client
	for b.Loop() {
		for _, name := range []string{"store", "floor", "floor", "store"} {
			begin := time.Now()
			inTurn(b, saves[name], value, clients, turn)
			took[name] += time.Since(begin)
		}
	}
	n := float64(2 * turn * clients * b.N)
	b.ReportMetric(n/took["store"].Seconds(), "saves/s")
	b.ReportMetric(n/took["floor"].Seconds(), "floor/s")
	b.ReportMetric(took["floor"].Seconds()/took["store"].Seconds(), "of-floor")
}

// inTurn has each client save n times.
func inTurn(b *testing.B, save saver, value []byte, clients, n int) {
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for range n {
				if err := save(b.Context(), client, value); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func storeSaver(b *testing.B, s *postgres.Store, clients int) saver {
	b.Helper()
	revs := make([]backend.Revision, clients)
	return func(ctx context.Context, client int, value []byte) (err error) {
		revs[client], err = s.Put(ctx, fmt.Sprintf("record/%d", client), value, revs[client])
		return err
	}
}

func floorSaver(b *testing.B, pool *pgxpool.Pool, schema string, clients int) saver {
	b.Helper()
	table := schema + ".floor"
	sql(b, shared.DSN(), "CREATE TABLE "+table+" (id int PRIMARY KEY, rev bigint NOT NULL, value bytea NOT NULL)",
		"ALTER TABLE "+table+" ALTER COLUMN value SET STORAGE EXTERNAL",
		fmt.Sprintf("INSERT INTO %s SELECT i, 1, '' FROM generate_series(0, %d) i", table, clients))
	revs := make([]int64, clients)
	return func(ctx context.Context, client int, value []byte) error {
		tag, err := pool.Exec(ctx, "UPDATE "+table+" SET value = $1, rev = rev + 1 WHERE id = $2 AND rev = $3", value, client, revs[client]+1)
		if err == nil && tag.RowsAffected() != 1 {
			err = fmt.Errorf("client %d: the row is at another revision", client)
		}
		revs[client]++
		return err
	}
}

func BenchmarkList(b *testing.B) {
	s := fresh(b, postgres.Options{})
	value := make([]byte, 2<<10)
	_, _ = rand.Read(value) // it never fails
	const n = 10_000
	for first := 0; first < n; first += 1000 {
		var writes []backend.Write
		for i := range 1000 {
			writes = append(writes, backend.Write{Key: fmt.Sprintf("record/%d", first+i), Value: value})
		}
		if _, err := s.WriteAll(b.Context(), writes); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		listed := 0
		for _, err := range s.List(b.Context(), "record/") {
			if err != nil {
				b.Fatal(err)
			}
			listed++
		}
		if listed != n {
			b.Fatalf("%d of %d records were listed", listed, n)
		}
	}
}

// BenchmarkWatch measures how long after a commit the change arrives at a watch of another store,
// while nothing else happens.
func BenchmarkWatch(b *testing.B) {
	for name, quiet := range map[string]bool{"notify": false, "poll": true} {
		b.Run(name, func(b *testing.B) {
			o := postgres.Options{Schema: newSchema(b, shared.DSN()), NoNotify: quiet}
			writer, watcher := open(b, shared.DSN(), o), open(b, shared.DSN(), o)
			var rev atomic.Value
			arrived := make(chan struct{}, 1)
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for c := range watcher.Watch(ctx, "") {
					if c.Key != "" {
						rev.Store(c.Revision)
						arrived <- struct{}{}
					}
				}
			}()
			var at backend.Revision
			var late []time.Duration
			for b.Loop() {
				var err error
				if at, err = writer.Put(b.Context(), "a", nil, at); err != nil {
					b.Fatal(err)
				}
				begin := time.Now()
				for rev.Load() != at {
					<-arrived
				}
				late = append(late, time.Since(begin))
				time.Sleep(30 * time.Millisecond)
			}
			cancel()
			<-ended
			slices.Sort(late)
			b.ReportMetric(late[len(late)/2].Seconds()*1000, "ms-median")
			b.ReportMetric(late[len(late)*99/100].Seconds()*1000, "ms-p99")
		})
	}
}
