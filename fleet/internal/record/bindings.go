package record

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
)

// bindingsPage is a part of the bindings. Clusters with equal bindings form a group, because few
// bindings differ.
type bindingsPage struct {
	Format int             `json:"format"`
	Groups []bindingsGroup `json:"groups"`
}

type bindingsGroup struct {
	lifecycle.Binding
	Clusters []string `json:"clusters"`
}

// newBindingsPage groups the clusters of a page by their bindings.
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
		return cmp.Or(cmp.Compare(a.ProvenIndex, b.ProvenIndex), cmp.Compare(a.Attempted, b.Attempted), cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Policy, b.Policy), compareBool(a.Unproven, b.Unproven))
	})
	return page
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// bindingsInline is the maximum number of clusters whose bindings are stored in the record of their
// placement. That saves a write, and a read each time.
const bindingsInline = 16

// addTo adds the bindings of a page.
func (p *bindingsPage) addTo(b lifecycle.Bindings) {
	for _, group := range p.Groups {
		for _, cluster := range group.Clusters {
			b[cluster] = group.Binding
		}
	}
}

// ReadBindings reads a generation of the bindings that the record of a placement names.
func ReadBindings(ctx context.Context, s backend.Store, rec *Placement, g lifecycle.Generation) (lifecycle.Bindings, error) {
	name, out := rec.Placement.Name, lifecycle.Bindings{}
	if g.Pages < 0 {
		return nil, Damaged(PlacementKey(name), fmt.Errorf("its bindings have %d pages", g.Pages))
	}
	if page, ok := rec.Inline[generationName(g)]; ok {
		page.addTo(out)
		return out, nil
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
		page.addTo(out)
	}
	return out, nil
}

// StoreBindings stores a new generation inline in the record that names it, or adds its pages to
// the commit of that record.
func StoreBindings(c *Commit, rec *Placement, s lifecycle.StoreBindings) {
	pages := s.Bindings.Pages()
	if len(pages) == 1 && len(s.Bindings) <= bindingsInline {
		inline := maps.Clone(rec.Inline)
		if inline == nil {
			inline = map[string]bindingsPage{}
		}
		inline[generationName(s.Generation)] = newBindingsPage(s.Bindings, pages[0])
		rec.Inline = inline
		return
	}
	for i, clusters := range pages {
		c.page(generationPrefix(rec.Placement.Name, s.Generation)+strconv.Itoa(i), Encode(newBindingsPage(s.Bindings, clusters)))
	}
}

// DropInline removes the inline bindings that the record no longer refers to.
func (rec *Placement) DropInline() {
	kept := maps.Clone(rec.Inline)
	maps.DeleteFunc(kept, func(g string, _ bindingsPage) bool {
		return g != generationName(rec.Bindings) && (rec.Base == nil || g != generationName(rec.Base.Bindings))
	})
	rec.Inline = kept
}

// DropBindings deletes the generations up to the current one that the record does not refer to.
// They include generations that other engines wrote for a commit, because none of them can be
// committed any more.
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

// DiscardIf deletes the keys under prefix that match. Nothing may refer to them. It ignores errors.
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
