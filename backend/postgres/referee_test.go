package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/postgres"
)

// referee runs writers that count up their own keys during faults, and compares the store with
// the acknowledged values.
type referee struct {
	store  *postgres.Store
	filler []byte // behind each number
	acks   atomic.Int64
	cancel context.CancelFunc
	ends   sync.WaitGroup

	mu     sync.Mutex
	acked  map[string]int
	wrong  []string
	errors map[string]int
}

// referees starts writers.
func referees(t testing.TB, s *postgres.Store, writers int, filler []byte) *referee {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &referee{store: s, filler: filler, cancel: cancel, acked: map[string]int{}, errors: map[string]int{}}
	for i := range writers {
		r.ends.Go(func() { r.write(ctx, fmt.Sprintf("writer/%d", i), i%2 == 0) })
	}
	t.Cleanup(func() { cancel(); r.ends.Wait() })
	return r
}

// write counts up a key, alone or in a batch with a second one.
func (r *referee) write(ctx context.Context, key string, batch bool) {
	for n := 1; ctx.Err() == nil; n++ {
		rec, ok := r.read(ctx, key)
		if !ok {
			continue
		}
		var err error
		value := append([]byte(strconv.Itoa(n)+" "), r.filler...)
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		if batch {
			_, err = r.store.WriteAll(call, []backend.Write{
				{Key: key, Value: value, Prev: rec.Revision},
				{Key: fmt.Sprintf("%s/%d", key, n), Value: value},
			})
		} else {
			_, err = r.store.Put(call, key, value, rec.Revision)
		}
		cancel()
		r.judge(key, n, err)
	}
}

// read reads a key and compares it with the acknowledged value.
func (r *referee) read(ctx context.Context, key string) (backend.Record, bool) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	rec, err := r.store.Get(ctx, key)
	if err != nil && !errors.Is(err, backend.ErrNotFound) {
		r.fails(err)
		time.Sleep(5 * time.Millisecond)
		return rec, false
	}
	n := 0
	if err == nil {
		if _, err := fmt.Sscan(string(rec.Value[:min(20, len(rec.Value))]), &n); err != nil {
			r.fails(err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n < r.acked[key] {
		r.wrong = append(r.wrong, fmt.Sprintf("%s is %d, %d was acknowledged", key, n, r.acked[key]))
	}
	return rec, true
}

func (r *referee) judge(key string, n int, err error) {
	switch {
	case err == nil:
		r.acks.Add(1)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.acked[key] = n
	case errors.Is(err, backend.ErrConflict): // a write with an unknown result took effect later
	default:
		r.fails(err)
	}
}

func (r *referee) fails(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors[err.Error()]++
	if errors.Is(err, backend.ErrPermanent) {
		r.wrong = append(r.wrong, "permanent: "+err.Error())
	}
}

// await returns after so many more acknowledgements.
func (r *referee) await(t testing.TB, n int64) {
	t.Helper()
	from := r.acks.Load()
	for end := time.Now().Add(60 * time.Second); r.acks.Load() < from+n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no write was acknowledged any more; errors: %v", r.errors)
		}
	}
}

// finish ends the writers and reads their keys once more.
func (r *referee) finish(t testing.TB) {
	t.Helper()
	r.cancel()
	r.ends.Wait()
	for key := range r.acked {
		if _, ok := r.read(context.Background(), key); !ok {
			t.Errorf("%s cannot be read", key)
		}
	}
	for _, what := range r.wrong {
		t.Error(what)
	}
	t.Logf("%d writes were acknowledged; %d different errors", r.acks.Load(), len(r.errors))
}
