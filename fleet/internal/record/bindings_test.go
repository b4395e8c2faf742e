package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
)

func bindingsOf(clusters int) lifecycle.Bindings {
	out := lifecycle.Bindings{}
	for i := range clusters {
		out[fmt.Sprintf("c%04d", i)] = lifecycle.Binding{ProvenIndex: i % 2, Attempted: 1, Revision: "rev", Policy: i % 3}
	}
	return out
}

// The bindings of few clusters are in the record that names them, the bindings of more clusters in
// pages beside it. Both read back unchanged.
func TestBindingsAreReadBack(t *testing.T) {
	for clusters, pages := range map[int]int{1: 0, bindingsInline: 0, bindingsInline + 1: 1, lifecycle.ClustersPerPage + 1: 2} {
		var c Commit
		rec, want := &Placement{Placement: Declaration{Name: "web"}}, bindingsOf(clusters)
		rec.Bindings = lifecycle.Generation{Generation: 3, ID: "id", Pages: len(want.Pages())}
		StoreBindings(&c, rec, lifecycle.StoreBindings{Generation: rec.Bindings, Bindings: want})
		if len(c.Pages) != pages || len(rec.Inline) != 1-min(1, pages) {
			t.Errorf("%d clusters: %d pages and %d inline, want %d pages", clusters, len(c.Pages), len(rec.Inline), pages)
		}
		store := memory.NewStore()
		for _, p := range c.Pages {
			if _, err := store.Put(t.Context(), p.Key, p.Value, ""); err != nil {
				t.Fatal(err)
			}
		}
		got, err := ReadBindings(t.Context(), store, rec, rec.Bindings)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%d clusters: %v %s", clusters, err, d)
		}
	}
}

// A record keeps the inline bindings that it refers to: the current ones, and those of its rollback
// base.
func TestUnreferencedInlineBindingsAreDropped(t *testing.T) {
	rec := &Placement{Placement: Declaration{Name: "web"}}
	for i := range int64(5) {
		g := lifecycle.Generation{Generation: i, ID: "id", Pages: 1}
		before := rec.Inline
		StoreBindings(new(Commit), rec, lifecycle.StoreBindings{Generation: g, Bindings: bindingsOf(2)})
		if len(before) == len(rec.Inline) {
			t.Fatal("the bindings of an earlier copy of the record were changed")
		}
		if i == 2 {
			rec.Base = &lifecycle.Base{Bindings: rec.Bindings}
		}
		rec.Bindings = g
		rec.DropInline()
	}
	got := slices.Sorted(maps.Keys(rec.Inline))
	if want := "1-id 4-id"; strings.Join(got, " ") != want {
		t.Errorf("the record has %v, want %s", got, want)
	}
}
