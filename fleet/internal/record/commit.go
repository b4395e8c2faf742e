package record

import (
	"context"
	"errors"
	"iter"

	"github.com/slipway-dev/slipway/backend"
)

// Writes that need not be made together are made in batches of so many, or of
// so many bytes.
const (
	BatchWrites = 64
	batchBytes  = 1 << 20
)

// Commit is a change that takes effect at once, made as one batch of writes: pages that nothing refers to
// yet, then the record that names them, then the deletions of what that record makes superfluous. A batch
// that is cut short leaves pages without a reference, which are garbage.
type Commit struct {
	Pages  []backend.Write
	Record backend.Write
	Drops  []backend.Write
	// Revisions are those of what was written, by key.
	Revisions map[string]backend.Revision
}

// page adds a page under a key that no other writer uses.
func (c *Commit) page(key string, value []byte) {
	c.Pages = append(c.Pages, backend.Write{Key: key, Value: value})
}

// drop adds a key that is deleted once the record is written.
func (c *Commit) drop(key string, rev backend.Revision) {
	c.Drops = append(c.Drops, Delete(key, rev))
}

// Write makes the writes and returns the revision of the record. Once that is
// written there is no error: what cannot be deleted then is left. After an error
// that is no kind of backend's the record may have been written.
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

// Discard makes deletions of what nothing refers to. What cannot be deleted
// stays, and where the store fails so does the rest.
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

// Batches divides writes.
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
