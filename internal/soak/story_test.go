package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestMain lets the test binary be the child.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "child" {
		os.Exit(child(context.Background(), os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// soak tells whether the long versions of the tests are asked for.
func soak() bool { return os.Getenv("SLIPWAY_SOAK") == "1" }

// newStory returns a killer that kills so many children of a story.
func newStory(t *testing.T, seed uint64, limit int) *killer {
	return &killer{
		life: life{dir: t.TempDir(), engines: 1, scenario: -1},
		rand: rand.New(rand.NewPCG(seed, 50)), within: 400 * time.Millisecond, writes: 80, limit: limit,
	}
}

// tell plays the story and returns its end.
func tell(t *testing.T, k *killer) ending {
	t.Helper()
	k.checked = func() error { return k.inspect(t.Context(), nil) }
	if err := k.run(t.Context()); err != nil {
		t.Fatalf("after %d kills: %v", k.kills, err)
	}
	return endOf(t, k)
}

// endOf reads the end of a story.
func endOf(t *testing.T, k *killer) (end ending) {
	t.Helper()
	err := k.inspect(t.Context(), func(w *world) (err error) {
		end, err = w.ending(t.Context(), "web", "first", "forth", "back")
		if left, _ := w.leftovers(t.Context()); len(left) > 0 {
			t.Errorf("left in the store: %v", left)
		}
		// A crash leaves pages that nobody reads, of what it came between: at most
		// those of one commit of the run and one of its placement.
		if n := w.engineFile.Stats(); n.Records > 60+4*int64(k.kills) || n.FileBytes > 4<<20 {
			t.Errorf("after %d kills there are %d records in %d bytes", k.kills, n.Records, n.FileBytes)
		}
		return err
	})
	if err != nil {
		t.Fatalf("after %d kills: %v", k.kills, err)
	}
	return end
}

// A run of three stages with ten clusters each, with failures, a stop, a
// resume, approvals and a rollback comes to the same end however often its
// process is killed: nothing is applied twice at the same attempt, no approval
// is lost or repeated. Half of the kills come at a random moment, the others
// right before or after a random write.
func TestAKilledStoryEndsAsAnUndisturbedOne(t *testing.T) {
	want := tell(t, newStory(t, 0, 0))
	if len(want.Approvals) != 8 || len(want.Audit) != 30+28+28 {
		t.Fatalf("the story is another one: approvals %v, changes %v", want.Approvals, want.Audit)
	}
	most := 50
	if soak() {
		most = 10_000
	}
	const sides = 3
	for side := range uint64(sides) {
		t.Run(fmt.Sprint(side), func(t *testing.T) {
			t.Parallel()
			for kills, seed := 0, side+1; kills < most/sides; seed += sides {
				k := newStory(t, seed, 1<<30)
				got := tell(t, k)
				if d := cmp.Diff(want, got); d != "" {
					t.Fatalf("story %d, killed %d times (-undisturbed +killed):\n%s", seed, k.kills, d)
				}
				kills += k.kills
				t.Logf("story %d came to its end after %d kills, %d so far", seed, k.kills, kills)
			}
		})
	}
}

// The proof above can fail: where the members forget between two kills what
// they had acknowledged, the story ends differently.
func TestAForgottenWriteEndsTheStoryDifferently(t *testing.T) {
	t.Parallel()
	want := tell(t, newStory(t, 0, 0))
	k, err := forgetful(t, 7)
	for seed := uint64(8); err == nil && k.kills < forgetsAt; seed++ { // it came to its end before
		k, err = forgetful(t, seed)
	}
	if errors.Is(err, errBroken) {
		return // a law saw it
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := endOf(t, k); cmp.Equal(want, got) {
		t.Error("the story ended as if nothing had been forgotten")
	}
}

// At the kill remembersAt what the members hold is kept, and at forgetsAt it is
// all that they hold.
const remembersAt, forgetsAt = 3, 6

// forgetful plays a story in which the members forget.
func forgetful(t *testing.T, seed uint64) (*killer, error) {
	k := newStory(t, seed, 1<<30)
	file := filepath.Join(k.dir, "world.db")
	var old []byte
	k.checked = func() (err error) {
		switch k.kills {
		case remembersAt:
			old, err = os.ReadFile(file)
		case forgetsAt:
			err = os.WriteFile(file, old, 0o600)
		}
		return err
	}
	return k, k.run(t.Context())
}
