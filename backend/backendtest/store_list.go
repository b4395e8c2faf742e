package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/slipway-dev/slipway/backend"
)

// listed returns the keys under prefix in the order they are yielded.
func listed(ctx context.Context, s backend.Store, prefix string) ([]string, error) {
	var keys []string
	for r, err := range s.List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("list %q: %w", prefix, err)
		}
		keys = append(keys, r.Key)
	}
	return keys, nil
}

// fill creates all keys, each with its name as the value.
func fill(ctx context.Context, s backend.Store, keys ...string) (map[string]backend.Revision, error) {
	revisions := make(map[string]backend.Revision, len(keys))
	for _, key := range keys {
		revision, err := made(ctx, s, key, key)
		if err != nil {
			return nil, err
		}
		revisions[key] = revision
	}
	return revisions, nil
}

func listPrefix(ctx context.Context, s backend.Store) error {
	all := []string{"a", "a/b", "a/b-c", "a/b/c", "a/bc", "a0", "ab", "b/a/b"}
	if _, err := fill(ctx, s, all...); err != nil {
		return err
	}
	var errs []error
	for prefix, want := range map[string][]string{
		"":      all,
		"a/b":   {"a/b", "a/b-c", "a/b/c", "a/bc"},
		"a/b/":  {"a/b/c"},
		"a/":    {"a/b", "a/b-c", "a/b/c", "a/bc"},
		"a":     all[:7],
		"b":     {"b/a/b"},
		"c":     nil,
		"a/bcd": nil,
	} {
		got, err := listed(ctx, s, prefix)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("list %q yields %q, want %q", prefix, got, want)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func listOrder(ctx context.Context, s backend.Store) error {
	var keys []string
	for i := range 600 {
		keys = append(keys, fmt.Sprintf("o/%d%c%d", i*7919%600/10, "-._/a9"[i%6], i%10))
	}
	revisions, err := fill(ctx, s, keys...)
	if err != nil {
		return err
	}
	slices.Sort(keys)
	i := 0
	for r, err := range s.List(ctx, "o/") {
		switch {
		case err != nil:
			return err
		case i == len(keys) || r.Key != keys[i]:
			return fmt.Errorf("element %d of %d is %q", i, len(keys), r.Key)
		case string(r.Value) != r.Key || r.Revision != revisions[r.Key]:
			return fmt.Errorf("%s is listed with the value %q at %q, want %q", r.Key, r.Value, r.Revision, revisions[r.Key])
		}
		i++
	}
	if i != len(keys) {
		return fmt.Errorf("%d of %d keys are listed", i, len(keys))
	}
	return nil
}

func listBreak(ctx context.Context, s backend.Store) error {
	if _, err := fill(ctx, s, "a/1", "a/2", "a/3"); err != nil {
		return err
	}
	for r, err := range s.List(ctx, "a/") {
		if err != nil {
			return err
		}
		if _, err := s.Put(ctx, r.Key, []byte("new"), r.Revision); err != nil {
			return fmt.Errorf("put %s while it is listed: %w", r.Key, err)
		}
		break
	}
	got, err := listed(ctx, s, "a/")
	if err == nil && len(got) != 3 {
		err = fmt.Errorf("after a list was left the next one yields %q", got)
	}
	return err
}

// listStable lists while a racer creates and deletes keys in between, and while a key before all
// others is created and deleted between two records.
func listStable(ctx context.Context, s backend.Store) error {
	var stable []string
	for i := range 200 {
		stable = append(stable, fmt.Sprintf("s/%03d", i))
	}
	if _, err := fill(ctx, s, stable...); err != nil {
		return err
	}
	var done atomic.Bool
	return together(2, func(i int) error {
		if i == 1 {
			return churn(ctx, s, stable, &done)
		}
		defer done.Store(true)
		for range 10 {
			if err := listsAll(ctx, s, stable); err != nil {
				return err
			}
		}
		return nil
	})
}

// churn creates and deletes keys between the stable ones until done.
func churn(ctx context.Context, s backend.Store, stable []string, done *atomic.Bool) error {
	for i := 0; !done.Load() && ctx.Err() == nil; i++ {
		key := stable[i*37%len(stable)] + "-x"
		revision, err := s.Put(ctx, key, nil, "")
		if err == nil {
			err = s.Delete(ctx, key, revision)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// listsAll lists once, and compares the result with the stable keys.
func listsAll(ctx context.Context, s backend.Store, stable []string) error {
	got, err := listedDuringWrites(ctx, s, 10*len(stable))
	if err != nil {
		return err
	}
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		return errors.New("a list during writes is not ascending")
	}
	kept := slices.DeleteFunc(got, func(key string) bool { return len(key) != len(stable[0]) })
	if !slices.Equal(kept, stable) {
		return fmt.Errorf("a list during writes has %d of %d keys that exist throughout", len(kept), len(stable))
	}
	return nil
}

// listedDuringWrites returns the keys that a list yields while a key before all others is created
// and deleted.
func listedDuringWrites(ctx context.Context, s backend.Store, limit int) (keys []string, err error) {
	front := toggle{store: s, key: "s/000-front"}
	defer func() { err = errors.Join(err, front.remove(ctx)) }()
	for r, err := range s.List(ctx, "s/") {
		keys = append(keys, r.Key)
		if err == nil && len(keys)%30 == 0 {
			err = front.flip(ctx)
		}
		if err == nil && len(keys) > limit {
			err = errors.New("a list during writes does not end")
		}
		if err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// toggle is a key that is created and deleted in turn.
type toggle struct {
	store    backend.Store
	key      string
	revision backend.Revision
}

func (t *toggle) flip(ctx context.Context) (err error) {
	if t.revision != "" {
		return t.remove(ctx)
	}
	t.revision, err = t.store.Put(ctx, t.key, nil, "")
	return err
}

func (t *toggle) remove(ctx context.Context) error {
	if t.revision == "" {
		return nil
	}
	revision := t.revision
	t.revision = ""
	return t.store.Delete(ctx, t.key, revision)
}

func listContext(ctx context.Context, s backend.Store) error {
	if _, err := fill(ctx, s, "a/1", "a/2"); err != nil {
		return err
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	var last error
	for _, err := range s.List(ended, "a/") {
		if last != nil {
			return errors.New("something is yielded after an error")
		}
		last = err
	}
	return wantTransient("list", last)
}
