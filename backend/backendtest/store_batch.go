package backendtest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/backend"
)

func batchCases() []StoreCase {
	return []StoreCase{
		{"batch-order", "WriteAll makes the writes one after the other, as Put and Delete would", batchOrder},
		{"batch-revisions", "WriteAll returns the revisions of the writes that it made, zero for a deletion", batchRevisions},
		{"batch-conflict", "WriteAll stops at the first write that fails, and the writes before it are made", batchConflict},
		{"batch-missing", "a deletion of a key that does not exist is ErrNotFound", batchMissing},
		{"batch-invalid", "a key or a value that is not valid is ErrPermanent, and the writes before are made", batchInvalid},
		{"batch-same-key", "a batch may write a key several times, each time at its revision", batchSameKey},
		{"batch-empty", "a batch of no writes does nothing", batchEmpty},
		{"batch-values", "WriteAll does not retain the values", batchValues},
		{"batch-context", "a batch whose ctx ends leaves its first writes, or none, or all", batchContext},
		{"batch-watch", "Watch yields every write of a batch", batchWatch},
		{"batch-race", "of several who write a batch with the same first write one succeeds", batchRace},
	}
}

func putting(key, value string, prev backend.Revision) backend.Write {
	return backend.Write{Key: key, Value: []byte(value), Prev: prev}
}

func deleting(key string, prev backend.Revision) backend.Write {
	return backend.Write{Key: key, Prev: prev, Delete: true}
}

// written makes a batch and checks that n writes succeed before one fails with an error of a
// kind; a nil kind means that all succeed.
func written(ctx context.Context, s backend.Store, n int, kind error, writes ...backend.Write) ([]backend.Revision, error) {
	made, err := backend.WriteAll(ctx, s, writes)
	if kind != nil {
		err = want("the batch", err, kind)
	}
	if err == nil && len(made) != n {
		err = fmt.Errorf("the batch returns %d revisions, want %d", len(made), n)
	}
	for i, rev := range made {
		if err == nil && (rev == "") != writes[i].Delete {
			err = fmt.Errorf("write %d of the batch returns the revision %q", i, rev)
		}
	}
	return made, err
}

// absent returns nil if the keys do not exist.
func absent(ctx context.Context, s backend.Store, keys ...string) error {
	var errs []error
	for _, key := range keys {
		_, err := s.Get(ctx, key)
		errs = append(errs, want("get "+key, err, backend.ErrNotFound))
	}
	return errors.Join(errs...)
}

func batchOrder(ctx context.Context, s backend.Store) error {
	first, err := made(ctx, s, "a", "old")
	if err != nil {
		return err
	}
	revs, err := written(ctx, s, 4, nil, putting("a", "new", first), putting("b", "b", ""), putting("c", "c", ""), putting("a/1", "page", ""))
	if err != nil {
		return err
	}
	if _, err := written(ctx, s, 2, nil, deleting("b", revs[1]), putting("c", "second", revs[2])); err != nil {
		return err
	}
	r, err := s.Get(ctx, "c")
	if err != nil || string(r.Value) != "second" {
		return fmt.Errorf("c is %q, want second: %w", r.Value, err)
	}
	return errors.Join(absent(ctx, s, "b"), holds(ctx, s, "a", "new", revs[0]), holds(ctx, s, "a/1", "page", revs[3]))
}

func batchRevisions(ctx context.Context, s backend.Store) error {
	first, err := made(ctx, s, "a", "old")
	if err != nil {
		return err
	}
	revs, err := written(ctx, s, 3, nil, putting("b", "b", ""), deleting("a", first), putting("c", "c", ""))
	if err != nil {
		return err
	}
	again, err := written(ctx, s, 2, nil, putting("a", "again", ""), putting("b", "second", revs[0]))
	if err != nil {
		return err
	}
	if again[0] == first || again[1] == revs[0] {
		return fmt.Errorf("a batch reuses a revision: %q and %q after %q and %q", again[0], again[1], first, revs[0])
	}
	return errors.Join(holds(ctx, s, "a", "again", again[0]), holds(ctx, s, "b", "second", again[1]), holds(ctx, s, "c", "c", revs[2]))
}

