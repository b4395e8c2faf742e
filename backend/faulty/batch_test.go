package faulty_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
)

// batchOf creates these keys.
func batchOf(keys ...string) (out []backend.Write) {
	for _, k := range keys {
		out = append(out, backend.Write{Key: k, Value: []byte(k)})
	}
	return out
}

// there lists the keys of a store.
func there(t *testing.T, s backend.Store) (out []string) {
	t.Helper()
	for r, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r.Key)
	}
	return out
}

func TestABatchStoreWithoutRulesChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := func() (backend.Store, error) { return faulty.NewPlan().BatchStore(memory.NewStore()), nil }
		if err := backendtest.CheckStore(t.Context(), open); err != nil {
			t.Error(err)
		}
	})
}

func TestABatchEndsAtItsFirstFault(t *testing.T) {
	conflict := fmt.Errorf("%w: injected", backend.ErrConflict)
	for name, tc := range map[string]struct {
		fault   faulty.Fault
		err     error
		known   int
		written []string
		later   []string
	}{
		"nothing":          {faulty.Fault{}, nil, 3, []string{"a", "b", "c"}, nil},
		"before":           {faulty.Before(errFault), errFault, 0, []string{"a"}, nil},
		"after":            {faulty.After(errFault), errFault, 0, []string{"a", "b"}, nil},
		"late":             {faulty.LateCalls(errFault, 2), errFault, 0, []string{"a"}, []string{"a", "b", "c"}},
		"crash before":     {faulty.Fault{Crash: true}, faulty.ErrCrashed, 0, []string{"a"}, nil},
		"crash after":      {faulty.Fault{Crash: true, After: errFault}, faulty.ErrCrashed, 0, []string{"a", "b"}, nil},
		"a known conflict": {faulty.Before(conflict), backend.ErrConflict, 1, []string{"a"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inner := memory.NewStore()
			s := faulty.NewPlan(faulty.NthWrite(2, tc.fault)).BatchStore(inner)
			batch := batchOf("a", "b", "c")
			made, err := s.WriteAll(t.Context(), batch)
			for _, w := range batch {
				copy(w.Value, "?") // they are the caller's
			}
			if !errors.Is(err, tc.err) || len(made) != tc.known {
				t.Errorf("%d revisions and %v, want %d and %v", len(made), err, tc.known, tc.err)
			}
			if d := cmp.Diff(tc.written, there(t, inner)); d != "" {
				t.Errorf("what is written (-want +got):\n%s", d)
			}
			if tc.later == nil {
				tc.later = tc.written
			}
			for range 2 {
				_, _ = s.Get(t.Context(), "x")
			}
			if d := cmp.Diff(tc.later, there(t, inner)); d != "" {
				t.Errorf("what is written in the end (-want +got):\n%s", d)
			}
			if r, err := inner.Get(t.Context(), tc.later[len(tc.later)-1]); err != nil || string(r.Value) != r.Key {
				t.Errorf("%s is %q, %v", r.Key, r.Value, err)
			}
		})
	}
}

// A batch that fails itself before the fault returns its own error and the completed writes.
func TestBatchErrorBeforeTheFaultIsReturned(t *testing.T) {
	inner := memory.NewStore()
	if _, err := inner.Put(t.Context(), "b", nil, ""); err != nil {
		t.Fatal(err)
	}
	plan := faulty.NewPlan(faulty.NthWrite(3, faulty.After(errFault)))
	made, err := plan.BatchStore(inner).WriteAll(t.Context(), batchOf("a", "b", "c"))
	if len(made) != 1 || !errors.Is(err, backend.ErrConflict) || errors.Is(err, errFault) {
		t.Errorf("%d revisions and %v, want the conflict after one", len(made), err)
	}
	if got := there(t, inner); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("there are %v", got)
	}
}

// A store does not batch unless it is asked to: each write is a call.
func TestFaultyStoreIsNoBatcher(t *testing.T) {
	if _, ok := faulty.NewPlan().Store(memory.NewStore()).(backend.Batcher); ok {
		t.Error("the faulty store makes several writes at once")
	}
	inner := memory.NewStore()
	made, err := backend.WriteAll(t.Context(), faulty.NewPlan(faulty.CrashAfter(2)).Store(inner), batchOf("a", "b", "c"))
	if len(made) != 1 || !errors.Is(err, faulty.ErrCrashed) || inner.Len() != 2 {
		t.Errorf("%d revisions and %v, %d written", len(made), err, inner.Len())
	}
	if _, ok := faulty.NewPlan().BatchStore(memory.NewStore()).(backend.Watcher); !ok {
		t.Error("a batch store of a watcher does not watch")
	}
	if _, ok := faulty.NewPlan().BatchStore(struct{ backend.Store }{memory.NewStore()}).(backend.Watcher); ok {
		t.Error("a batch store pretends to watch")
	}
}

// crashing crashes the process while a batch is carried out.
type crashing struct {
	*memory.Store
	plan *faulty.Plan
}

func (c crashing) WriteAll(ctx context.Context, writes []backend.Write) ([]backend.Revision, error) {
	c.plan.Crash()
	return c.Store.WriteAll(ctx, writes)
}

func TestABatchInFlightDoesNotSurviveTheCrash(t *testing.T) {
	plan := faulty.NewPlan()
	inner := crashing{memory.NewStore(), plan}
	made, err := plan.BatchStore(inner).WriteAll(t.Context(), batchOf("a", "b"))
	if made != nil || !errors.Is(err, faulty.ErrCrashed) || inner.Len() != 2 {
		t.Errorf("%d revisions and %v, %d written", len(made), err, inner.Len())
	}
}
