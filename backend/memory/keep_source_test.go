package memory_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/snapshot"
)

// keepSource returns a source of object a that s keeps.
func keepSource(t *testing.T, s backend.Store) *memory.Source {
	t.Helper()
	src := memory.NewSource(config("a", map[string]any{"k": "first"}))
	if err := src.Keep(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return src
}

func held(t *testing.T, src *memory.Source) map[string]any {
	t.Helper()
	out := map[string]any{}
	for obj, err := range src.Objects(t.Context(), snapshot.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		out[obj.GetName()] = obj.Object["data"]
	}
	return out
}

// sourceScript are changes of a source, and sourceStates what it has before and
// after each.
func sourceScript() []func(*memory.Source) error {
	put := func(name, v string) func(*memory.Source) error {
		return func(s *memory.Source) error { return s.Put(config(name, map[string]any{"k": v})) }
	}
	return []func(*memory.Source) error{
		put("a", "second"), put("b", "first"), put("b", "second"),
		func(s *memory.Source) error { return s.Delete(id("ConfigMap", "default", "a")) },
		put("a", "third"),
		func(s *memory.Source) error { return s.Delete(id("ConfigMap", "default", "b")) },
	}
}

func sourceStates(t *testing.T) []map[string]any {
	t.Helper()
	src := memory.NewSource(config("a", map[string]any{"k": "first"}))
	states := []map[string]any{held(t, src)}
	for _, step := range sourceScript() {
		if err := step(src); err != nil {
			t.Fatal(err)
		}
		states = append(states, held(t, src))
	}
	return states
}

func TestAKeptSourceIsAsItsLastAcknowledgedChangeLeftIt(t *testing.T) {
	states := sourceStates(t)
	for what, fault := range map[string]faulty.Fault{
		"crash before": {Crash: true}, "crash after": {Crash: true, After: faulty.ErrCrashed},
		"before": faulty.Before(nil), "after": faulty.After(nil),
		"late by 1": faulty.LateCalls(nil, 1), "late by 2": faulty.LateCalls(nil, 2), "late by 7": faulty.LateCalls(nil, 7),
	} {
		for n := 3; n < 10; n++ { // the first two are those of Keep
			store, plan := memory.NewStore(), faulty.NewPlan(faulty.NthWrite(n, fault))
			src := keepSource(t, plan.Store(store))
			for i, step := range sourceScript() {
				for err := step(src); err != nil; err = step(src) {
					if plan.Crashed() {
						src = keepSource(t, store)
					}
					if now := held(t, src); !cmp.Equal(now, states[i]) && !cmp.Equal(now, states[i+1]) {
						t.Fatalf("%s write %d, step %d: %v", what, n, i, now)
					}
				}
				if diff := cmp.Diff(states[i+1], held(t, src)); diff != "" {
					t.Fatalf("%s write %d, step %d: %s", what, n, i, diff)
				}
			}
			if diff := cmp.Diff(held(t, src), held(t, keepSource(t, store))); diff != "" {
				t.Errorf("%s write %d, loaded: %s", what, n, diff)
			}
		}
	}
}

func TestKeepOfASourceHappensWhollyOrNotAtAll(t *testing.T) {
	want := map[string]any{"a": map[string]any{"k": "first"}}
	for n := 1; n <= 2; n++ {
		store := memory.NewStore()
		plan := faulty.NewPlan(faulty.CrashBefore(n))
		src := memory.NewSource(config("gone", map[string]any{"k": "v"}))
		if err := src.Keep(context.Background(), plan.Store(store)); !errors.Is(err, faulty.ErrCrashed) {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, held(t, keepSource(t, store))); diff != "" {
			t.Errorf("crash before write %d: %s", n, diff)
		}
	}
}
