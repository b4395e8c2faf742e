package content

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

func never(string) bool { return false }

func object(kind, namespace, name string, data map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name}}}
	if namespace != "" {
		obj.SetNamespace(namespace)
	}
	if data != nil {
		obj.Object["data"] = data
	}
	return obj
}

func setOf(t *testing.T, names ...string) snapshot.Set {
	t.Helper()
	objs := []*unstructured.Unstructured{object("Namespace", "", "app", nil)}
	for _, n := range names {
		objs = append(objs, object("ConfigMap", "app", n, map[string]any{"v": "1"}))
	}
	set, err := snapshot.NewSet(objs)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestContentsComeBack(t *testing.T) {
	c := New(memory.NewStore())
	set := setOf(t, "a", "b", "c")
	if err := c.Save(t.Context(), "web", set, never); err != nil {
		t.Fatal(err)
	}
	got, err := c.LoadSet(t.Context(), "web", set.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(set, got); d != "" {
		t.Error(d)
	}
	items, root, err := c.Index(t.Context(), "web", set.Digest)
	if err != nil || !cmp.Equal(items, set.Items) || !cmp.Equal(root, set.Root()) {
		t.Errorf("index: %v %v %v", items, root, err)
	}
	if _, err := c.LoadSet(t.Context(), "web", snapshot.Digest(nil)); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("a set that is not there: %v", err)
	}
	if _, err := c.Load(t.Context(), "web", snapshot.Digest(nil)); !errors.Is(err, backend.ErrPermanent) || errors.Is(err, backend.ErrNotFound) {
		t.Errorf("a revision that is not there: %v", err)
	}
}

// TestSaveWritesOnlyNewRecords checks that one changed object costs one body, one page and one
// root.
func TestSaveWritesOnlyNewRecords(t *testing.T) {
	store := memory.NewStore()
	c := New(store)
	old, next := setOf(t, "a", "b"), setOf(t, "a", "b", "c")
	if err := c.Save(t.Context(), "web", old, never); err != nil {
		t.Fatal(err)
	}
	before, _ := store.Stats()
	known := map[string]bool{old.Digest: true}
	for _, i := range old.Items {
		known[i.Digest] = true
	}
	if err := c.Save(t.Context(), "web", next, func(d string) bool { return known[d] }); err != nil {
		t.Fatal(err)
	}
	if after, _ := store.Stats(); after-before > 1+2+1 {
		t.Errorf("%d writes for one new object", after-before)
	}
}

// TestSavingAgainProtects checks that repeated saving gives contents a new revision, so that a
// garbage collection which is about to delete the old revision fails.
func TestSavingAgainProtects(t *testing.T) {
	store := memory.NewStore()
	c := New(store)
	set := setOf(t, "a")
	old := map[string]backend.Revision{}
	if err := c.Save(t.Context(), "web", set, never); err != nil {
		t.Fatal(err)
	}
	for r, err := range store.List(t.Context(), record.ContentPrefix("web")) {
		if err != nil {
			t.Fatal(err)
		}
		old[r.Key] = r.Revision
	}
	if err := c.Save(t.Context(), "web", set, never); err != nil {
		t.Fatal(err)
	}
	for key, rev := range old {
		if err := store.Delete(t.Context(), key, rev); !errors.Is(err, backend.ErrConflict) {
			t.Errorf("%s could be deleted at its old revision: %v", key, err)
		}
	}
}

// TestT5TamperedContentIsNotApplied covers threat T5: if any bit of any stored content is changed,
// nothing of it is applied.
func TestT5TamperedContentIsNotApplied(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	store := memory.NewStore()
	cluster, set := memory.NewCluster("c1"), setOf(t, "a", "b")
	if err := New(store).Save(t.Context(), "web", set, never); err != nil {
		t.Fatal(err)
	}
	var records []backend.Record
	for rec, err := range store.List(t.Context(), record.ContentPrefix("web")) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, rec)
	}
	if err := placed(t, store, cluster, ""); err != nil {
		t.Fatal(err)
	}
	cluster.Record(true)
	for range sampled(10_000) {
		i := r.IntN(len(records))
		rec := &records[i]
		bit := r.IntN(8 * len(rec.Value))
		rec.Value[bit/8] ^= 1 << (bit % 8)
		overwriteRecord(t, store, rec)
		err := placed(t, store, cluster, set.Digest)
		if !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), set.Digest) || !strings.Contains(err.Error(), "placement web") {
			t.Fatalf("bit %d of %s: %v", bit, rec.Key, err)
		}
		rec.Value[bit/8] ^= 1 << (bit % 8)
		overwriteRecord(t, store, rec)
	}
	if log := cluster.Log(); len(log) != 0 {
		t.Errorf("the member was written: %v", log)
	}
	if err := placed(t, store, cluster, set.Digest); err != nil {
		t.Error(err)
	}
}

