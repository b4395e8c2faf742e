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
	// ListHere is the maximum length of a list that the run's record itself holds.
	ListHere = 64
	// listPerPage is the number of positions, or places, in a page. With the longest reasons, and
	// each of their bytes escaped, a page is still smaller than 256 KiB.
	listPerPage = 128
)

// listPages stores a list of a run, which grows with failures, in pages, as InFlightPages stores
// the clusters in flight. An empty page has no name. A list in the record has no pages.
type listPages[T comparable] struct {
	// saved is the list in the named pages, next the list of the last write.
	saved, next [][]T
	names       []string
	revisions   []backend.Revision
}

// listPage is a part of a list of a run.
type listPage[T any] struct {
	Format int `json:"format"`
	List   []T `json:"list"`
}

// write adds the changed pages to a commit, and the deletions of pages that are no longer named. It
// returns the names of the pages.
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

// commit records that the pages of the last write are now the saved pages.
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

// byPosition divides unsuccessful clusters into pages by the position of their first cluster, so
// that an addition changes one page. It returns nil if the list is short enough for the record.
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

// byPlace divides waiting clusters into pages by their place. A cluster keeps its place when others
// leave the list, so that its departure changes one page. before are the saved places. It returns
// nil if the list is short enough for the record.
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

// places returns the places in the saved pages.
func places(pages [][]runstate.Retrying) []runstate.Retrying {
	out := make([]runstate.Retrying, len(pages)*listPerPage)
	for i, page := range pages {
		copy(out[i*listPerPage:(i+1)*listPerPage], page)
	}
	return withoutTail(out)
}

// withoutTail removes the empty places at the end.
func withoutTail(places []runstate.Retrying) []runstate.Retrying {
	for len(places) > 0 && isHole(places[len(places)-1]) {
		places = places[:len(places)-1]
	}
	return places
}

// isHole reports whether the place is empty.
func isHole(y runstate.Retrying) bool { return y.Attempt == 0 }

// checkPaged returns an error if a record has a list both in itself and in pages.
func (r *Run) checkPaged() error {
	h := &r.InFlight
	if len(h.Unsuccessful) > 0 && len(r.Run.Form(runstate.Key{}).Unsuccessful) > 0 || len(h.Waiting) > 0 && len(r.Run.Form(runstate.Key{}).Waiting) > 0 {
		return Damaged(RunKey(r.Run.Name), errors.New("a list is in the record and in pages"))
	}
	return nil
}
