package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

func object(kind, namespace, name string, rest map[string]any) *unstructured.Unstructured {
	meta := map[string]any{"name": name}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	obj := map[string]any{"apiVersion": "v1", "kind": kind, "metadata": meta}
	maps.Copy(obj, rest)
	return &unstructured.Unstructured{Object: obj}
}

func config(name, value string) *unstructured.Unstructured {
	return object("ConfigMap", "default", name, map[string]any{"data": map[string]any{"k": value}})
}

// open returns a fleet with cluster a, as the store has it.
func open(ctx context.Context, s backend.Store) (*durable.Fleet, error) {
	f := durable.NewFleet(s)
	err := f.Open(ctx, placement.Cluster{Name: "a"})
	if err == nil {
		c := f.Cluster("a")
		c.ManagedFields(true)
		c.SetClock(func() time.Time { return time.Unix(1e9, 0) })
		c.React(func(obj *unstructured.Unstructured) map[string]any {
			return map[string]any{"observedGeneration": obj.GetGeneration()}
		})
	}
	return f, err
}

func mustOpen(t *testing.T, s backend.Store) *durable.Fleet {
	t.Helper()
	f, err := open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

type step func(ctx context.Context, f *durable.Fleet) error

func dialled(call func(ctx context.Context, c backend.Conn) error) step {
	return func(ctx context.Context, f *durable.Fleet) error {
		c, err := f.Dial(ctx, placement.Cluster{Name: "a"})
		if err != nil {
			return err
		}
		return call(ctx, c)
	}
}

func applying(manager string, obj *unstructured.Unstructured) step {
	return dialled(func(ctx context.Context, c backend.Conn) error {
		_, err := c.Apply(ctx, obj, backend.ApplyOptions{Manager: manager})
		return err
	})
}

func deleting(obj *unstructured.Unstructured, o backend.DeleteOptions) step {
	return dialled(func(ctx context.Context, c backend.Conn) error {
		if err := c.Delete(ctx, snapshot.IDOf(obj), o); !errors.Is(err, backend.ErrNotFound) {
			return err
		}
		return nil // an earlier attempt deleted it
	})
}

// script has each kind of change. Each step may be repeated.
func script() []step {
	team, held := object("Namespace", "", "team", nil), object("ConfigMap", "team", "held", nil)
	held.SetFinalizers([]string{"example.com/hold"})
	rich := config("shared", "v")
	rich.Object["spec"] = map[string]any{"n": int64(3), "f": 1.5, "list": []any{"x", nil, true}}
	return []step{
		applying("slipway/one", team),
		applying("slipway/one", rich),
		applying("slipway/two", object("ConfigMap", "default", "shared", map[string]any{"mine": "2"})),
		applying("slipway/one", held),
		func(ctx context.Context, f *durable.Fleet) error {
			return f.Change(ctx, "a", func(c *memory.Cluster) error { return c.Update(config("shared", "edited")) })
		},
		deleting(rich, backend.DeleteOptions{Manager: "slipway/one", Release: true}),
		deleting(team, backend.DeleteOptions{}), // terminates, because something is held
		func(ctx context.Context, f *durable.Fleet) error {
			return f.Change(ctx, "a", func(c *memory.Cluster) error {
				if _, err := c.Get(snapshot.IDOf(held)); errors.Is(err, backend.ErrNotFound) {
					return nil
				}
				return c.Update(object("ConfigMap", "team", "held", nil)) // now both go
			})
		},
		deleting(rich, backend.DeleteOptions{}),
		applying("slipway/one", config("last", "v")),
	}
}

// contents returns the objects of cluster a, without the parts that depend on the number of
// attempts of a step.
func contents(t *testing.T, f *durable.Fleet) string {
	t.Helper()
	objs := f.Cluster("a").List("")
	for _, obj := range objs {
		obj.SetUID("")
		obj.SetResourceVersion("")
	}
	text, err := json.Marshal(objs)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// At each write of each step the store fails, or the process crashes: acknowledged changes
// persist, and the step can be repeated.
func TestAClusterSurvivesFaultsAtEachWrite(t *testing.T) {
	var want []string
	plain := mustOpen(t, memory.NewStore())
	for i, next := range script() {
		if err := next(t.Context(), plain); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		want = append(want, contents(t, plain))
	}
	for name, fault := range map[string]faulty.Fault{
		"before": faulty.Before(nil), "after": faulty.After(nil), "late": faulty.LateCalls(nil, 1), "very late": faulty.LateCalls(nil, 9),
	} {
		for n := 2; n < len(want)+2; n++ {
			for _, restart := range []bool{false, true} {
				store, plan := memory.NewStore(), faulty.NewPlan(faulty.NthWrite(n, fault))
				f := mustOpen(t, plan.Store(store))
				failed := 0
				for i, next := range script() {
					for next(t.Context(), f) != nil {
						if failed++; restart {
							f = mustOpen(t, plan.Store(store))
						}
						if failed > 5 {
							t.Fatalf("%s, write %d: step %d fails again and again", name, n, i)
						}
					}
					if got := contents(t, f); got != want[i] && !restart {
						t.Fatalf("%s, write %d, step %d: %s", name, n, i, cmp.Diff(want[i], got))
					}
					if got := contents(t, mustOpen(t, store)); got != want[i] && !restart {
						t.Fatalf("%s, write %d, step %d, stored: %s", name, n, i, cmp.Diff(want[i], got))
					}
				}
				if failed != 1 {
					t.Errorf("%s, write %d: %d steps failed", name, n, failed)
				}
			}
		}
	}
}

func TestReopenedFleetEqualsTheAcknowledgedState(t *testing.T) {
	store := memory.NewStore()
	f := mustOpen(t, store)
	for i, next := range script() {
		if err := next(t.Context(), f); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		again := mustOpen(t, store)
		if d := cmp.Diff(f.Cluster("a").List(""), again.Cluster("a").List("")); d != "" {
			t.Fatalf("step %d: %s", i, d)
		}
		if f.Cluster("a").UID() != again.Cluster("a").UID() {
			t.Fatal("the cluster's uid changed")
		}
		if i%2 == 0 {
			f = again
		}
	}
}

func TestAChangeThatTheStoreRefusesIsReverted(t *testing.T) {
	full, broken := errors.New("the disk is full"), false
	plan := faulty.NewPlan(func(faulty.Call) faulty.Fault {
		if broken {
			return faulty.Before(full)
		}
		return faulty.Fault{}
	})
	f := mustOpen(t, plan.Store(memory.NewStore()))
	read := dialled(func(ctx context.Context, c backend.Conn) error {
		_, err := c.Get(ctx, snapshot.IDOf(config("a", "")))
		return err
	})
	if err := applying("m", config("a", "v"))(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	before := contents(t, f)
	broken = true
	if err := applying("m", config("a", "w"))(t.Context(), f); !errors.Is(err, full) {
		t.Errorf("a change: %v", err)
	}
	if err := read(t.Context(), f); !errors.Is(err, full) {
		t.Errorf("a read that does not know whether the change happened: %v", err)
	}
	broken = false
	if err := read(t.Context(), f); err != nil || contents(t, f) != before {
		t.Errorf("%v: %s", err, contents(t, f))
	}
	if err := applying("m", config("b", strings.Repeat("x", 1<<20)))(t.Context(), f); !errors.Is(err, backend.ErrPermanent) {
		t.Errorf("more than a record holds: %v", err)
	}
	if err := read(t.Context(), f); err != nil || contents(t, f) != before {
		t.Errorf("%v: %s", err, contents(t, f))
	}
}

func TestAClusterMadeAgainHasNothingOfTheOldOne(t *testing.T) {
	store := memory.NewStore()
	f := mustOpen(t, store)
	old := f.Cluster("a").UID()
	conn, err := f.Dial(t.Context(), placement.Cluster{Name: "a"})
	if err == nil {
		err = applying("m", config("a", "v"))(t.Context(), f)
	}
	if err == nil {
		err = f.Replace(t.Context(), placement.Cluster{Name: "a"})
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := conn.Apply(t.Context(), config("late", "v"), backend.ApplyOptions{Manager: "m"}); err == nil {
			t.Error("the cluster that was replaced still takes changes")
		}
	}
	again := mustOpen(t, store)
	if n, uid := again.Cluster("a").Len(), again.Cluster("a").UID(); n != 2 || uid == old || uid != f.Cluster("a").UID() {
		t.Errorf("%d objects; uids: %s, made again %s, opened %s", n, old, f.Cluster("a").UID(), uid)
	}
}

func TestConnKeepsTheContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := backendtest.CheckConn(t.Context(), func() (backend.Conn, error) {
			f := durable.NewFleet(memory.NewStore())
			if err := f.Open(t.Context(), placement.Cluster{Name: "a"}); err != nil {
				return nil, err
			}
			return f.Dial(t.Context(), placement.Cluster{Name: "a"})
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestASourceSurvives(t *testing.T) {
	values := func(s *durable.Source) (out []string) {
		for obj, err := range s.Objects(t.Context(), snapshot.Query{}) {
			if err != nil {
				return []string{err.Error()}
			}
			out = append(out, fmt.Sprint(obj.GetName(), obj.Object["data"]))
		}
		return out
	}
	for _, fault := range []faulty.Fault{{}, faulty.Before(nil), faulty.After(nil), faulty.LateCalls(nil, 2)} {
		store, plan := memory.NewStore(), faulty.NewPlan(faulty.NthWrite(2, fault))
		s, err := durable.OpenSource(t.Context(), plan.Store(store), config("a", "1"))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err = s.Put(t.Context(), config("b", "2")); err == nil {
				break
			}
		}
		want := []string{"amap[k:1]", "bmap[k:2]"}
		if d := cmp.Diff(want, values(s)); d != "" || err != nil {
			t.Error(err, d)
		}
		again, err := durable.OpenSource(t.Context(), store, config("other", "1"))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, values(again)); d != "" {
			t.Error(d)
		}
	}
}

func TestRecordsOfAnotherFormatAreRefused(t *testing.T) {
	for _, value := range []string{`{"format":2}`, `{}`, `x`} {
		store := memory.NewStore()
		for _, key := range []string{"member/a", "source"} {
			if _, err := store.Put(t.Context(), key, []byte(value), ""); err != nil {
				t.Fatal(err)
			}
		}
		_, ofFleet := open(t.Context(), store)
		_, ofSource := durable.OpenSource(t.Context(), store)
		if !errors.Is(ofFleet, backend.ErrPermanent) || !errors.Is(ofSource, backend.ErrPermanent) {
			t.Errorf("%s: %v, %v", value, ofFleet, ofSource)
		}
	}
}

// OpenAll opens the stored clusters of another process: every cluster with its objects, and no
// other record of the store.
func TestAllClustersOfAStoreAreOpened(t *testing.T) {
	s, before := memory.NewStore(), []string{"a", "b"}
	f := durable.NewFleet(s)
	for _, name := range before {
		err := f.Open(t.Context(), placement.Cluster{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := f.Dial(t.Context(), placement.Cluster{Name: name})
		if err == nil {
			_, err = conn.Apply(t.Context(), config(name, "kept"), backend.ApplyOptions{Manager: "test"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Put(t.Context(), "placement/c", []byte("{}"), ""); err != nil {
		t.Fatal(err)
	}
	f = durable.NewFleet(s)
	if err := f.OpenAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for c, err := range f.Clusters(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		obj, err := f.Cluster(c.Name).Get(snapshot.IDOf(config(c.Name, "")))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, obj.GetName())
	}
	if diff := cmp.Diff(before, got); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
}

// Processes that share clusters see each other's changes, and no change is lost if they change a
// cluster at the same time.
func TestSharedClusters(t *testing.T) {
	t.Parallel()
	s := memory.NewStore()
	const processes, changes = 4, 25
	conns := make([]backend.Conn, processes)
	var all sync.WaitGroup
	for i := range conns {
		all.Go(func() {
			f := durable.NewFleet(s)
			f.Shared = true
			err := f.Open(t.Context(), placement.Cluster{Name: "a"}, placement.Cluster{Name: "b"})
			if err == nil {
				conns[i], err = f.Dial(t.Context(), placement.Cluster{Name: "a"})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	for i, c := range conns {
		all.Go(func() {
			for j := range changes {
				name := fmt.Sprintf("%d-%d", i, j)
				if _, err := c.Apply(t.Context(), config(name, "v"), backend.ApplyOptions{Manager: "m"}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	all.Wait()
	for _, c := range conns {
		for i := range processes * changes {
			id := snapshot.IDOf(config(fmt.Sprintf("%d-%d", i/changes, i%changes), ""))
			if _, err := c.Get(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
	}
}