// placed brings a member to a revision of a store without a cache.
func placed(t *testing.T, store backend.Store, cluster *memory.Cluster, revision string) error {
	t.Helper()
	conns := member.NewConns(backend.DialerFunc(func(context.Context, placement.Cluster) (backend.Conn, error) { return cluster.Conn(), nil }), 0)
	defer conns.Close()
	u := member.NewApplier(conns, New(store).Load, nil, member.Options{})
	_, err := u.Update(t.Context(), member.WithKey(backend.Assignment{
		Placement: "web", Run: "r1", RunUID: "uid-r1", Epoch: 1, Attempt: 1, Cluster: placement.Cluster{Name: "c1"}, Revision: revision,
	}, []byte("0123456789abcdef0123456789abcdef")))
	return err
}

func overwriteRecord(t *testing.T, s backend.Store, rec *backend.Record) {
	t.Helper()
	rev, err := s.Put(t.Context(), rec.Key, rec.Value, rec.Revision)
	if err != nil {
		t.Fatal(err)
	}
	rec.Revision = rev
}

// TestT5SwappedContents checks that swapped contents are detected. Each matches a digest, but not
// the requested digest.
func TestT5SwappedContents(t *testing.T) {
	store := memory.NewStore()
	set, err := snapshot.NewSet([]*unstructured.Unstructured{object("ConfigMap", "default", "a", map[string]any{"v": "1"}), object("ConfigMap", "default", "b", map[string]any{"v": "2"})})
	if err == nil {
		err = New(store).Save(t.Context(), "web", set, never)
	}
	if err != nil {
		t.Fatal(err)
	}
	recA, errA := store.Get(t.Context(), key("web", set.Items[0].Digest))
	recB, errB := store.Get(t.Context(), key("web", set.Items[1].Digest))
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	recA.Value, recB.Value = recB.Value, recA.Value
	overwriteRecord(t, store, &recA)
	overwriteRecord(t, store, &recB)
	err = placed(t, store, memory.NewCluster("c1"), set.Digest)
	if !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "default/a") {
		t.Errorf("%v", err)
	}
}

// countingStore counts reads.
type countingStore struct {
	backend.Store
	mu   sync.Mutex
	gets int
}

func (s *countingStore) Get(ctx context.Context, key string) (backend.Record, error) {
	s.mu.Lock()
	s.gets++
	s.mu.Unlock()
	return s.Store.Get(ctx, key)
}

func TestThousandClustersLoadOnce(t *testing.T) {
	store := &countingStore{Store: memory.NewStore()}
	c := New(store)
	set := setOf(t, "a", "b")
	if err := c.Save(t.Context(), "web", set, never); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			if rev, err := c.Load(t.Context(), "web", set.Digest); err != nil || rev.Digest != set.Digest {
				t.Errorf("%v %v", rev, err)
			}
		})
	}
	wg.Wait()
	if most := 1 + len(set.Pages()) + len(set.Items); store.gets > most {
		t.Errorf("%d reads, want at most %d", store.gets, most)
	}
}

