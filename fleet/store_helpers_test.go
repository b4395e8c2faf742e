package fleet_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// dump returns everything that a store holds.
func dump(t *testing.T, s backend.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for rec, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		out[rec.Key] = string(rec.Value)
	}
	return out
}

// hookedStore calls before for every call. It cannot be watched.
type hookedStore struct {
	backend.Store
	before func(op, key string)
}

func (s *hookedStore) Get(ctx context.Context, key string) (backend.Record, error) {
	s.before("get", key)
	return s.Store.Get(ctx, key)
}

func (s *hookedStore) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	s.before("put", key)
	return s.Store.Put(ctx, key, value, prev)
}

func (s *hookedStore) Delete(ctx context.Context, key string, prev backend.Revision) error {
	s.before("delete", key)
	return s.Store.Delete(ctx, key, prev)
}

func (s *hookedStore) List(ctx context.Context, prefix string) iter.Seq2[backend.Record, error] {
	s.before("list", prefix)
	return s.Store.List(ctx, prefix)
}

// turn is an action before a call with a given prefix.
type turn struct {
	begin string
	do    func()
}

// inTurn carries out turns one after the other, each before its first matching call after the
// previous turn. After the last turn it does nothing.
func inTurn(turns ...turn) func(op, key string) {
	var mu sync.Mutex
	next := func(op, key string) (do func()) {
		mu.Lock()
		defer mu.Unlock()
		if len(turns) == 0 || !strings.HasPrefix(op+" "+key, turns[0].begin) {
			return func() {}
		}
		do, turns = turns[0].do, turns[1:]
		return do
	}
	return func(op, key string) { next(op, key)() }
}

// meanwhile runs do once for each store call of do, and carries out another action before that
// call. With the race detector, it runs do for every third call.
func meanwhile(t *testing.T, setUp func() (do func(backend.Store), store backend.Store, other func(), check func())) {
	t.Helper()
	for n := 1; ; n += apart(3) {
		do, store, other, check := setUp()
		calls := 0
		do(&hookedStore{store, func(string, string) {
			if calls++; calls == n {
				other()
			}
		}})
		if calls < n {
			t.Logf("%d store calls", calls)
			return
		}
		check()
		if t.Failed() {
			t.Fatalf("when it happened before call %d", n)
		}
	}
}

// edit changes a stored record past all engines.
func edit(t *testing.T, s backend.Store, key string, change func(string) string) {
	t.Helper()
	rec, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), key, []byte(change(string(rec.Value))), rec.Revision); err != nil {
		t.Fatal(err)
	}
}

// damage makes a record unreadable. A second call restores the record.
func damage(value string) string {
	b := []byte(value)
	b[0] ^= 1
	return string(b)
}

// newerFormat turns a record into one of a newer format.
func newerFormat(value string) string {
	return strings.Replace(value, `"format":1`, `"format":9`, 1)
}

// indexesOf returns the indexes of the kept snapshots.
func indexesOf(t *testing.T, e *fleet.Engine, placement string) (out []int) {
	t.Helper()
	for _, s := range viewOf(t, e, placement).Snapshots() {
		out = append(out, s.Index)
	}
	return out
}

// wantIndexes checks which snapshots are kept, and that each is complete.
func wantIndexes(t *testing.T, e *fleet.Engine, placement string, want ...int) {
	t.Helper()
	if d := cmp.Diff(want, indexesOf(t, e, placement)); d != "" {
		t.Errorf("indexes that are kept:\n%s", d)
	}
	wantWhole(t, e, placement)
}

// wantWhole checks that every kept snapshot can be rolled out.
func wantWhole(t *testing.T, e *fleet.Engine, placement string) {
	t.Helper()
	for _, i := range indexesOf(t, e, placement) {
		if _, err := e.Preview(t.Context(), fleet.RunSpec{Placement: placement, Index: &i, Strategy: oneStage()}); err != nil {
			t.Errorf("snapshot %d: %v", i, err)
		}
	}
}

// refused checks that do fails with an error that contains want, and that the store is unchanged.
func refused(t *testing.T, s backend.Store, what string, do func() error, want ...string) error {
	t.Helper()
	before := dump(t, s)
	err := do()
	if err == nil {
		t.Errorf("%s is accepted", what)
		return nil
	}
	for _, part := range append(want, "") {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v\nwant %q in it", what, err, part)
		}
	}
	if strings.Contains(err.Error(), "nternal error") {
		t.Errorf("%s: %v", what, err)
	}
	if d := cmp.Diff(before, dump(t, s)); d != "" {
		t.Errorf("%s left something behind:\n%s", what, d)
	}
	return err
}

// recordedDrift returns the recorded drift of a placement.
func recordedDrift(ctx context.Context, p fleet.PlacementHandle) (all []drift.ClusterReport, err error) {
	for c, err := range p.Drift(ctx, fleet.DriftOptions{Recorded: true}) {
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// must fails the test on an error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// oneStage updates all clusters, one after the other.
func oneStage() stages.Strategy {
	return stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: everything()}}}
}

// logStore notes the calls, as "op key".
type logStore struct {
	backend.Store
	mu    sync.Mutex
	calls []string
}

func (s *logStore) hooked() *hookedStore {
	return &hookedStore{s.Store, func(op, key string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = append(s.calls, op+" "+key)
	}}
}

// count returns the number of calls since the last time, by prefix.
func (s *logStore) count(prefix string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if strings.HasPrefix(c, prefix) {
			n++
		}
	}
	s.calls = slices.DeleteFunc(s.calls, func(c string) bool { return strings.HasPrefix(c, prefix) })
	return n
}

var errStoreDown = errors.New("the store is down")

func percent(s string) *intstr.IntOrString {
	v := intstr.FromString(s)
	return &v
}

// flakyStore fails while down is set, and ends watches while cutWatches is set.
type flakyStore struct {
	*memory.Store
	down, cutWatches atomic.Bool
}

func (s *flakyStore) Get(ctx context.Context, key string) (backend.Record, error) {
	if s.down.Load() {
		return backend.Record{}, errStoreDown
	}
	return s.Store.Get(ctx, key)
}

func (s *flakyStore) List(ctx context.Context, prefix string) iter.Seq2[backend.Record, error] {
	if s.down.Load() {
		return func(yield func(backend.Record, error) bool) { yield(backend.Record{}, errStoreDown) }
	}
	return s.Store.List(ctx, prefix)
}

func (s *flakyStore) Watch(ctx context.Context, prefix string) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		if s.down.Load() {
			yield(backend.Change{}, errStoreDown)
			return
		}
		n := 0
		for c, err := range s.Store.Watch(ctx, prefix) {
			if n++; s.cutWatches.Load() && n%5 == 0 {
				yield(backend.Change{}, errStoreDown)
				return
			}
			if !yield(c, err) {
				return
			}
		}
	}
}
