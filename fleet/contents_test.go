package fleet

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/snapshot"
)

func never(string) bool { return false }

func setOf(t *testing.T, names ...string) snapshot.Set {
	t.Helper()
	objs := []*unstructured.Unstructured{namespaceObject("app")}
	for _, n := range names {
		objs = append(objs, configMap("app", n, "1"))
	}
	set, err := snapshot.NewSet(objs)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestContentsComeBack(t *testing.T) {
	c := newContents(memory.NewStore())
	set := setOf(t, "a", "b", "c")
	if err := c.save(t.Context(), "web", set, never); err != nil {
		t.Fatal(err)
	}
	got, err := c.loadSet(t.Context(), "web", set.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(set, got); d != "" {
		t.Error(d)
	}
	items, pages, err := c.index(t.Context(), "web", set.Digest)
	if err != nil || !cmp.Equal(items, set.Items) || !cmp.Equal(pages, set.Root().Pages) {
		t.Errorf("index: %v %v %v", items, pages, err)
	}
	if _, err := c.loadSet(t.Context(), "web", snapshot.Digest(nil)); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("a set that is not there: %v", err)
	}
	if _, err := c.load(t.Context(), "web", snapshot.Digest(nil)); !errors.Is(err, backend.ErrPermanent) || errors.Is(err, backend.ErrNotFound) {
		t.Errorf("a revision that is not there: %v", err)
	}
}

// One changed object costs one body, one page and one root.
func TestSaveWritesOnlyWhatIsNew(t *testing.T) {
	store := memory.NewStore()
	c := newContents(store)
	old, next := setOf(t, "a", "b"), setOf(t, "a", "b", "c")
	if err := c.save(t.Context(), "web", old, never); err != nil {
		t.Fatal(err)
	}
	before, _ := store.Stats()
	known := map[string]bool{old.Digest: true}
	for _, i := range old.Items {
		known[i.Digest] = true
	}
	if err := c.save(t.Context(), "web", next, func(d string) bool { return known[d] }); err != nil {
		t.Fatal(err)
	}
	if after, _ := store.Stats(); after-before > 1+2+1 {
		t.Errorf("%d writes for one new object", after-before)
	}
}

// What is saved again gets a new revision, so that whoever wants to delete the
// old one cannot.
func TestSavingAgainProtects(t *testing.T) {
	store := memory.NewStore()
	c := newContents(store)
	set := setOf(t, "a")
	old := map[string]backend.Revision{}
	if err := c.save(t.Context(), "web", set, never); err != nil {
		t.Fatal(err)
	}
	for r, err := range store.List(t.Context(), contentPrefix("web")) {
		if err != nil {
			t.Fatal(err)
		}
		old[r.Key] = r.Revision
	}
	if err := c.save(t.Context(), "web", set, never); err != nil {
		t.Fatal(err)
	}
	for key, rev := range old {
		if err := store.Delete(t.Context(), key, rev); !errors.Is(err, backend.ErrConflict) {
			t.Errorf("%s could be deleted at its old revision: %v", key, err)
		}
	}
}

// Threat T5: whatever bit of whatever is stored is changed, nothing of it is
// applied.
func TestT5TamperedContentIsNotApplied(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	store := memory.NewStore()
	k := newKit(t)
	k.contents = newContents(store)
	k.revision("T", namespaceObject("app"), configMap("app", "a", "1"), configMap("app", "b", "2"))
	var records []backend.Record
	for rec, err := range store.List(t.Context(), contentPrefix(kitPlacement)) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, rec)
	}
	k.place("", 1, "r0")
	k.member.Record(true)
	for range sampled(10_000) {
		i := r.IntN(len(records))
		rec := &records[i]
		bit := r.IntN(8 * len(rec.Value))
		rec.Value[bit/8] ^= 1 << (bit % 8)
		overwriteRecord(t, store, rec)
		k.contents = newContents(store) // nothing is cached
		_, err := k.leader(nil).Update(t.Context(), k.want("T", 1, "r1"))
		if !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), k.revs["T"]) || !strings.Contains(err.Error(), "placement web") {
			t.Fatalf("bit %d of %s: %v", bit, rec.Key, err)
		}
		rec.Value[bit/8] ^= 1 << (bit % 8)
		overwriteRecord(t, store, rec)
	}
	if log := k.member.Log(); len(log) != 0 {
		t.Errorf("the member was written: %v", log)
	}
	k.contents = newContents(store)
	k.place("T", 1, "r1")
}

func overwriteRecord(t *testing.T, s backend.Store, rec *backend.Record) {
	t.Helper()
	rev, err := s.Put(t.Context(), rec.Key, rec.Value, rec.Revision)
	if err != nil {
		t.Fatal(err)
	}
	rec.Revision = rev
}

