package fleet_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
)

// operationStore records every read and write of a memory store, and each write of a batch
// separately. It can be watched like the store.
type operationStore struct {
	*memory.Store
	mu    sync.Mutex
	calls []string
}

// taken returns the calls since the last call of taken.
func (s *operationStore) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

func (s *operationStore) record(op, key string) {
	time.Sleep(time.Millisecond) // so that the calls of several goroutines have the same order each time
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, op+" "+key)
}

func (s *operationStore) Get(ctx context.Context, key string) (backend.Record, error) {
	s.record("get", key)
	return s.Store.Get(ctx, key)
}

func (s *operationStore) List(ctx context.Context, prefix string) iter.Seq2[backend.Record, error] {
	s.record("list", prefix)
	return s.Store.List(ctx, prefix)
}

func (s *operationStore) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	s.record("put", key)
	return s.Store.Put(ctx, key, value, prev)
}

func (s *operationStore) Delete(ctx context.Context, key string, prev backend.Revision) error {
	s.record("delete", key)
	return s.Store.Delete(ctx, key, prev)
}

func (s *operationStore) WriteAll(ctx context.Context, writes []backend.Write) ([]backend.Revision, error) {
	for i, w := range writes {
		op := "put"
		if w.Delete {
			op = "delete"
		}
		s.record(fmt.Sprintf("%s[%d/%d]", op, i+1, len(writes)), w.Key)
	}
	return s.Store.WriteAll(ctx, writes)
}

// TestStoreOperationsOfARun limits the number of reads and writes of a run of three clusters in one
// stage without gates, from CreateRun to the end of Wait and of the work after the run's end. It
// counts the best of five runs, because goroutines sometimes interleave differently.
func TestStoreOperationsOfARun(t *testing.T) {
	const bound = 26 // the last one reads whether the run is rolled back
	var fewest []string
	for range 5 {
		if calls := operationsOfARun(t); fewest == nil || len(calls) < len(fewest) {
			fewest = calls
		}
	}
	reads := 0
	for _, c := range fewest {
		if strings.HasPrefix(c, "get ") || strings.HasPrefix(c, "list ") {
			reads++
		}
	}
	t.Logf("%d reads, %d writes", reads, len(fewest)-reads)
	if len(fewest) > bound {
		t.Errorf("%d operations, at most %d:\n%s", len(fewest), bound, strings.Join(fewest, "\n"))
	}
}

func operationsOfARun(t *testing.T) (calls []string) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		s := &operationStore{Store: w.store}
		e := w.newEngine(fleet.Config{Store: s, Name: "e"})
		must(0, e.PutPlacement(t.Context(), tutorialPlacement()))(t)
		must(e.Placement("example-placement").Capture(t.Context()))(t)
		defer running(t, e)()
		time.Sleep(time.Minute)
		s.taken() // the reads of an engine at its start
		must(e.CreateRun(t.Context(), fleet.RunSpec{Name: "run", Placement: "example-placement", Strategy: oneStage()}))(t)
		must(e.Run("run").Wait(t.Context()))(t)
		time.Sleep(time.Minute)
		calls = s.taken()
	})
	return calls
}

// TestAnUnchangedDecisionIsMadeOnce: a decision on the record that the engine saw last is confirmed
// by one read of the record, and repeated only if another engine has changed the record.
func TestAnUnchangedDecisionIsMadeOnce(t *testing.T) {
	w := newEngineEnv(t)
	s := &operationStore{Store: w.store}
	e := w.newEngine(fleet.Config{Store: s, Name: "e"})
	must(0, e.PutPlacement(t.Context(), tutorialPlacement()))(t)
	first := must(e.Placement(ep).Resolve(t.Context()))(t)
	read := func() (placements, selections int) {
		for _, call := range s.taken() {
			switch {
			case call == "get placement/"+ep:
				placements++
			case strings.HasPrefix(call, "get selection/"):
				selections++
			default:
				t.Errorf("an unchanged selection makes the call %s", call)
			}
		}
		return placements, selections
	}
	s.taken()
	if again := must(e.Placement(ep).Resolve(t.Context()))(t); again.Digest != first.Digest {
		t.Fatal("the selection has changed")
	}
	if placements, selections := read(); placements != 1 || selections != 1 {
		t.Errorf("the record is read %d times, the selection %d times, each should be read once", placements, selections)
	}
	w.capture(w.engine(w.store, "two"), "changed by another engine")
	s.taken()
	must(e.Placement(ep).Resolve(t.Context()))(t)
	if placements, selections := read(); placements != 1 || selections != 2 {
		t.Errorf("the record is read %d times, the selection %d times, want 1 and 2: the decision on the new record", placements, selections)
	}
}
