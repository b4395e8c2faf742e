// Package content stores the parts of snapshots, each under its digest, and verifies them when it
// reads them. It caches the parts, because they never change.
package content

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/internal/flight"
	"github.com/slipway-dev/slipway/internal/lru"
	"github.com/slipway-dev/slipway/snapshot"
)

// revisionsKept is the number of cached decoded revisions. BenchmarkRun/clusters=10000 in
// docs/performance.md needs the cache, because every cluster of a run loads the same few revisions.
const revisionsKept = 16

// Limits of the cached indexes. The weight of an index is its number of objects plus indexCost; all
// together weigh at most indexedObjects. BenchmarkClusterUpdate in docs/performance.md needs the
// cache for its hub-requests/update, because statuses and the garbage collection read all indexes
// that are kept of a placement.
const (
	indexedObjects = 100_000
	indexCost      = 64
)

// Store stores and reads the content of snapshots, under content/<placement>/<digest>: the bodies
// of objects, the pages and the root of each set, and the documents of overrides. Every part is
// under its own digest, and is verified against the digest before use, so that only approved
// content is applied.
type Store struct {
	store backend.Store

	revisions *lru.Cache[string, *member.Revision] // by contentKey
	loads     flight.Group[*member.Revision]
	indexes   *lru.Cache[string, setIndex] // by contentKey
}

// setIndex lists the content of a set.
type setIndex struct {
	items []snapshot.Item
	root  snapshot.Root
}

func (i setIndex) cost() int { return len(i.items) + indexCost }

// New returns the contents of a store.
func New(s backend.Store) *Store {
	return &Store{
		store: s, revisions: lru.New[string, *member.Revision](revisionsKept, nil), indexes: lru.New[string](indexedObjects, setIndex.cost),
	}
}

func key(placement, digest string) string { return record.ContentPrefix(placement) + digest }

// PutAll writes contents in order. It also rewrites existing contents, so that a garbage collection
// that has read the old revision spares them.
func (c *Store) PutAll(ctx context.Context, writes []backend.Write) error {
	for batch := range record.Batches(writes) {
		for len(batch) > 0 {
			made, err := backend.WriteAll(ctx, c.store, batch)
			if err == nil {
				break
			}
			if !errors.Is(err, backend.ErrConflict) {
				return err
			}
			batch = batch[len(made):]
			if err := c.revise(ctx, batch); err != nil {
				return err
			}
		}
	}
	return nil
}

// revise updates the expected revisions of the writes to the current revisions of their keys.
func (c *Store) revise(ctx context.Context, writes []backend.Write) error {
	for i := range writes {
		rec, err := c.store.Get(ctx, writes[i].Key)
		if err != nil && !errors.Is(err, backend.ErrNotFound) {
			return err
		}
		writes[i].Prev = rec.Revision
	}
	return nil
}

// SaveBlob stores body under its digest.
func (c *Store) SaveBlob(ctx context.Context, placement, digest string, body []byte) error {
	w, err := blob(placement, digest, body)
	if err != nil {
		return err
	}
	return c.PutAll(ctx, []backend.Write{w})
}

func blob(placement, digest string, body []byte) (backend.Write, error) {
	return backend.Write{Key: key(placement, digest), Value: body}, guard.Permanent(snapshot.Verify(body, digest))
}

// Save stores a set: bodies, then pages, then the root, so that an existing root is complete. have
// reports whether a digest is known to be stored and not about to be deleted.
func (c *Store) Save(ctx context.Context, placement string, set snapshot.Set, have func(digest string) bool) error {
	if have(set.Digest) {
		return nil
	}
	var writes []backend.Write
	var errs []error
	saved := map[string]bool{}
	add := func(digest string, body []byte) {
		if saved[digest] || have(digest) {
			return
		}
		saved[digest] = true
		w, err := blob(placement, digest, body)
		writes, errs = append(writes, w), append(errs, err)
	}
	for i, item := range set.Items {
		add(item.Digest, set.Bodies[i])
	}
	for _, p := range set.Pages() {
		add(p.Digest, p.Encode())
	}
	add(set.Digest, set.Root().Encode())
	err := errors.Join(errs...)
	if err == nil {
		err = c.PutAll(ctx, writes)
	}
	if err != nil {
		return fmt.Errorf("placement %s: storing set %s: %w", placement, set.Digest, err)
	}
	return nil
}

// LoadBlob returns the verified content under a digest. The error is ErrNotFound if there is none,
// and ErrPermanent if the content does not match the digest.
func (c *Store) LoadBlob(ctx context.Context, placement, digest string) ([]byte, error) {
	rec, err := c.store.Get(ctx, key(placement, digest))
	if err != nil {
		return nil, err
	}
	if err := snapshot.Verify(rec.Value, digest); err != nil {
		return nil, fmt.Errorf("%w: %w", backend.ErrPermanent, err)
	}
	return rec.Value, nil
}

