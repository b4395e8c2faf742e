package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/placement"
)

// keepOne returns cluster a of a new fleet that s keeps, with a clock.
func keepOne(ctx context.Context, s backend.Store) (*memory.Cluster, error) {
	f := memory.NewFleet(placement.Cluster{Name: "a"})
	prepare(f.Cluster("a"))
	return f.Cluster("a"), f.Keep(ctx, s)
}

func prepare(c *memory.Cluster) {
	c.ManagedFields(true)
	c.SetClock(func() time.Time { return time.Unix(1e9, 0) })
	c.React(func(obj *unstructured.Unstructured) map[string]any {
		if obj.GetKind() != "Job" {
			return nil
		}
		return map[string]any{"observedGeneration": obj.GetGeneration()}
	})
}

func mustKeep(t *testing.T, s backend.Store) *memory.Cluster {
	t.Helper()
	c, err := keepOne(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type keptStep func(c *memory.Cluster) error

func applying(manager string, obj *unstructured.Unstructured) keptStep {
	return func(c *memory.Cluster) error {
		_, err := c.Conn().Apply(context.Background(), obj, backend.ApplyOptions{Manager: manager})
		return err
	}
}

func deleting(kind, namespace, name string) keptStep {
	return func(c *memory.Cluster) error { return c.Delete(id(kind, namespace, name)) }
}

// editing gives an object other finalizers.
func editing(namespace, name string, finalizers ...string) keptStep {
	return func(c *memory.Cluster) error {
		obj, err := c.Get(id("ConfigMap", namespace, name))
		if err != nil {
			return err
		}
		obj.SetFinalizers(finalizers)
		obj.Object["data"] = map[string]any{"edited": "yes"}
		return c.Update(obj)
	}
}

// keptScript has each kind of write.
func keptScript() []keptStep {
	held := object("ConfigMap", "team", "held", nil)
	held.SetFinalizers([]string{"example.com/hold"})
	marked := config("shared", map[string]any{"k": "v", "n": int64(3), "f": 1.5, "list": []any{"x", nil, true}})
	marked.SetAnnotations(map[string]string{"mark": "1"})
	job := func(n int64) *unstructured.Unstructured {
		return object("Job", "team", "job", map[string]any{"spec": map[string]any{"n": n}})
	}
	return []keptStep{
		applying("slipway/one", object("Namespace", "", "team", nil)),
		applying("slipway/one", marked),
		applying("slipway/two", config("shared", map[string]any{"mine": "2"})),
		applying("slipway/one", job(1)),
		applying("slipway/one", job(2)),
		editing("default", "shared"),
		func(c *memory.Cluster) error {
			return c.Conn().Delete(context.Background(), id("ConfigMap", "default", "shared"),
				backend.DeleteOptions{Manager: "slipway/one", Release: true, Marks: []string{"mark"}})
		},
		func(c *memory.Cluster) error {
			return c.SetStatus(id("ConfigMap", "default", "shared"), map[string]any{"ready": true})
		},
		applying("slipway/one", held),
		applying("slipway/one", object("Namespace", "", "default", map[string]any{"spec": map[string]any{"x": "y"}})),
		deleting("ConfigMap", "default", "shared"),
		applying("slipway/one", config("shared", map[string]any{})),
		deleting("Namespace", "", "team"), // the job goes, what is held stays
		editing("team", "held"),           // and now the namespace goes with it
		applying("slipway/one", object("Namespace", "", "team", nil)),
		applying("slipway/one", object("ConfigMap", "team", "a", nil)),
		applying("slipway/one", object("ConfigMap", "team", "b", nil)),
		deleting("Namespace", "", "team"),
		applying("slipway/one", object("Namespace", "", "team", nil)),
	}
}

// shape returns the objects without what differs after numbers were skipped.
func shape(objs []*unstructured.Unstructured) string {
	out := make([]*unstructured.Unstructured, len(objs))
	for i, obj := range objs {
		out[i] = obj.DeepCopy()
		out[i].SetResourceVersion("")
		out[i].SetUID("")
	}
	return spell(out)
}

func spell(v any) string {
	spelled, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(spelled)
}

// keptStates returns what a cluster in memory holds before and after each step.
func keptStates(t *testing.T) [][]*unstructured.Unstructured {
	t.Helper()
	c := memory.NewCluster("a")
	prepare(c)
	states := [][]*unstructured.Unstructured{c.List("")}
	for i, step := range keptScript() {
		if err := step(c); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		states = append(states, c.List(""))
	}
	return states
}

// witness has seen uids and versions, and says when one comes back.
type witness struct {
	versions map[string]string
	alive    map[string]bool // by uid; false when it is gone
}

func newWitness() *witness { return &witness{map[string]string{}, map[string]bool{}} }

func (w *witness) look(t *testing.T, objs []*unstructured.Unstructured) {
	t.Helper()
	now := map[string]bool{}
	for _, obj := range objs {
		uid, version := string(obj.GetUID()), obj.GetResourceVersion()
		if alive, known := w.alive[uid]; known && !alive {
			t.Errorf("uid %s came back with %s %s", uid, obj.GetKind(), obj.GetName())
		}
		spelled := spell(obj.Object)
		if before, known := w.versions[version]; known && before != spelled {
			t.Errorf("resourceVersion %s stands for two writes: %s", version, cmp.Diff(before, spelled))
		}
		w.versions[version], now[uid], w.alive[uid] = spelled, true, true
	}
	for uid := range w.alive {
		w.alive[uid] = now[uid]
	}
}

// endure runs the script; after a step that fails, again returns the cluster to
// go on with.
func endure(t *testing.T, c *memory.Cluster, states [][]*unstructured.Unstructured, again func(*memory.Cluster) *memory.Cluster) *memory.Cluster {
	t.Helper()
	w := newWitness()
	script := keptScript()
	for i := 0; i < len(script); i++ {
		before := c.List("")
		w.look(t, before)
		if err := script[i](c); err != nil {
			c = again(c)
			now := c.List("")
			switch {
			case spell(now) == spell(before):
				i--
			case shape(now) != shape(states[i+1]):
				t.Fatalf("after step %d failed (%v): %s", i, err, cmp.Diff(shape(states[i+1]), shape(now)))
			}
			w.look(t, now)
			continue
		}
		if want, got := shape(states[i+1]), shape(c.List("")); want != got {
			t.Fatalf("step %d: %s", i, cmp.Diff(want, got))
		}
	}
	return c
}

func TestAKeptClusterIsAfterACrashAsItsLastAcknowledgedWriteLeftIt(t *testing.T) {
	states := keptStates(t)
	for what, crash := range map[string]func(int) faulty.Rule{"before": faulty.CrashBefore, "after": faulty.CrashAfter} {
		for n := 1; ; n++ {
			store, plan := memory.NewStore(), faulty.NewPlan(crash(n))
			c := mustKeep(t, plan.Store(store))
			c = endure(t, c, states, func(*memory.Cluster) *memory.Cluster { return mustKeep(t, store) })
			if diff := cmp.Diff(c.List(""), mustKeep(t, store).List("")); diff != "" {
				t.Errorf("crash %s write %d, loaded once more: %s", what, n, diff)
			}
			if !plan.Crashed() {
				break
			}
			if t.Failed() {
				t.Fatalf("crash %s write %d", what, n)
			}
		}
	}
}

func TestAWriteOfUnknownOutcomeDoesNotMakeLaterAnswersWrong(t *testing.T) {
	states := keptStates(t)
	for what, fault := range map[string]faulty.Fault{
		"before": faulty.Before(nil), "after": faulty.After(nil), "late by 1": faulty.LateCalls(nil, 1),
		"late by 4": faulty.LateCalls(nil, 4), "late by 30": faulty.LateCalls(nil, 30),
	} {
		for _, batch := range []bool{false, true} {
			for n := 1; n < 45; n++ {
				if os.Getenv("SLIPWAY_SOAK") == "" && batch == (n%2 == 0) {
					continue
				}
				store, plan := memory.NewStore(), faulty.NewPlan(faulty.NthWrite(n, fault))
				keeper := plan.Store(store)
				if batch {
					keeper = plan.BatchStore(store)
				}
				c := endure(t, mustKeep(t, keeper), states, func(c *memory.Cluster) *memory.Cluster { return c })
				if diff := cmp.Diff(c.List(""), mustKeep(t, store).List("")); diff != "" {
					t.Errorf("loaded: %s", diff)
				}
				if t.Failed() {
					t.Fatalf("%s, write %d, batch %v", what, n, batch)
				}
			}
		}
	}
}

func TestAWriteThatTheStoreFailsFailsWithItsError(t *testing.T) {
	full := errors.New("the disk is full")
	broken := false
	plan := faulty.NewPlan(func(faulty.Call) faulty.Fault {
		if broken {
			return faulty.Before(full)
		}
		return faulty.Fault{}
	})
	c := mustKeep(t, plan.Store(memory.NewStore()))
	apply(t, c, config("a", map[string]any{"k": "v"}))
	broken = true
	a := id("ConfigMap", "default", "a")
	if err := c.SetStatus(a, map[string]any{"x": "y"}); !errors.Is(err, full) {
		t.Errorf("a write: %v", err)
	}
	if _, err := c.Get(a); !errors.Is(err, full) {
		t.Errorf("a read that does not know whether the write happened: %v", err)
	}
	broken = false
	if status := get(t, c, a).Object["status"]; status != nil {
		t.Errorf("status is %v after a write that did not happen", status)
	}
	large := config("large", map[string]any{"x": strings.Repeat("x", 1<<20)})
	if err := c.Update(large); !errors.Is(err, backend.ErrPermanent) {
		t.Errorf("an object too large for the store: %v", err)
	}
	if c.Len() != 3 {
		t.Errorf("%d objects, want 3", c.Len())
	}
}

func TestAKeptFleetKeepsTheContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := backendtest.CheckConn(t.Context(), func() (backend.Conn, error) {
			f := memory.NewFleet(placement.Cluster{Name: "a"})
			if err := f.Keep(t.Context(), memory.NewStore()); err != nil {
				return nil, err
			}
			return f.Dial(t.Context(), placement.Cluster{Name: "a"})
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestNumbersOutliveManyRestarts(t *testing.T) {
	store, w := memory.NewStore(), newWitness()
	uid := memory.NewCluster("a").UID()
	for restart := range 4 {
		c := mustKeep(t, store)
		w.look(t, c.List(""))
		for n := range 700 {
			apply(t, c, config("a", map[string]any{"k": fmt.Sprint(restart, n)}))
			w.look(t, c.List(""))
			if n%100 == 0 {
				if err := c.Delete(id("ConfigMap", "default", "a")); err != nil {
					t.Fatal(err)
				}
				w.look(t, c.List(""))
			}
		}
		if c.UID() != uid {
			t.Errorf("the cluster's uid is %s, was %s", c.UID(), uid)
		}
	}
}

func TestAClusterMadeAgainGetsNothingOfTheKeptOne(t *testing.T) {
	store := memory.NewStore()
	f := memory.NewFleet(placement.Cluster{Name: "a"}, placement.Cluster{Name: "b"})
	keep := func() {
		t.Helper()
		if err := f.Keep(t.Context(), store); err != nil {
			t.Fatal(err)
		}
	}
	keep()
	if store.Len() != 0 {
		t.Errorf("clusters that hold nothing have %d records", store.Len())
	}
	old := f.Cluster("a")
	apply(t, old, config("a", map[string]any{"k": "v"}))
	apply(t, f.Cluster("b"), config("b", map[string]any{"k": "v"}))
	made := f.Add(placement.Cluster{Name: "a"})
	keep()
	if _, err := old.Conn().Apply(t.Context(), config("a", map[string]any{"late": "1"}), backend.ApplyOptions{Manager: "m"}); err == nil {
		t.Error("a cluster that was replaced still takes writes of what was in it")
	}
	again := memory.NewFleet(placement.Cluster{Name: "a"}, placement.Cluster{Name: "b"})
	if err := again.Keep(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if again.Cluster("a").UID() != made.UID() || made.UID() == old.UID() {
		t.Errorf("uids: first %s, made again %s, loaded %s", old.UID(), made.UID(), again.Cluster("a").UID())
	}
	for c := range again.Clusters(t.Context()) {
		if c.UID != again.Cluster(c.Name).UID() {
			t.Errorf("the inventory says that %s has uid %s", c.Name, c.UID)
		}
	}
	if a, b := again.Cluster("a").Len(), again.Cluster("b").Len(); a != 2 || b != 3 {
		t.Errorf("%d and %d objects, want 2 and 3", a, b)
	}
}

func TestKeepGivesTheStoreWhatAClusterHolds(t *testing.T) {
	for n := 1; n < 8; n++ {
		store, plan := memory.NewStore(), faulty.NewPlan(faulty.CrashBefore(n))
		f := memory.NewFleet(placement.Cluster{Name: "a"})
		apply(t, f.Cluster("a"), config("a", map[string]any{"k": "v"}))
		apply(t, f.Cluster("a"), config("b", map[string]any{"k": "v"}))
		want := f.Cluster("a").List("")
		crashed := f.Keep(t.Context(), plan.Store(store)) != nil
		f = memory.NewFleet(placement.Cluster{Name: "a"})
		if crashed { // the same objects are not there again
			want = f.Cluster("a").List("")
		}
		if err := f.Keep(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, f.Cluster("a").List("")); diff != "" {
			t.Errorf("crash before write %d: %s", n, diff)
		}
	}
}

func TestAProcessThatLostTheClusterIsRefused(t *testing.T) {
	store := memory.NewStore()
	first := mustKeep(t, store)
	apply(t, first, config("a", map[string]any{"k": "1"}))
	second := mustKeep(t, store)
	apply(t, second, config("a", map[string]any{"k": "2"}))
	obj := config("a", map[string]any{"k": "3"})
	if _, err := first.Conn().Apply(t.Context(), obj, backend.ApplyOptions{Manager: "slipway/app"}); !errors.Is(err, backend.ErrConflict) {
		t.Errorf("a write over what another process wrote: %v", err)
	}
	a := id("ConfigMap", "default", "a")
	if diff := cmp.Diff(get(t, second, a), get(t, first, a)); diff != "" {
		t.Error(diff)
	}
}