func TestRevisionsAreBounded(t *testing.T) {
	c := New(memory.NewStore())
	var digests []string
	for i := range revisionsKept + 5 {
		set := setOf(t, "a"+strconv.Itoa(i))
		digests = append(digests, set.Digest)
		if err := c.Save(t.Context(), "web", set, never); err != nil {
			t.Fatal(err)
		}
		for _, d := range []string{digests[0], set.Digest} {
			if _, err := c.Load(t.Context(), "web", d); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := c.revisions.Len(); n != revisionsKept {
		t.Errorf("%d revisions are kept", n)
	}
	if _, ok := c.revisions.Get(key("web", digests[0])); !ok {
		t.Error("the revision that is used all the time is not kept")
	}
}

// TestFailedLoadIsTriedAgain checks that a failed load is not cached, and that a caller whose
// context ends does not make other callers fail.
func TestFailedLoadIsTriedAgain(t *testing.T) {
	store := memory.NewStore()
	set := setOf(t, "a")
	if err := New(store).Save(t.Context(), "web", set, never); err != nil {
		t.Fatal(err)
	}
	c := New(faulty.NewPlan(faulty.Nth(1, faulty.Before(nil))).Store(store))
	if _, err := c.Load(t.Context(), "web", set.Digest); err == nil || errors.Is(err, backend.ErrPermanent) {
		t.Errorf("a store that fails: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Load(gone, "web", set.Digest); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that gave up: %v", err)
	}
	if _, err := c.Load(t.Context(), "web", set.Digest); err != nil {
		t.Error(err)
	}
}

// TestASetIsStoredInFewBatches checks that a set is stored in few batches, even if it is already
// stored, and that stored contents are rewritten.
func TestASetIsStoredInFewBatches(t *testing.T) {
	s := &batchCounter{Store: memory.NewStore()}
	c := New(s)
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprintf("object-%03d", i))
	}
	set := setOf(t, names...)
	for try := range 2 {
		if err := c.Save(t.Context(), "web", set, never); err != nil {
			t.Fatal(err)
		}
		written, _ := s.Stats()
		if each := s.Len(); written != (try+1)*each || s.batches > (2*try+1)*(each/record.BatchWrites+1) {
			t.Errorf("try %d: %d writes of %d contents in %d batches", try, written, each, s.batches)
		}
	}
}

// batchCounter counts calls of a store that makes several writes at once.
type batchCounter struct {
	*memory.Store
	batches int
}

func (s *batchCounter) WriteAll(ctx context.Context, writes []backend.Write) ([]backend.Revision, error) {
	s.batches++
	return s.Store.WriteAll(ctx, writes)
}

// TestAnIndexIsReadOnce checks that the index of a set is read once if the caller need not know
// whether the set is still stored.
func TestAnIndexIsReadOnce(t *testing.T) {
	store := &countingStore{Store: memory.NewStore()}
	c := New(store)
	set := setOf(t, "a", "b", "c")
	if err := c.Save(t.Context(), "web", set, never); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		items, root, err := c.Indexed(t.Context(), "web", set.Digest)
		if err != nil || !cmp.Equal(items, set.Items) || !cmp.Equal(root, set.Root()) {
			t.Errorf("indexed: %v %v %v", items, root, err)
		}
	}
	if want := 1 + len(set.Root().Pages); store.gets != want {
		t.Errorf("%d reads, not %d", store.gets, want)
	}
	if _, _, err := c.Indexed(t.Context(), "other", set.Digest); err == nil {
		t.Error("a placement was given the index of another one")
	}
}

// TestIndexesAreBounded checks that cached indexes are bounded by their numbers of objects.
func TestIndexesAreBounded(t *testing.T) {
	c := New(memory.NewStore())
	for n := range 5 {
		c.indexes.Add(strconv.Itoa(n), setIndex{items: make([]snapshot.Item, indexedObjects/4)})
	}
	if n := c.indexes.Len(); n != 3 {
		t.Errorf("%d indexes of a quarter are cached", n)
	}
	for n := range indexedObjects {
		c.indexes.Add(strconv.Itoa(n), setIndex{})
	}
	if n := c.indexes.Len(); n != indexedObjects/indexCost {
		t.Errorf("%d empty indexes are cached", n)
	}
}