// Index returns the items of a set and its root.
func (c *Store) Index(ctx context.Context, placement, set string) ([]snapshot.Item, snapshot.Root, error) {
	body, err := c.LoadBlob(ctx, placement, set)
	if err != nil {
		return nil, snapshot.Root{}, member.InRevision(placement, set, "its root", err)
	}
	root, err := snapshot.DecodeRoot(body)
	if err != nil {
		return nil, snapshot.Root{}, member.InRevision(placement, set, "its root", guard.Permanent(err))
	}
	items := make([]snapshot.Item, 0, root.Objects)
	for _, digest := range root.Pages {
		page, err := c.page(ctx, placement, digest)
		if err != nil {
			return nil, snapshot.Root{}, member.InRevision(placement, set, "page "+digest, err)
		}
		items = append(items, page.Items...)
	}
	if len(items) != root.Objects {
		err := fmt.Errorf("it has %d objects, its root says %d", len(items), root.Objects)
		return nil, snapshot.Root{}, member.InRevision(placement, set, "its pages", guard.Permanent(err))
	}
	return items, root, nil
}

// Indexed returns the index from the cache if it can. The digest determines the content of a set,
// but not that the set is still stored. The result is shared and must not be changed.
func (c *Store) Indexed(ctx context.Context, placement, set string) ([]snapshot.Item, snapshot.Root, error) {
	key := key(placement, set)
	if known, ok := c.indexes.Get(key); ok {
		return known.items, known.root, nil
	}
	items, root, err := c.Index(ctx, placement, set)
	if err == nil {
		c.indexes.Add(key, setIndex{items, root})
	}
	return items, root, err
}

// FromEnvelopes returns the items of the set of a snapshot, each with its envelope. The caller may
// change the result.
func (c *Store) FromEnvelopes(ctx context.Context, s *snapshot.Snapshot, items []snapshot.Item) ([]snapshot.Item, error) {
	if s.Origins == "" {
		return slices.Clone(items), nil
	}
	document, err := c.LoadBlob(ctx, s.Placement, s.Origins)
	if err == nil {
		items, err = snapshot.WithOrigins(items, document)
		err = guard.Permanent(err)
	}
	if err != nil {
		return nil, member.InRevision(s.Placement, s.Set, "its envelopes", err)
	}
	return items, nil
}

func (c *Store) page(ctx context.Context, placement, digest string) (snapshot.Page, error) {
	body, err := c.LoadBlob(ctx, placement, digest)
	if err != nil {
		return snapshot.Page{}, err
	}
	page, err := snapshot.DecodePage(body)
	return page, guard.Permanent(err)
}

// LoadSet returns a stored set with every part verified.
func (c *Store) LoadSet(ctx context.Context, placement, set string) (snapshot.Set, error) {
	items, root, err := c.Index(ctx, placement, set)
	if err != nil {
		return snapshot.Set{}, err
	}
	out := snapshot.Set{Items: items, Bodies: make([][]byte, len(items)), Unplaced: root.Unplaced, Digest: set}
	for i, item := range items {
		if out.Bodies[i], err = c.LoadBlob(ctx, placement, item.Digest); err != nil {
			return snapshot.Set{}, member.InRevision(placement, set, item.ID.String(), err)
		}
	}
	return out, nil
}

// Load returns a revision, ready to be applied. Concurrent calls for the same revision share one
// load. The most recently used revisions are cached; errors are not. A call whose ctx ends returns
// at once, and does not make others fail. The result is shared and must not be changed. Every error
// is ErrPermanent, except the error of ctx and transient errors of the store.
func (c *Store) Load(ctx context.Context, placement, digest string) (*member.Revision, error) {
	key := key(placement, digest)
	if rev, ok := c.revisions.Get(key); ok {
		return rev, nil
	}
	return c.loads.Do(ctx, key, func(ctx context.Context) (*member.Revision, error) {
		if rev, ok := c.revisions.Get(key); ok {
			return rev, nil // another load has just ended
		}
		rev, err := c.read(ctx, placement, digest)
		if err == nil {
			c.revisions.Add(key, rev)
		}
		return rev, err
	})
}

func (c *Store) read(ctx context.Context, placement, digest string) (*member.Revision, error) {
	set, err := c.LoadSet(ctx, placement, digest)
	if errors.Is(err, backend.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w: %v", backend.ErrPermanent, member.ErrRevisionGone, err)
	}
	if err != nil {
		return nil, err
	}
	return member.NewRevision(placement, set)
}

// Object returns the verified object of a digest.
func (c *Store) Object(ctx context.Context, placement, digest string) (*unstructured.Unstructured, error) {
	body, err := c.LoadBlob(ctx, placement, digest)
	if err != nil {
		return nil, err
	}
	obj, err := snapshot.Decode(body)
	return obj, guard.Permanent(err)
}

// Offer caches a revision that was created here, so that loads need not read it.
func (c *Store) Offer(placement string, rev *member.Revision) {
	c.revisions.Add(key(placement, rev.Digest), rev)
}
