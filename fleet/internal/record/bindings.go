package record

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// bindingsPage is a part of the bindings: clusters grouped by what they may have, since few values differ.
type bindingsPage struct {
	Format int             `json:"format"`
	Groups []bindingsGroup `json:"groups"`
}

type bindingsGroup struct {
	lifecycle.Binding
	Clusters []string `json:"clusters"`
}

// newBindingsPage puts the clusters of a page together that may have the same.
func newBindingsPage(b lifecycle.Bindings, clusters []string) bindingsPage {
	by := map[lifecycle.Binding]int{}
	page := bindingsPage{Format: Format}
	for _, name := range clusters {
		i, known := by[b[name]]
		if !known {
			i = len(page.Groups)
			by[b[name]], page.Groups = i, append(page.Groups, bindingsGroup{Binding: b[name]})
		}
		page.Groups[i].Clusters = append(page.Groups[i].Clusters, name)
	}
	slices.SortFunc(page.Groups, func(a, b bindingsGroup) int {
		return cmp.Or(cmp.Compare(a.Applied, b.Applied), cmp.Compare(a.Attempted, b.Attempted), cmp.Compare(a.Revision, b.Revision))
	})
	return page
}

// ReadBindings reads a generation of the bindings of a placement.
func ReadBindings(ctx context.Context, s backend.Store, name string, g lifecycle.Generation) (lifecycle.Bindings, error) {
	out := lifecycle.Bindings{}
	if g.Pages < 0 {
		return nil, Damaged(PlacementKey(name), fmt.Errorf("its bindings have %d pages", g.Pages))
	}
	for i := range g.Pages {
		r, err := s.Get(ctx, generationPrefix(name, g)+strconv.Itoa(i))
		if err != nil {
			return nil, fmt.Errorf("placement %s: page %d of %d of its bindings: %w", name, i, g.Pages, err)
		}
		var page bindingsPage
		if err := Decode(r, &page); err != nil {
			return nil, err
		}
		for _, group := range page.Groups {
			for _, cluster := range group.Clusters {
				out[cluster] = group.Binding
			}
		}
	}
	return out, nil
}

// StoreBindings adds the pages of a new generation to the commit that names it.
func StoreBindings(c *Commit, name string, s lifecycle.StoreBindings) {
	for i, clusters := range s.Bindings.Pages() {
		c.page(generationPrefix(name, s.Generation)+strconv.Itoa(i), Encode(newBindingsPage(s.Bindings, clusters)))
	}
}

// DropBindings deletes the generations up to the current one that the record does not refer to, also those
// that other engines wrote for a commit: none of them can be committed any more.
func DropBindings(ctx context.Context, s backend.Store, rec *Placement) {
	prefix := BindingsPrefix(rec.Placement.Name)
	DiscardIf(ctx, s, prefix, func(key string) bool {
		text, _, _ := strings.Cut(strings.TrimPrefix(key, prefix), "-")
		generation, err := strconv.ParseInt(text, 10, 64)
		return err == nil && generation <= rec.Bindings.Generation && !rec.NamesBindings(key)
	})
}

// DiscardAll deletes every key under prefix.
func DiscardAll(ctx context.Context, s backend.Store, prefix string) {
	DiscardIf(ctx, s, prefix, func(string) bool { return true })
}

// DiscardIf deletes the keys under prefix that match, to which nothing refers.
// What cannot be deleted stays.
func DiscardIf(ctx context.Context, s backend.Store, prefix string, match func(key string) bool) {
	var all []backend.Write
	for rec, err := range s.List(ctx, prefix) {
		if err != nil {
			break
		}
		if match(rec.Key) {
			all = append(all, Delete(rec.Key, rec.Revision))
		}
	}
	Discard(ctx, s, all)
}
