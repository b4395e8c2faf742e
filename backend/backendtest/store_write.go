package backendtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/backend"
)

// holds returns nil if key has this value at this revision.
func holds(ctx context.Context, s backend.Store, key, value string, revision backend.Revision) error {
	r, err := s.Get(ctx, key)
	switch {
	case err != nil:
		return fmt.Errorf("get %s: %w", key, err)
	case r.Key != key:
		return fmt.Errorf("the record of %s has the key %q", key, r.Key)
	case string(r.Value) != value:
		return fmt.Errorf("%s is %.40q, want %.40q", key, r.Value, value)
	case r.Revision != revision:
		return fmt.Errorf("%s is at revision %q, Put returned %q", key, r.Revision, revision)
	}
	return nil
}

// made creates key and returns its revision.
func made(ctx context.Context, s backend.Store, key, value string) (backend.Revision, error) {
	revision, err := s.Put(ctx, key, []byte(value), "")
	if err != nil {
		return "", fmt.Errorf("create %s: %w", key, err)
	}
	if revision == "" {
		return "", fmt.Errorf("create %s returned the zero revision", key)
	}
	return revision, nil
}

// changed creates key with the value old and puts new, and returns both
// revisions.
func changed(ctx context.Context, s backend.Store, key string) (first, second backend.Revision, err error) {
	if first, err = made(ctx, s, key, "old"); err != nil {
		return "", "", err
	}
	if second, err = s.Put(ctx, key, []byte("new"), first); err != nil {
		return "", "", fmt.Errorf("put %s at its revision: %w", key, err)
	}
	if second == "" || second == first {
		return "", "", fmt.Errorf("put %s returned revision %q after %q", key, second, first)
	}
	return first, second, nil
}

func create(ctx context.Context, s backend.Store) error {
	revision, err := made(ctx, s, "a/b", "value")
	if err != nil {
		return err
	}
	return holds(ctx, s, "a/b", "value", revision)
}

func createExisting(ctx context.Context, s backend.Store) error {
	revision, err := made(ctx, s, "a", "first")
	if err != nil {
		return err
	}
	_, err = s.Put(ctx, "a", []byte("second"), "")
	return errors.Join(want("create again", err, backend.ErrConflict), holds(ctx, s, "a", "first", revision))
}

func getMissing(ctx context.Context, s backend.Store) error {
	_, err := s.Get(ctx, "a")
	return want("get", err, backend.ErrNotFound)
}

func putCurrent(ctx context.Context, s backend.Store) error {
	_, second, err := changed(ctx, s, "a")
	if err != nil {
		return err
	}
	return holds(ctx, s, "a", "new", second)
}

func putStale(ctx context.Context, s backend.Store) error {
	first, second, err := changed(ctx, s, "a")
	if err != nil {
		return err
	}
	_, err = s.Put(ctx, "a", []byte("late"), first)
	return errors.Join(want("put at a stale revision", err, backend.ErrConflict), holds(ctx, s, "a", "new", second))
}

func putDeleted(ctx context.Context, s backend.Store) error {
	revision, err := made(ctx, s, "a", "value")
	if err != nil {
		return err
	}
	if err := s.Delete(ctx, "a", revision); err != nil {
		return err
	}
	_, err = s.Put(ctx, "a", []byte("late"), revision)
	if err := want("put to a deleted key", err, backend.ErrConflict); err != nil {
		return err
	}
	return getMissing(ctx, s)
}

func putMissing(ctx context.Context, s backend.Store) error {
	revision, err := made(ctx, s, "b", "value")
	if err != nil {
		return err
	}
	_, err = s.Put(ctx, "a", []byte("late"), revision)
	if err := want("put to a key that never was", err, backend.ErrConflict); err != nil {
		return err
	}
	return getMissing(ctx, s)
}

func deleteCurrent(ctx context.Context, s backend.Store) error {
	_, second, err := changed(ctx, s, "a")
	if err != nil {
		return err
	}
	if err := s.Delete(ctx, "a", second); err != nil {
		return fmt.Errorf("delete at its revision: %w", err)
	}
	for r := range s.List(ctx, "") {
		return fmt.Errorf("%s is still listed", r.Key)
	}
	return getMissing(ctx, s)
}

func deleteStale(ctx context.Context, s backend.Store) error {
	first, second, err := changed(ctx, s, "a")
	if err != nil {
		return err
	}
	return errors.Join(
		want("delete at a stale revision", s.Delete(ctx, "a", first), backend.ErrConflict),
		want("delete at the zero revision", s.Delete(ctx, "a", ""), backend.ErrConflict),
		holds(ctx, s, "a", "new", second))
}