func batchConflict(ctx context.Context, s backend.Store) error {
	first, second, err := changed(ctx, s, "b")
	if err != nil {
		return err
	}
	for name, stale := range map[string]backend.Write{
		"put-stale": putting("b", "late", first), "create": putting("b", "late", ""), "delete": deleting("b", first), "gone": putting("x", "late", first),
	} {
		before, after := name+"/before", name+"/after"
		revs, err := written(ctx, s, 1, backend.ErrConflict, putting(before, name, ""), stale, putting(after, name, ""))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := errors.Join(holds(ctx, s, before, name, revs[0]), absent(ctx, s, after)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return errors.Join(holds(ctx, s, "b", "new", second), absent(ctx, s, "x"))
}

func batchMissing(ctx context.Context, s backend.Store) error {
	revs, err := written(ctx, s, 1, backend.ErrNotFound, putting("a", "a", ""), deleting("x", "1"), deleting("a", "1"))
	if err != nil {
		return err
	}
	return holds(ctx, s, "a", "a", revs[0])
}

func batchInvalid(ctx context.Context, s backend.Store) error {
	large := strings.Repeat("x", backend.MaxValue+1)
	for i, bad := range []backend.Write{putting("A", "", ""), putting("", "", ""), deleting("a//b", "1"), putting("large", large, "")} {
		before, after := fmt.Sprintf("before/%d", i), fmt.Sprintf("after/%d", i)
		revs, err := written(ctx, s, 1, backend.ErrPermanent, putting(before, "v", ""), bad, putting(after, "v", ""))
		if err != nil {
			return fmt.Errorf("%.20q: %w", bad.Key, err)
		}
		if err := errors.Join(holds(ctx, s, before, "v", revs[0]), absent(ctx, s, after)); err != nil {
			return fmt.Errorf("%.20q: %w", bad.Key, err)
		}
	}
	return absent(ctx, s, "large")
}

func batchSameKey(ctx context.Context, s backend.Store) error {
	first, err := made(ctx, s, "a", "old")
	if err != nil {
		return err
	}
	// The revision of a write is unknown before it is made, so a batch can write a key twice only if
	// it deletes and creates it, or if the second write fails.
	revs, err := written(ctx, s, 2, backend.ErrConflict, deleting("a", first), putting("a", "new", ""), putting("a", "late", first), putting("b", "", ""))
	if err != nil {
		return err
	}
	if revs[1] == first {
		return fmt.Errorf("a key that was deleted and created has the revision that it had before, %q", first)
	}
	if _, err := written(ctx, s, 0, backend.ErrConflict, putting("a", "late", first), putting("a", "late", revs[1])); err != nil {
		return err
	}
	if _, err := written(ctx, s, 1, backend.ErrNotFound, deleting("a", revs[1]), deleting("a", revs[1])); err != nil {
		return err
	}
	return absent(ctx, s, "a", "b")
}

func batchEmpty(ctx context.Context, s backend.Store) error {
	_, err := written(ctx, s, 0, nil)
	return err
}

func batchValues(ctx context.Context, s backend.Store) error {
	writes := []backend.Write{putting("a", "value", ""), putting("b", "value", "")}
	revs, err := written(ctx, s, 2, nil, writes...)
	if err != nil {
		return err
	}
	for _, w := range writes {
		copy(w.Value, "other")
	}
	return errors.Join(holds(ctx, s, "a", "value", revs[0]), holds(ctx, s, "b", "value", revs[1]))
}

func batchContext(ctx context.Context, s backend.Store) error {
	first, err := made(ctx, s, "b", "old")
	if err != nil {
		return err
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	revs, err := backend.WriteAll(ended, s, []backend.Write{putting("a", "new", ""), putting("b", "new", first), putting("c", "new", "")})
	if err := wantTransient("the batch", err); err != nil {
		return err
	}
	before := true
	for i, key := range []string{"a", "b", "c"} {
		r, err := s.Get(ctx, key)
		if err != nil && !errors.Is(err, backend.ErrNotFound) {
			return err
		}
		now := string(r.Value) == "new"
		if now && !before || i < len(revs) && r.Revision != revs[i] {
			return fmt.Errorf("%s is %q at revision %q; the writes before it are made: %t; the batch returned %q", key, r.Value, r.Revision, before, revs)
		}
		before = now
	}
	return nil
}

func batchWatch(ctx context.Context, s backend.Store) error {
	o, first, err := begin(ctx, s)
	if err != nil {
		return err
	}
	defer o.cancel()
	revs, err := written(ctx, s, 3, backend.ErrConflict,
		putting("w/1", "", ""), deleting("w/first", first), putting("w/2", "", ""), putting("w/1", "", ""), putting("w/3", "", ""))
	if err != nil {
		return err
	}
	for _, c := range []backend.Change{
		{Key: "w/1", Revision: revs[0]}, {Key: "w/first", Deleted: true}, {Key: "w/2", Revision: revs[2]},
	} {
		if err := o.await(ctx, c); err != nil {
			return err
		}
	}
	_ = o.stop()
	if c, ok := o.last["w/3"]; ok {
		return fmt.Errorf("a write that was not made is yielded: %+v", c)
	}
	return nil
}

func batchRace(ctx context.Context, s backend.Store) error {
	const rounds, writers = 20, 4
	for round := range rounds {
		wins := make(chan int, writers)
		err := together(writers, func(i int) error {
			key := fmt.Sprintf("lock/%d", round)
			page := fmt.Sprintf("page/%d/%d", round, i)
			_, err := backend.WriteAll(ctx, s, []backend.Write{putting(key, fmt.Sprint(i), ""), putting(page, "", "")})
			if err == nil {
				wins <- i
				return nil
			}
			return errors.Join(want("the batch of a loser", err, backend.ErrConflict), absent(ctx, s, page))
		})
		if err != nil {
			return err
		}
		if len(wins) != 1 {
			return fmt.Errorf("%d of %d have created the same key", len(wins), writers)
		}
	}
	return nil
}
