package backend_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
)

// oneByOne hides that a store makes several writes at once, notes the writes and
// fails one of them.
type oneByOne struct {
	backend.Store
	calls []string
	fail  string
}

var errOneByOne = errors.New("fault")

func (s *oneByOne) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	s.calls = append(s.calls, "put "+key)
	if key == s.fail {
		return "", errOneByOne
	}
	return s.Store.Put(ctx, key, value, prev)
}

func (s *oneByOne) Delete(ctx context.Context, key string, prev backend.Revision) error {
	s.calls = append(s.calls, "delete "+key)
	return s.Store.Delete(ctx, key, prev)
}

// WriteAll makes the writes of a store that is no Batcher one after the other,
// and stops at the first that fails.
func TestWriteAllFallsBackToOneWriteAtATime(t *testing.T) {
	ctx := t.Context()
	s := &oneByOne{Store: memory.NewStore()}
	first, err := backend.WriteAll(ctx, s, []backend.Write{{Key: "a", Value: []byte("a")}, {Key: "b"}})
	if err != nil || len(first) != 2 {
		t.Fatalf("%q, %v", first, err)
	}
	s.fail = "c"
	made, err := backend.WriteAll(ctx, s, []backend.Write{
		{Key: "a", Delete: true, Prev: first[0]}, {Key: "b", Value: []byte("b"), Prev: first[1]}, {Key: "c"}, {Key: "d"},
	})
	if !errors.Is(err, errOneByOne) || len(made) != 2 || made[0] != "" || made[1] == first[1] {
		t.Errorf("%q, %v", made, err)
	}
	if d := cmp.Diff([]string{"put a", "put b", "delete a", "put b", "put c"}, s.calls); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	if r, err := s.Get(ctx, "b"); err != nil || r.Revision != made[1] || string(r.Value) != "b" {
		t.Errorf("b is %+v, %v", r, err)
	}
}

// batching counts the batches.
type batching struct {
	*memory.Store
	batches int
}

func (s *batching) WriteAll(ctx context.Context, writes []backend.Write) ([]backend.Revision, error) {
	s.batches++
	return s.Store.WriteAll(ctx, writes)
}

func TestWriteAllLeavesABatchToABatcher(t *testing.T) {
	s := &batching{Store: memory.NewStore()}
	made, err := backend.WriteAll(t.Context(), s, []backend.Write{{Key: "a"}, {Key: "b"}})
	if err != nil || len(made) != 2 || s.batches != 1 || s.Len() != 2 {
		t.Errorf("%q and %v in %d batches, %d keys", made, err, s.batches, s.Len())
	}
}
