package guard

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
)

// TestBatchesOfTheHostsStoreAreGuarded checks that a batch of the host's store has a deadline, and
// that its panic becomes an error. If the store makes one write at a time, each write has its own
// deadline.
func TestBatchesOfTheHostsStoreAreGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, writes := t.Context(), []backend.Write{{Key: "a"}, {Key: "b"}, {Key: "c"}}
		began := time.Now()
		if _, err := backend.WriteAll(ctx, Store(stuckBatches{Store: memory.NewStore()}, time.Second), writes); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("a batch that hangs: %v after %v", err, time.Since(began))
		}
		if _, err := backend.WriteAll(ctx, Store(stuckBatches{memory.NewStore(), true}, time.Second), writes); !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("a batch that panics: %v", err)
		}
		slow := faulty.NewPlan(func(faulty.Call) faulty.Fault { return faulty.Fault{Delay: 900 * time.Millisecond} })
		if made, err := backend.WriteAll(ctx, Store(slow.Store(memory.NewStore()), time.Second), writes); err != nil || len(made) != 3 {
			t.Errorf("three slow writes: %d, %v", len(made), err)
		}
	})
}

// TestAListThatHangsEnds checks that a hanging list fails after the timeout of a call, and that the
// time of its consumer does not count.
func TestAListThatHangsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last error
		var began time.Time
		for _, err := range Store(silentList{memory.NewStore()}, time.Second).List(t.Context(), "") {
			if last = err; err == nil {
				time.Sleep(time.Hour)
				began = time.Now()
			}
		}
		if !errors.Is(last, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), last)
		}
	})
}

// stuckBatches panics or does not return before its context ends.
type stuckBatches struct {
	*memory.Store
	panics bool
}

func (s stuckBatches) WriteAll(ctx context.Context, _ []backend.Write) ([]backend.Revision, error) {
	if s.panics {
		panic("no")
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// silentList is a store whose list yields one record and then blocks until its context ends.
type silentList struct{ *memory.Store }

func (s silentList) List(ctx context.Context, _ string) iter.Seq2[backend.Record, error] {
	return func(yield func(backend.Record, error) bool) {
		if yield(backend.Record{Key: "a"}, nil) {
			<-ctx.Done()
			yield(backend.Record{}, ctx.Err())
		}
	}
}
