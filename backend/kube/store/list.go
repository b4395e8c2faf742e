package store

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/api"
)

// List yields the records under prefix. See [backend.Store]. It keeps in memory one page of
// records, a few megabytes, and all records whose keys are too long for a name and begin with the
// same 135 bytes.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[backend.Record, error] {
	return func(yield func(backend.Record, error) bool) {
		sorted := inOrder{yield: yield}
		err := s.list(ctx, prefix, &sorted)
		if err == nil {
			sorted.flush()
		}
		if err != nil && !sorted.left {
			yield(backend.Record{}, api.ClassifyRecord("list", prefix, err))
		}
	}
}

// list passes the records under prefix on until there are no more, or the consumer stops.
func (s *Store) list(ctx context.Context, prefix string, to *inOrder) error {
	pages := pager{
		fetch:    s.api.list,
		selector: selectorOf(prefix),
		limit:    firstPage,
	}
	for more := true; more && !to.left; {
		var page []corev1.Secret
		var err error
		if page, more, err = s.page(ctx, &pages); err != nil {
			return err
		}
		size := 0
		for i := range page {
			rec, err := readRecord(&page[i])
			if err != nil {
				return err
			}
			size += len(rec.Value)
			if strings.HasPrefix(rec.Key, prefix) && !to.add(rec) {
				return nil
			}
		}
		pages.fit(len(page), size)
	}
	return nil
}

func (s *Store) page(ctx context.Context, pages *pager) ([]corev1.Secret, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return pages.next(ctx)
}

// inOrder receives records by name and yields them by key: it holds records with long keys back
// until a later key arrives.
type inOrder struct {
	yield func(backend.Record, error) bool
	held  []backend.Record
	left  bool
}

// add adds the next record by name, and reports whether the consumer continues.
func (o *inOrder) add(rec backend.Record) bool {
	if isLong(rec.Key) {
		if len(o.held) > 0 && o.held[0].Key[:headLen] != rec.Key[:headLen] && !o.flush() {
			return false
		}
		at, _ := slices.BinarySearchFunc(o.held, rec, byKey)
		o.held = slices.Insert(o.held, at, rec)
		return true
	}
	at, _ := slices.BinarySearchFunc(o.held, rec, byKey)
	return o.release(at) && o.hand(rec)
}

// flush yields all records that are held back.
func (o *inOrder) flush() bool { return o.release(len(o.held)) }

// release yields the first n records that are held back.
func (o *inOrder) release(n int) bool {
	for i, rec := range o.held[:n] {
		o.held[i] = backend.Record{}
		if !o.hand(rec) {
			return false
		}
	}
	o.held = o.held[n:]
	return true
}

func (o *inOrder) hand(rec backend.Record) bool {
	o.left = o.left || !o.yield(rec, nil)
	return !o.left
}

func byKey(a, b backend.Record) int { return strings.Compare(a.Key, b.Key) }

// The first page of records is small, because their size is unknown; later pages have about
// pageBytes.
const (
	firstPage = 32
	mostPage  = 512
	pageBytes = 4 << 20
	// mostExpired is the maximum number of times in a row that a list may expire before its next
	// page.
	mostExpired = 5
)

// pager reads objects page by page, ascending by name, each name once.
type pager struct {
	fetch    func(context.Context, metav1.ListOptions) ([]corev1.Secret, metav1.ListMeta, error)
	selector string
	limit    int64
	token    string
	last     string
	// again reports whether the list began again, so that names occur a second time.
	again bool
}

// fit chooses the size of the next page by the last.
func (p *pager) fit(n, size int) {
	if n == 0 {
		return
	}
	fitting := int64(pageBytes / (size/n + 1<<10))
	p.limit = min(max(fitting, 4), 4*p.limit, mostPage)
}

// next returns a page, and whether there may be more. A list of several pages shows one moment;
// if the server no longer has that state, the list continues after the last name with the current
// state.
func (p *pager) next(ctx context.Context) (page []corev1.Secret, more bool, err error) {
	items, list, err := p.read(ctx)
	if err != nil {
		return nil, false, err
	}
	p.token = list.Continue
	if p.again {
		items = slices.DeleteFunc(items, func(item corev1.Secret) bool { return item.Name <= p.last })
		p.again = len(items) == 0
	}
	for i := range items {
		name := items[i].Name
		if name <= p.last {
			return nil, false, fmt.Errorf("the server lists %.80q behind %.80q", name, p.last)
		}
		p.last = name
	}
	return items, p.token != "", nil
}

func (p *pager) read(ctx context.Context) (items []corev1.Secret, list metav1.ListMeta, err error) {
	for range mostExpired {
		items, list, err = p.fetch(ctx, metav1.ListOptions{LabelSelector: p.selector, Limit: p.limit, Continue: p.token})
		if p.token == "" || !api.IsExpired(err) {
			break
		}
		// The server returns a token to continue, or the list begins again.
		status, _ := api.StatusOf(err)
		p.token, p.again = status.Continue, true
	}
	return items, list, err
}