func deleteMissing(ctx context.Context, s backend.Store) error {
	revision, err := made(ctx, s, "a", "value")
	if err != nil {
		return err
	}
	if err := s.Delete(ctx, "a", revision); err != nil {
		return err
	}
	return errors.Join(
		want("delete twice", s.Delete(ctx, "a", revision), backend.ErrNotFound),
		want("delete a key that never was", s.Delete(ctx, "b", revision), backend.ErrNotFound))
}

func revisionReuse(ctx context.Context, s backend.Store) error {
	seen := map[backend.Revision]bool{}
	for round := range 5 {
		first, second, err := changed(ctx, s, "a")
		if err != nil {
			return err
		}
		if seen[first] || seen[second] {
			return fmt.Errorf("round %d of create, put and delete brought back a revision: %q or %q", round, first, second)
		}
		seen[first], seen[second] = true, true
		if err := s.Delete(ctx, "a", second); err != nil {
			return err
		}
	}
	return nil
}

func valueIn(ctx context.Context, s backend.Store) error {
	value := []byte("value")
	revision, err := s.Put(ctx, "a", value, "")
	if err != nil {
		return err
	}
	copy(value, "-----")
	return holds(ctx, s, "a", "value", revision)
}

func valueOut(ctx context.Context, s backend.Store) error {
	revision, err := made(ctx, s, "a", "value")
	if err != nil {
		return err
	}
	r, err := s.Get(ctx, "a")
	if err != nil {
		return err
	}
	copy(r.Value, "-----")
	_ = append(r.Value, "and more"...)
	if err := holds(ctx, s, "a", "value", revision); err != nil {
		return fmt.Errorf("after changing what Get returned: %w", err)
	}
	for r, err := range s.List(ctx, "") {
		if err != nil {
			return err
		}
		copy(r.Value, "-----")
	}
	if err := holds(ctx, s, "a", "value", revision); err != nil {
		return fmt.Errorf("after changing what List yielded: %w", err)
	}
	return nil
}

func valueSizes(ctx context.Context, s backend.Store) error {
	largest := string(bytes.Repeat([]byte{0, 'x', 255, '\n'}, backend.MaxValue/4))
	for key, value := range map[string]string{"empty": "", "largest": largest} {
		revision, err := made(ctx, s, key, value)
		if err != nil {
			return err
		}
		if err := holds(ctx, s, key, value, revision); err != nil {
			return err
		}
	}
	_, err := s.Put(ctx, "a", []byte(largest+"x"), "")
	if err := want("put a value of 1 MiB and a byte", err, backend.ErrPermanent); err != nil {
		return err
	}
	return getMissing(ctx, s)
}

func keys(ctx context.Context, s backend.Store) error {
	var errs []error
	for _, key := range []string{"a", "0/a-b.c_d/9", strings.Repeat("k", backend.MaxKey)} {
		revision, err := made(ctx, s, key, key)
		if err == nil {
			err = holds(ctx, s, key, key, revision)
		}
		errs = append(errs, err)
	}
	for _, key := range []string{"", "A", "a b", "a\x00", "ä", "../a", "a//b", "a/", strings.Repeat("k", backend.MaxKey+1)} {
		_, err := s.Put(ctx, key, []byte("value"), "")
		errs = append(errs, want(fmt.Sprintf("put %.20q", key), err, backend.ErrPermanent))
		_, err = s.Get(ctx, key)
		errs = append(errs, want(fmt.Sprintf("get %.20q", key), err, backend.ErrPermanent))
		err = s.Delete(ctx, key, "1")
		errs = append(errs, want(fmt.Sprintf("delete %.20q", key), err, backend.ErrPermanent))
	}
	return errors.Join(errs...)
}

func contextEnded(ctx context.Context, s backend.Store) error {
	revision, err := made(ctx, s, "a", "old")
	if err != nil {
		return err
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, getErr := s.Get(ended, "a")
	_, putErr := s.Put(ended, "a", []byte("new"), revision)
	if err := errors.Join(wantTransient("get", getErr), wantTransient("put", putErr)); err != nil {
		return err
	}
	r, err := s.Get(ctx, "a")
	if err != nil {
		return err
	}
	if v := string(r.Value); v != "old" && v != "new" || (v == "old") != (r.Revision == revision) {
		return fmt.Errorf("a is %q at revision %q, it was old at %q", v, r.Revision, revision)
	}
	return wantTransient("delete", s.Delete(ended, "a", r.Revision))
}
