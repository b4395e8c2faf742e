package feed_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/internal/feed"
)

func change(key string, n int) backend.Change {
	return backend.Change{Key: key, Revision: backend.Revision(fmt.Sprint(n))}
}

// nothing joins a feed without previous changes.
func nothing(join func()) ([]backend.Change, error) {
	join()
	return nil, nil
}

// A slow consumer gets the last change of each key under its prefix, after the existing records.
func TestASlowConsumerGetsTheLastChangeOfEachKey(t *testing.T) {
	var f feed.Feed
	var got []backend.Change
	begin := func(join func()) ([]backend.Change, error) {
		join()
		return []backend.Change{change("run/a", 1)}, nil
	}
	for c, err := range f.Follow(t.Context(), "run/", begin) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, c); len(got) == 1 {
			for _, c := range []backend.Change{change("run/a", 2), change("plan/x", 3), change("run/b", 4), change("run/a", 5)} {
				f.Announce(c)
			}
		}
		if len(got) == 3 {
			break
		}
	}
	want := []backend.Change{change("run/a", 1), change("run/a", 5), change("run/b", 4)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAFeedEndsWithItsContext(t *testing.T) {
	var f feed.Feed
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range f.Follow(ctx, "", nothing) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}

func TestAConsumerThatIsTooFarBehindIsReported(t *testing.T) {
	var f feed.Feed
	begin := func(join func()) ([]backend.Change, error) {
		join()
		for i := range 1<<16 + 1 {
			f.Announce(change(fmt.Sprint(i), i))
		}
		return nil, nil
	}
	n := 0
	for _, err := range f.Follow(t.Context(), "", begin) {
		if n++; err == nil || n > 1 {
			t.Fatalf("a change was yielded to a consumer that had lost some: %v", err)
		}
	}
}

func TestAFeedThatCannotBeginSaysWhy(t *testing.T) {
	var f feed.Feed
	want := errors.New("closed")
	for _, err := range f.Follow(t.Context(), "", func(func()) ([]backend.Change, error) { return nil, want }) {
		if !errors.Is(err, want) {
			t.Errorf("got %v", err)
		}
	}
}
