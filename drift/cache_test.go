package drift_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/drift/schema"
)

// cached compares with a cache and reports whether the verdict was there before.
func cached(t testing.TB, c *drift.Cache, cluster string, m *drift.Manifest, member *unstructured.Unstructured, b *drift.Baseline) (drift.Report, bool) {
	t.Helper()
	_, hit := c.Lookup(cluster, m, string(member.GetUID()), member.GetResourceVersion(), b)
	r, err := c.Compare(cluster, m, member, b)
	if err != nil {
		t.Fatal(err)
	}
	want, err := m.Compare(member, b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("the cache says something else (-want +got):\n%s", diff)
	}
	return r, hit
}

func TestACacheAnswersAsTheComparisonDid(t *testing.T) {
	hub, member := deployment(t)
	m := compiled(t, hub, drift.Partial)
	changed := member.DeepCopy()
	set(t, changed, int64(7), "spec", "replicas")
	changed.SetResourceVersion("184468")
	var c drift.Cache
	for _, o := range []*unstructured.Unstructured{member, changed} {
		if _, hit := cached(t, &c, "a", m, o, nil); hit {
			t.Error("it was there before it was compared")
		}
		if _, hit := cached(t, &c, "a", m, o, nil); !hit {
			t.Error("it was not there after it was compared")
		}
	}
	if c.Len() != 2 {
		t.Errorf("%d entries, want 2", c.Len())
	}
}

func TestAVerdictIsOfOneManifestOptionSchemaBaselineVersionAndCluster(t *testing.T) {
	hub, member := deployment(t)
	m := compiled(t, hub, drift.Full)
	var c drift.Cache
	cached(t, &c, "a", m, member, nil)

	other := hub.DeepCopy()
	set(t, other, int64(5), "spec", "replicas")
	ignoring, err := drift.Compile(hub, drift.Options{Comparison: drift.Full, Manager: "slipway/shop", Ignore: []drift.IgnoreRule{{Pointers: []string{"/spec"}}}})
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := drift.Compile(hub, drift.Options{Comparison: drift.Full, Manager: "slipway/shop", Schemas: schema.Join()})
	if err != nil {
		t.Fatal(err)
	}
	changed := member.DeepCopy()
	set(t, changed, int64(7), "spec", "replicas")
	baseline := m.Baseline(changed)
	if baseline.Len() == 0 {
		t.Fatal("the baseline is empty")
	}
	newer, recreated := member.DeepCopy(), member.DeepCopy()
	newer.SetResourceVersion("184469")
	recreated.SetUID("another")
	for name, hit := range map[string]func() bool{
		"another hub object": func() bool { _, hit := cached(t, &c, "a", compiled(t, other, drift.Full), member, nil); return hit },
		"another comparison": func() bool { _, hit := cached(t, &c, "a", compiled(t, hub, drift.Partial), member, nil); return hit },
		"other rules":        func() bool { _, hit := cached(t, &c, "a", ignoring, member, nil); return hit },
		"another schema":     func() bool { _, hit := cached(t, &c, "a", unknown, member, nil); return hit },
		"a baseline":         func() bool { _, hit := cached(t, &c, "a", m, member, baseline); return hit },
		"another version":    func() bool { _, hit := cached(t, &c, "a", m, newer, nil); return hit },
		"another uid":        func() bool { _, hit := cached(t, &c, "a", m, recreated, nil); return hit },
		"another cluster":    func() bool { _, hit := cached(t, &c, "b", m, member, nil); return hit },
	} {
		if hit() {
			t.Errorf("%s: the verdict was taken for it", name)
		}
	}
	if _, hit := cached(t, &c, "a", compiled(t, hub, drift.Full), member, nil); !hit {
		t.Error("the same manifest, compiled again, has another verdict")
	}
}

func TestABaselineThatWasStoredHasTheSameVerdict(t *testing.T) {
	hub, member := deployment(t)
	m := compiled(t, hub, drift.Full)
	changed := member.DeepCopy()
	set(t, changed, int64(7), "spec", "replicas")
	var c drift.Cache
	cached(t, &c, "a", m, member, m.Baseline(changed))
	text, err := m.Baseline(changed).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var stored drift.Baseline
	if err := stored.UnmarshalBinary(text); err != nil {
		t.Fatal(err)
	}
	if _, hit := cached(t, &c, "a", m, member, &stored); !hit {
		t.Error("it has another verdict")
	}
}

func TestWhatHasNoVersionIsNotRemembered(t *testing.T) {
	hub, member := deployment(t)
	m := compiled(t, hub, drift.Partial)
	var c drift.Cache
	for _, field := range []string{"uid", "resourceVersion"} {
		o := member.DeepCopy()
		unstructured.RemoveNestedField(o.Object, "metadata", field)
		cached(t, &c, "a", m, o, nil)
	}
	if r, err := c.Compare("a", m, nil, nil); err != nil || r.State != drift.Absent {
		t.Errorf("%v %v", r.State, err)
	}
	if c.Len() != 0 {
		t.Errorf("%d entries, want none", c.Len())
	}
}

func TestACacheForgetsTheOldestAndKeepsWhatIsAskedFor(t *testing.T) {
	hub, member := deployment(t)
	m := compiled(t, hub, drift.Partial)
	c := drift.Cache{Entries: 320}
	for i := range 5000 {
		member.SetResourceVersion(fmt.Sprint(i))
		cached(t, &c, "a", m, member, nil)
		if _, ok := c.Lookup("a", m, string(member.GetUID()), "0", nil); !ok {
			t.Fatalf("what is asked for all the time was forgotten after %d", i)
		}
		if c.Len() > 320 {
			t.Fatalf("%d entries, want at most 320", c.Len())
		}
	}
	if _, ok := c.Lookup("a", m, string(member.GetUID()), "1", nil); ok {
		t.Error("the oldest is still there")
	}
}

func TestACacheIsSafeForManyGoroutines(t *testing.T) {
	hub, member := deployment(t)
	m := compiled(t, hub, drift.Partial)
	c := drift.Cache{Entries: 64}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			o := member.DeepCopy()
			for i := range 200 {
				o.SetResourceVersion(fmt.Sprint(i % 50))
				set(t, o, int64(i%50), "spec", "replicas")
				r, err := c.Compare("a", m, o, nil)
				if err != nil || r.Drifted() != (i%50 != 3) {
					t.Errorf("goroutine %d, version %d: %v, %d differences", g, i%50, err, r.Total)
				}
			}
		})
	}
	wg.Wait()
}

func TestAnEntryOfAnObjectWithoutDifferencesTakesLessThan64Bytes(t *testing.T) {
	hub, member := pair(t, map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "uid": "b"},
	})
	m := compiled(t, hub, drift.Partial)
	for _, entries := range []int{20_000, 40_000, 60_000} {
		var c drift.Cache
		before := heap()
		for i := range entries {
			member.SetResourceVersion(fmt.Sprint(i))
			if _, err := c.Compare("a", m, member, nil); err != nil {
				t.Fatal(err)
			}
		}
		if size := (heap() - before) / int64(c.Len()); size > 64 {
			t.Errorf("%d bytes an entry of %d, want at most 64", size, entries)
		}
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
