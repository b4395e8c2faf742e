package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

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

// Batches of the same keys in any order wait for each other and never in a circle, which the server would end after a second
// with a transient error.
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
	// The name is that of the schema's digest; any store's watch would listen to it.
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
