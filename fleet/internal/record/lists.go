package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/internal/runstate"
)

const (
	// ListHere is how long a list of a run may be that is in its record.
	ListHere = 64
	// listPerPage is how many positions, or places, share a page. With the longest
	// reasons, and each byte of them escaped, a page still is less than 256 KiB.
	listPerPage = 128
)

// listPages keeps a list of a run, which grows with what goes wrong, in pages, as
// InFlightPages does with the clusters in flight. A page without anything has no
// name. Where the list is in the record there are none.
type listPages[T comparable] struct {
	// saved is the list as the named pages hold it, next as the last write would
	// have them.
	saved, next [][]T
	names       []string
	revisions   []backend.Revision
}

// listPage is a part of a list of a run.
type listPage[T any] struct {
	Format int `json:"format"`
	List   []T `json:"list"`
}

// write adds the pages that differ from the saved ones to a commit, and the deletions of those that no longer
// count, and returns the names.
func (l *listPages[T]) write(c *Commit, root, prefix string, pages [][]T) []string {
	l.next = pages
	names := make([]string, len(pages))
	for i, list := range pages {
		switch {
		case len(list) == 0:
		case i < len(l.names) && slices.Equal(list, l.saved[i]):
			names[i] = l.names[i]
		default:
			key := fmt.Sprint(prefix, i)
			names[i] = strings.TrimPrefix(key, root)
			c.page(key, Encode(listPage[T]{Format, list}))
		}
	}
	for i, name := range l.names {
		if name != "" && (i >= len(names) || names[i] != name) {
			c.drop(root+name, l.revisions[i])
		}
	}
	return names
}

// commit records that the pages which were written last are the saved ones now.
func (l *listPages[T]) commit(c *Commit, root string, names []string) {
	revisions := make([]backend.Revision, len(names))
	for i, name := range names {
		if i < len(l.names) && l.names[i] == name {
			revisions[i] = l.revisions[i]
		} else {
			revisions[i] = c.Revisions[root+name]
		}
	}
	l.saved, l.names, l.revisions = l.next, names, revisions
}

// read reads the pages and remembers them as saved.
func (l *listPages[T]) read(ctx context.Context, s backend.Store, root string, names []string) error {
	l.saved, l.names, l.revisions = make([][]T, len(names)), names, make([]backend.Revision, len(names))
	for i, name := range names {
		if name == "" {
			continue
		}
		rec, err := s.Get(ctx, root+name)
		if err != nil {
			return fmt.Errorf("page %d: %w", i, err)
		}
		var p listPage[T]
		if err := Decode(rec, &p); err != nil {
			return err
		}
		l.saved[i], l.revisions[i] = p.List, rec.Revision
	}
	return nil
}

// byPosition divides unsuccessful clusters by the position of their first cluster, so that
// one that is added changes one page. It returns nothing where they are few.
func byPosition(list []runstate.Unsuccessful) (pages [][]runstate.Unsuccessful) {
	if len(list) <= ListHere {
		return nil
	}
	pages = make([][]runstate.Unsuccessful, list[len(list)-1].First/listPerPage+1)
	for _, x := range list {
		i := x.First / listPerPage
		pages[i] = append(pages[i], x)
	}
	return pages
}

// byPlace divides clusters that wait by their place, which they keep while others
// leave the list, so that one that leaves changes one page. before are the places
// that are saved. It returns nothing where they are few.
func byPlace(before, list []runstate.Retrying) [][]runstate.Retrying {
	if len(list) <= ListHere {
		return nil
	}
	places, rest := make([]runstate.Retrying, len(before), len(before)+len(list)), list
	for i, y := range before {
		if len(rest) > 0 && !isHole(y) && y.Pos == rest[0].Pos {
			places[i], rest = rest[0], rest[1:]
		}
	}
	if places = append(withoutTail(places), rest...); len(places) > 2*len(list) {
		places = slices.Clone(list)
	}
	pages := slices.Collect(slices.Chunk(places, listPerPage))
	for i, page := range pages {
		if !slices.ContainsFunc(page, func(y runstate.Retrying) bool { return !isHole(y) }) {
			pages[i] = nil
		}
	}
	return pages
}

// places returns the places that are saved in pages.
func places(pages [][]runstate.Retrying) []runstate.Retrying {
	out := make([]runstate.Retrying, len(pages)*listPerPage)
	for i, page := range pages {
		copy(out[i*listPerPage:(i+1)*listPerPage], page)
	}
	return withoutTail(out)
}

// withoutTail removes the places at the end that no cluster has any more.
func withoutTail(places []runstate.Retrying) []runstate.Retrying {
	for len(places) > 0 && isHole(places[len(places)-1]) {
		places = places[:len(places)-1]
	}
	return places
}

// isHole reports whether no cluster has the place any more.
func isHole(y runstate.Retrying) bool { return y.Attempt == 0 }

// checkPaged checks that a record has each list once.
func (r *Run) checkPaged() error {
	h := &r.InFlight
	if len(h.Unsuccessful) > 0 && len(r.Run.Form(runstate.Key{}).Unsuccessful) > 0 || len(h.Waiting) > 0 && len(r.Run.Form(runstate.Key{}).Waiting) > 0 {
		return Damaged(RunKey(r.Run.Name), errors.New("a list is in the record and in pages"))
	}
	return nil
}