// Contents that were swapped are found out too: each is what some digest
// promises, but not the one that asked.
func TestT5SwappedContents(t *testing.T) {
	store := memory.NewStore()
	k := newKit(t)
	k.contents = newContents(store)
	k.revision("T", configMap("default", "a", "1"), configMap("default", "b", "2"))
	items, _, err := k.contents.index(t.Context(), kitPlacement, k.revs["T"])
	if err != nil {
		t.Fatal(err)
	}
	recA, errA := store.Get(t.Context(), contentKey(kitPlacement, items[0].Digest))
	recB, errB := store.Get(t.Context(), contentKey(kitPlacement, items[1].Digest))
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	recA.Value, recB.Value = recB.Value, recA.Value
	overwriteRecord(t, store, &recA)
	overwriteRecord(t, store, &recB)
	_, err = k.leader(nil).Update(t.Context(), k.want("T", 1, "r1"))
	if !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "default/a") {
		t.Errorf("%v", err)
	}
}

// Threat T6: what is applied is what the digest in the plan names, whatever
// became of the objects, the latest snapshot or the member since.
func TestT6TheFrozenRevisionIsApplied(t *testing.T) {
	k := newKit(t)
	source := configMap("default", "a", "approved")
	frozen := k.revision("approved", source)
	source.Object["data"].(map[string]any)["v"] = "changed"
	k.revision("changed", source)
	u := k.leader(nil)
	if r := k.must(u, k.want("approved", 1, "r1")); r.Revision != frozen {
		t.Errorf("%+v", r)
	}
	if got := k.objects()["ConfigMap/default/a"]; got != "approved+ours" {
		t.Errorf("applied %q", got)
	}
	// Neither does it matter what a member makes of the objects it is given.
	rev, err := k.contents.load(t.Context(), kitPlacement, frozen)
	if err != nil {
		t.Fatal(err)
	}
	body, err := snapshot.Canonical(rev.items[0].obj.Object)
	if err != nil {
		t.Fatal(err)
	}
	k.exists(configMap("default", "a", "edited"))
	k.must(u, k.want("approved", 2, "r1"))
	k.must(u, k.want("changed", 3, "r2"))
	again, err := snapshot.Canonical(rev.items[0].obj.Object)
	if err != nil || !bytes.Equal(body, again) {
		t.Errorf("a shared object was changed: %s, then %s", body, again)
	}
}

// Marks that objects bring along from a cluster where they were applied
// themselves are not taken for ours or another placement's.
func TestForeignMarksAreNotApplied(t *testing.T) {
	k := newKit(t)
	obj := configMap("default", "a", "1")
	obj.SetAnnotations(map[string]string{digestMark + "hub": "d", epochMark + "hub": "3", "keep": "me"})
	k.revision("H", obj)
	k.place("H", 1, "r1")
	got, err := k.member.Get(configMapID("default", "a"))
	if err != nil {
		t.Fatal(err)
	}
	a := got.GetAnnotations()
	if len(a) != 2 || a["keep"] != "me" || a[digestMark+kitPlacement] == "" {
		t.Errorf("annotations: %v", a)
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
	c := newContents(store)
	set := setOf(t, "a", "b")
	if err := c.save(t.Context(), "web", set, never); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			if rev, err := c.load(t.Context(), "web", set.Digest); err != nil || len(rev.items) != 3 {
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
	c := newContents(memory.NewStore())
	var digests []string
	for i := range revisionsKept + 5 {
		set := setOf(t, "a"+strconv.Itoa(i))
		digests = append(digests, set.Digest)
		if err := c.save(t.Context(), "web", set, never); err != nil {
			t.Fatal(err)
		}
		for _, d := range []string{digests[0], set.Digest} {
			if _, err := c.load(t.Context(), "web", d); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(c.recent) != revisionsKept {
		t.Errorf("%d revisions are kept", len(c.recent))
	}
	if !slices.ContainsFunc(c.recent, func(l *revisionLoad) bool { return l.digest == digests[0] }) {
		t.Error("the revision that is used all the time is not kept")
	}
}

// A load that fails is not remembered, and whoever gives up does not make
// others fail.
func TestFailedLoadIsTriedAgain(t *testing.T) {
	store := memory.NewStore()
	set := setOf(t, "a")
	if err := newContents(store).save(t.Context(), "web", set, never); err != nil {
		t.Fatal(err)
	}
	c := newContents(faulty.NewPlan(faulty.Nth(1, faulty.Before(nil))).Store(store))
	if _, err := c.load(t.Context(), "web", set.Digest); err == nil || errors.Is(err, backend.ErrPermanent) {
		t.Errorf("a store that fails: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.load(gone, "web", set.Digest); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that gave up: %v", err)
	}
	if _, err := c.load(t.Context(), "web", set.Digest); err != nil {
		t.Error(err)
	}
}
