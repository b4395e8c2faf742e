package fleet

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/snapshot"
)

// countedStore counts what is read.
type countedStore struct {
	backend.Store
	reads int
}

func (s *countedStore) Get(ctx context.Context, key string) (backend.Record, error) {
	s.reads++
	return s.Store.Get(ctx, key)
}

// What a set consists of is read once by those who need not know that it is still
// stored.
func TestAnIndexIsReadOnce(t *testing.T) {
	store := &countedStore{Store: memory.NewStore()}
	c := newContents(store)
	set := setOf(t, "a", "b", "c")
	if err := c.save(t.Context(), "web", set, never); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		items, pages, err := c.indexed(t.Context(), "web", set.Digest)
		if err != nil || !cmp.Equal(items, set.Items) || !cmp.Equal(pages, set.Root().Pages) {
			t.Errorf("indexed: %v %v %v", items, pages, err)
		}
	}
	if want := 1 + len(set.Root().Pages); store.reads != want {
		t.Errorf("%d reads, not %d", store.reads, want)
	}
	if _, _, err := c.indexed(t.Context(), "other", set.Digest); err == nil {
		t.Error("a placement was given the index of another one")
	}
}

// Of the indexes those that were not used for longest are forgotten.
func TestIndexesAreBounded(t *testing.T) {
	var x indexes
	of := func(n int) setIndex {
		return setIndex{placement: "web", set: fmt.Sprint(n), items: make([]snapshot.Item, indexedObjects/4)}
	}
	for n := range 3 {
		x.keep(of(n))
	}
	if _, ok := x.get("web", "0"); !ok {
		t.Fatal("the first is forgotten although there is room")
	}
	x.keep(of(3))
	for n, want := range []bool{true, false, true, true} {
		if _, ok := x.get("web", fmt.Sprint(n)); ok != want {
			t.Errorf("index %d is kept: %v", n, ok)
		}
	}
	x.keep(setIndex{placement: "web", set: "huge", items: make([]snapshot.Item, indexedObjects)})
	if _, ok := x.get("web", "huge"); ok || x.objects > indexedObjects {
		t.Errorf("one that is too large is kept: %v, %d objects", ok, x.objects)
	}
}
