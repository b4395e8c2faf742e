package memory

import (
	"context"
	"errors"

	"github.com/slipway-dev/slipway/backend"
)

// prefixStore is the part of a store that one owner writes, under a prefix. It
// remembers the revision of each key and writes only over that. After a write
// that failed it is stale: what the owner has in memory may not be what is
// stored, until it is loaded again.
type prefixStore struct {
	store     backend.Store
	prefix    string
	revisions map[string]backend.Revision
	// unsure are keys of which a write may have happened, or may still.
	unsure map[string]struct{}
	// guarded are keys that may still be created by a write that failed, and
	// therefore are never free again: they hold a mark instead of nothing.
	guarded map[string]struct{}
	stale   bool
}

func newPrefixStore(s backend.Store, prefix string) prefixStore {
	return prefixStore{
		store: s, prefix: prefix, revisions: map[string]backend.Revision{},
		unsure: map[string]struct{}{}, guarded: map[string]struct{}{},
	}
}

// change is what becomes of a key: a value, or nothing.
type change struct {
	key   string
	value []byte
}

// write makes the changes in order, each of another key.
func (s *prefixStore) write(ctx context.Context, changes []change) error {
	writes := s.prepare(changes)
	if len(writes) == 0 {
		return nil
	}
	made, err := backend.WriteAll(ctx, s.store, writes)
	for i, revision := range made {
		s.remember(writes[i], revision)
	}
	if err == nil {
		return nil
	}
	s.stale = true
	if !definite(err) {
		for _, w := range writes[len(made):] {
			s.unsure[w.Key] = struct{}{}
		}
	}
	return err
}

// prepare returns the writes that make the changes.
func (s *prefixStore) prepare(changes []change) []backend.Write {
	writes := make([]backend.Write, 0, len(changes))
	for _, c := range changes {
		w := backend.Write{Key: c.key, Value: c.value, Prev: s.revisions[c.key]}
		_, guarded := s.guarded[c.key]
		switch {
		case c.value != nil:
		case w.Prev == "":
			continue
		case guarded:
			w.Value = goneMark()
		default:
			w.Delete = true
		}
		writes = append(writes, w)
	}
	return writes
}

func (s *prefixStore) remember(w backend.Write, revision backend.Revision) {
	if w.Delete {
		delete(s.revisions, w.Key)
		return
	}
	s.revisions[w.Key] = revision
}

// definite reports whether a write which failed with err did not happen and will
// not.
func definite(err error) bool {
	return errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrNotFound) || errors.Is(err, backend.ErrPermanent)
}

// load returns the bodies of what is stored, and remembers the revisions. No
// write that failed before can take effect any more.
func (s *prefixStore) load(ctx context.Context) (map[string][]byte, error) {
	for key := range s.unsure {
		if err := s.settle(ctx, key); err != nil {
			return nil, err
		}
		delete(s.unsure, key)
	}
	clear(s.revisions)
	bodies := map[string][]byte{}
	for r, err := range s.store.List(ctx, s.prefix) {
		if err != nil {
			return nil, err
		}
		body, gone, err := unseal(r)
		if err != nil {
			return nil, err
		}
		s.revisions[r.Key] = r.Revision
		if gone {
			s.guarded[r.Key] = struct{}{}
		} else {
			bodies[r.Key] = body
		}
	}
	return bodies, nil
}

// settle writes what a key holds once more, so that a write which is still
// under way finds another revision than the one it needs.
func (s *prefixStore) settle(ctx context.Context, key string) error {
	for {
		r, err := s.store.Get(ctx, key)
		if errors.Is(err, backend.ErrNotFound) {
			r.Value, err = goneMark(), nil
		}
		if err != nil {
			return err
		}
		// A conflict means that the write happened just now.
		_, err = s.store.Put(ctx, key, r.Value, r.Revision)
		if !errors.Is(err, backend.ErrConflict) {
			return err
		}
	}
}
