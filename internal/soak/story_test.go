package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/internal/soak/environment"
	"github.com/slipway-dev/slipway/internal/soak/laws"
)

// TestMain lets the test binary be the program and its children.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "child":
			os.Exit(child(context.Background(), os.Args[2:], os.Stdout, os.Stderr))
		case "program":
			os.Args = slices.Delete(os.Args, 1, 2)
			main()
		}
	}
	os.Exit(m.Run())
}

// soak reports whether the long versions of the tests are asked for.
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
	err := k.inspect(t.Context(), func(env *environment.Environment) (err error) {
		end, err = endingOf(t.Context(), env, "web", "first", "forth", "back")
		if left, _ := leftovers(t.Context(), env); len(left) > 0 {
			t.Errorf("left in the store: %v", left)
		}
		// A crash leaves unreferenced pages of the interrupted commits: at most the pages of one commit
		// of the run and one of its placement.
		if n := env.Store.Stats(); n.Records > 60+4*int64(k.kills) || n.FileBytes > 4<<20 {
			t.Errorf("after %d kills there are %d records in %d bytes", k.kills, n.Records, n.FileBytes)
		}
		return err
	})
	if err != nil {
		t.Fatalf("after %d kills: %v", k.kills, err)
	}
	return end
}

// A run of three stages with ten clusters each, with failures, a stop, a resume, approvals and a
// rollback has the same result, however often its process is killed: no change is applied twice
// in the same attempt, and no approval is lost or repeated. Half of the kills come at a random
// moment, the others right before or after a random write.
func TestKillsDoNotChangeTheResult(t *testing.T) {
	want := tell(t, newStory(t, 0, 0))
	if len(want.Approvals) != 8 || len(want.Audit) != 30+28+28 {
		t.Fatalf("the story is another one: approvals %v, changes %v", want.Approvals, want.Audit)
	}
	most := 50
	switch {
	case soak():
		most = 10_000
	case underRace: // and make test makes all of them without it
		most /= 5
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

// The proof above can fail: if the members forget acknowledged changes between two kills, a law
// detects it, or the story has another result.
func TestLostWritesAreDetected(t *testing.T) {
	t.Parallel()
	want := tell(t, newStory(t, 0, 0))
	for seed := uint64(7); ; seed++ {
		k, a := newStory(t, seed, 1<<30), &amnesia{}
		k.checked = func() error { return a.strike(t, k) }
		err := k.run(t.Context())
		switch {
		case errors.Is(err, laws.ErrViolated):
			return
		case err != nil:
			t.Fatal(err)
		case !a.struck: // it completed before the strike
			continue
		}
		if got := endOf(t, k); cmp.Equal(want, got) {
			t.Error("the story ended as if nothing had been forgotten")
		}
		return
	}
}

// amnesia makes the members forget, once, the last few changes that they
// acknowledged.
type amnesia struct {
	old     map[string]backend.Record
	changes int
	struck  bool
}

// forgets is how many changes are forgotten at least.
const forgets = 8

// strike is called between two children.
func (a *amnesia) strike(t *testing.T, k *killer) (err error) {
	file, err := bolt.Open(filepath.Join(k.dir, environment.ClusterFile), bolt.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	members, err := readAll(t.Context(), file, "member/")
	if err != nil {
		return err
	}
	audits, err := readAll(t.Context(), file, environment.AuditPrefix)
	switch changes := len(audits); {
	case err != nil:
		return err
	case a.old == nil:
		a.old, a.changes = members, changes
	case !a.struck && changes >= a.changes+forgets:
		a.struck = true
		return a.restore(t.Context(), file, members)
	}
	return nil
}

// restore sets the members to their earlier content.
func (a *amnesia) restore(ctx context.Context, file backend.Store, now map[string]backend.Record) error {
	for key, r := range now {
		var err error
		if was, ok := a.old[key]; ok {
			_, err = file.Put(ctx, key, was.Value, r.Revision)
		} else {
			err = file.Delete(ctx, key, r.Revision)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func readAll(ctx context.Context, s backend.Store, prefix string) (map[string]backend.Record, error) {
	all := map[string]backend.Record{}
	for r, err := range s.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		all[r.Key] = r
	}
	return all, nil
}
