package backend

import "context"

// Write is one write of a batch: [Store.Put] of Value, or [Store.Delete].
type Write struct {
	Key string
	// Value is the new value; ignored with Delete.
	Value []byte
	// Prev is the revision that the key must have, as for Put and Delete.
	Prev Revision
	// Delete removes the key instead.
	Delete bool
}

// Batcher is a [Store] that makes several writes at the cost of one. See
// [WriteAll].
type Batcher interface {
	Store
	// WriteAll makes the writes one after the other, as Put and Delete would, and stops at the
	// first write that fails. It returns the revisions of the writes before the failed one, zero
	// for a deletion, and the error of the failed write. After an error that is not ErrConflict,
	// ErrNotFound or ErrPermanent, further writes may have been made: a prefix of the writes
	// without a returned revision, in order. WriteAll does not retain the values.
	WriteAll(ctx context.Context, writes []Write) ([]Revision, error)
}

// WriteAll makes the writes in order and stops at the first that fails. It makes them
// in one call if s is a [Batcher], otherwise one by one. It returns the same result as
// a [Batcher].
func WriteAll(ctx context.Context, s Store, writes []Write) ([]Revision, error) {
	if b, ok := s.(Batcher); ok {
		return b.WriteAll(ctx, writes)
	}
	made := make([]Revision, 0, len(writes))
	for _, w := range writes {
		rev, err := w.on(ctx, s)
		if err != nil {
			return made, err
		}
		made = append(made, rev)
	}
	return made, nil
}

func (w Write) on(ctx context.Context, s Store) (Revision, error) {
	if w.Delete {
		return "", s.Delete(ctx, w.Key, w.Prev)
	}
	return s.Put(ctx, w.Key, w.Value, w.Prev)
}
