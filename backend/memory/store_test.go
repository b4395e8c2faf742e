package memory_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
)

// TestStoreAgreesWithAMap writes and deletes at random, seeded, and compares
// with the simplest model there is.
func TestStoreAgreesWithAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s := memory.NewStore()
	model := map[string]backend.Revision{}
	for i := range 20000 {
		key := fmt.Sprintf("%c/%d", 'a'+random.IntN(3), random.IntN(2000))
		var err error
		if revision := model[key]; revision != "" && random.IntN(2) == 0 {
			delete(model, key)
			err = s.Delete(t.Context(), key, revision)
		} else {
			model[key], err = s.Put(t.Context(), key, []byte{byte(i)}, revision)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, prefix := range []string{"", "a/", "b/1", "c/19", "d"} {
		want := slices.DeleteFunc(slices.Sorted(maps.Keys(model)), func(k string) bool { return !strings.HasPrefix(k, prefix) })
		var got []string
		for r, err := range s.List(t.Context(), prefix) {
			if err != nil || r.Revision != model[r.Key] {
				t.Fatalf("%s at %s, want %s; %v", r.Key, r.Revision, model[r.Key], err)
			}
			got = append(got, r.Key)
		}
		if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
			t.Errorf("prefix %q: %s", prefix, diff)
		}
	}
	if s.Len() != len(model) {
		t.Errorf("Len is %d, want %d", s.Len(), len(model))
	}
}

func TestStatsCountEffectiveWrites(t *testing.T) {
	s := memory.NewStore()
	revision, _ := s.Put(t.Context(), "a", []byte("four"), "")
	_, _ = s.Put(t.Context(), "a", []byte("refused"), "")
	_ = s.Delete(t.Context(), "a", revision)
	if writes, bytes := s.Stats(); writes != 2 || bytes != 4 {
		t.Errorf("%d writes and %d bytes, want 2 and 4", writes, bytes)
	}
}

func TestAWatchThatIsTooFarBehindEnds(t *testing.T) {
	s := memory.NewStore()
	if _, err := s.Put(t.Context(), "first", nil, ""); err != nil {
		t.Fatal(err)
	}
	var last error
	n := 0
	for c, err := range s.Watch(t.Context(), "") {
		if last = err; err != nil {
			break
		}
		if c.Key != "first" {
			t.Fatalf("%s is yielded after too many changes", c.Key)
		}
		for n = range 1<<16 + 1 {
			if _, err := s.Put(t.Context(), fmt.Sprintf("k/%d", n), nil, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	if last == nil {
		t.Errorf("the watch survives %d changes", n)
	}
}

func BenchmarkPut(b *testing.B) {
	s := memory.NewStore()
	value := make([]byte, 1024)
	keys := make([]string, 50000)
	for i := range keys {
		keys[i] = fmt.Sprintf("runs/%06d", i*7919%len(keys))
	}
	revisions := make([]backend.Revision, len(keys))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		k := i % len(keys)
		revisions[k], _ = s.Put(b.Context(), keys[k], value, revisions[k])
		i++
	}
}
