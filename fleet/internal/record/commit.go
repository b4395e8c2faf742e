package record

import (
	"context"
	"errors"
	"iter"

	"github.com/slipway-dev/slipway/backend"
)

// The maximum number of writes and of bytes in a batch of independent writes.
const (
	BatchWrites = 64
	batchBytes  = 1 << 20
)

// Commit is an atomic change, made as one batch of writes: first pages without references, then the
// record that names them, then the deletions that the record makes possible. An interrupted batch
// leaves unreferenced pages, which are garbage.
type Commit struct {
	Pages  []backend.Write
	Record backend.Write
	Drops  []backend.Write
	// Revisions are the revisions of the written keys.
	Revisions map[string]backend.Revision
}

// page adds a page under a key that no other writer uses.
func (c *Commit) page(key string, value []byte) {
	c.Pages = append(c.Pages, backend.Write{Key: key, Value: value})
}

// drop adds a key to delete after the record is written.
func (c *Commit) drop(key string, rev backend.Revision) {
	c.Drops = append(c.Drops, Delete(key, rev))
}

// Write makes the writes and returns the revision of the record. Once the record is written there
// is no error: failed deletions are ignored. If the error matches none of package backend's errors,
// the record may have been written.
func (c *Commit) Write(ctx context.Context, s backend.Store) (backend.Revision, error) {
	all := make([]backend.Write, 0, len(c.Pages)+1+len(c.Drops))
	all = append(append(append(all, c.Pages...), c.Record), c.Drops...)
	made, err := backend.WriteAll(ctx, s, all)
	c.Revisions = make(map[string]backend.Revision, len(c.Pages)+1)
	for i, rev := range made[:min(len(made), len(c.Pages)+1)] {
		c.Revisions[all[i].Key] = rev
	}
	if len(made) <= len(c.Pages) {
		return "", err
	}
	if err != nil {
		Discard(ctx, s, all[len(made)+1:])
	}
	return made[len(c.Pages)], nil
}

// Abandon deletes the pages of a commit whose record was refused.
func (c *Commit) Abandon(ctx context.Context, s backend.Store) {
	var left []backend.Write
	for _, w := range c.Pages {
		if rev := c.Revisions[w.Key]; rev != "" && w.Prev == "" {
			left = append(left, Delete(w.Key, rev))
		}
	}
	Discard(ctx, s, left)
}

// Delete returns the deletion of a key at a revision.
func Delete(key string, rev backend.Revision) backend.Write {
	return backend.Write{Key: key, Prev: rev, Delete: true}
}

// Discard makes deletions of unreferenced keys. It ignores conflicts and missing keys, and stops at
// any other error.
func Discard(ctx context.Context, s backend.Store, deletions []backend.Write) {
	for batch := range Batches(deletions) {
		for len(batch) > 0 && ctx.Err() == nil {
			made, err := backend.WriteAll(ctx, s, batch)
			if err == nil {
				break
			}
			if !errors.Is(err, backend.ErrConflict) && !errors.Is(err, backend.ErrNotFound) {
				return
			}
			batch = batch[len(made)+1:]
		}
	}
}

// Batches divides writes into batches.
func Batches(writes []backend.Write) iter.Seq[[]backend.Write] {
	return func(yield func([]backend.Write) bool) {
		for len(writes) > 0 {
			n, size := 0, 0
			for n < min(len(writes), BatchWrites) && (n == 0 || size+len(writes[n].Value) <= batchBytes) {
				size += len(writes[n].Value)
				n++
			}
			if !yield(writes[:n]) {
				return
			}
			writes = writes[n:]
		}
	}
}
