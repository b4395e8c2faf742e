package fleet

import (
	"context"
	"errors"
	"iter"

	"github.com/slipway-dev/slipway/backend"
)

// Writes that need not be made together are made in batches of so many, or of
// so many bytes.
const (
	batchWrites = 64
	batchBytes  = 1 << 20
)

// commit is a change that counts at once, made as one batch of writes: pages
// that nothing refers to yet, then the record that names them, then the
// deletions of what that record makes superfluous. Where the batch ends in the
// middle, it leaves pages that nobody reads.
type commit struct {
	pages  []backend.Write
	record backend.Write
	drops  []backend.Write
	// revisions are those of what was written, by key.
	revisions map[string]backend.Revision
}

// page adds a page under a key that nobody else writes to.
func (c *commit) page(key string, value []byte) {
	c.pages = append(c.pages, backend.Write{Key: key, Value: value})
}

// drop adds a key that is deleted once the record is written.
func (c *commit) drop(key string, rev backend.Revision) {
	c.drops = append(c.drops, deletion(key, rev))
}

// write makes the writes and returns the revision of the record. Once that is
// written there is no error: what cannot be deleted then is left. After an error
// that is no kind of backend's the record may have been written.
func (c *commit) write(ctx context.Context, s backend.Store) (backend.Revision, error) {
	all := make([]backend.Write, 0, len(c.pages)+1+len(c.drops))
	all = append(append(append(all, c.pages...), c.record), c.drops...)
	made, err := backend.WriteAll(ctx, s, all)
	c.revisions = make(map[string]backend.Revision, len(c.pages)+1)
	for i, rev := range made[:min(len(made), len(c.pages)+1)] {
		c.revisions[all[i].Key] = rev
	}
	if len(made) <= len(c.pages) {
		return "", err
	}
	if err != nil {
		discard(ctx, s, all[len(made)+1:])
	}
	return made[len(c.pages)], nil
}

// abandon deletes the pages of a commit whose record was refused.
func (c *commit) abandon(ctx context.Context, s backend.Store) {
	var left []backend.Write
	for _, w := range c.pages {
		if rev := c.revisions[w.Key]; rev != "" && w.Prev == "" {
			left = append(left, deletion(w.Key, rev))
		}
	}
	discard(ctx, s, left)
}

func deletion(key string, rev backend.Revision) backend.Write {
	return backend.Write{Key: key, Prev: rev, Delete: true}
}

// discard makes deletions of what nothing refers to. What cannot be deleted
// stays, and where the store fails so does the rest.
func discard(ctx context.Context, s backend.Store, deletions []backend.Write) {
	for batch := range batches(deletions) {
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

// batches divides writes.
func batches(writes []backend.Write) iter.Seq[[]backend.Write] {
	return func(yield func([]backend.Write) bool) {
		for len(writes) > 0 {
			n, size := 0, 0
			for n < min(len(writes), batchWrites) && (n == 0 || size+len(writes[n].Value) <= batchBytes) {
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
