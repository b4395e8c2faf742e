package hub_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/hub/compat"
)

// TestCrashAtEveryWriteOfARunThatBegins begins runs without an index. The hub dies at one of its
// writes, to its store or to the API server, before or after the write; the test repeats that for
// every write. The next hub continues with the saved snapshot. After every second write the
// selected objects change. Then a recorded run brings its frozen content, and a run that was not
// recorded begins with the new content. No content has two snapshots in a row.
func TestCrashAtEveryWriteOfARunThatBegins(t *testing.T) {
	t.Parallel()
	for when, lands := range []bool{false, true} {
		t.Run(fmt.Sprintf("lands %v", lands), func(t *testing.T) {
			t.Parallel()
			s := newStale(t, snapshotsOnDemand)
			s.mayWarn("the process has ended")
			s.place("v")
			s.staged("")
			s.sync("crp", s.name, s.SyncPlacement)
			s.eventually("the policies to be old enough", func() error { return s.Settled(t.Context()) })
			s.drive()
			at := 1
			for ; s.diesAt(at, lands, (at+when)%2 == 0); at++ {
				if soaks() {
					s.diesAt(at, lands, (at+when)%2 == 1)
				}
			}
			if at < 5 {
				t.Errorf("only %d writes were made", at-1)
			}
		})
	}
}

// snapshotsOnDemand lets only runs take the snapshots of External placements.
func snapshotsOnDemand(c *hub.Config) { c.Compatibility = compat.KubeFleet018 }

// drive runs the engine. It takes over runs that a hub had recorded but not admitted when it died.
func (s *stale) drive() {
	ctx, stop := context.WithCancel(context.WithoutCancel(s.t.Context()))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.engine.Start(ctx) }()
	s.t.Cleanup(func() { stop(); <-ended })
}

// beginning is a run that begins, with its own value of the selected object.
type beginning struct {
	*stale
	run string
}

// diesAt begins a run with a hub that dies at a write, and then with another hub. It reports
// whether the first hub died.
func (s *stale) diesAt(at int, lands, changes bool) bool {
	s.t.Helper()
	b := &beginning{stale: s, run: fmt.Sprintf("%s-%d-%v", s.name, at, changes)}
	before := b.latest()
	value := "of " + b.run
	b.change(value)
	f := &fuse{lands: lands, paths: []string{"stagedupdateruns", "resourcesnapshots"}}
	dies := b.knows(f)
	run := b.runOf(b.run, "")
	run.Object["spec"].(map[string]any)["state"] = "Initialize"
	b.create(run)
	f.count.Store(0)
	f.at = int64(at)
	b.begins(dies, func() bool { return f.count.Load() >= int64(at) })
	died := f.count.Load() >= int64(at)
	saved, recorded := b.latest(), b.index()
	if recorded > saved {
		b.t.Fatalf("write %d: the run brings snapshot %d, and %d is the latest that is saved", at, recorded, saved)
	}
	want := max(saved, before+1)
	if changes {
		next := "later than " + b.run
		b.change(next)
		if recorded < 0 {
			want, value = saved+1, next
		}
	}
	b.begins(b.knows(&fuse{}), func() bool { return false })
	if got := b.index(); got != want || recorded >= 0 && got != recorded {
		b.t.Errorf("write %d: the run brings snapshot %d, want %d; %d was the latest before, %d when the hub died, with %d recorded", at, got, want, before, saved, recorded)
	}
	if got := b.content(b.index()); !strings.Contains(got, `"`+value+`"`) {
		b.t.Errorf("write %d: the run brings %s, want %s", at, got, value)
	}
	if got := b.latest(); got != want {
		b.t.Errorf("write %d: snapshot %d is the latest, want %d", at, got, want)
	}
	return died
}

// knows returns a hub that has seen all objects, and has declared the placement.
func (b *beginning) knows(f *fuse) *hub.Stale {
	b.t.Helper()
	h := b.hubWith(f, snapshotsOnDemand)
	b.eventually("the placement to be known", func() error {
		for _, short := range []string{"crp", "crs", "csps"} {
			list, err := b.at(short).List(b.t.Context(), metav1.ListOptions{})
			for i := range list.Items {
				err = errors.Join(err, h.See(&list.Items[i]))
			}
			if err != nil {
				return err
			}
		}
		return h.SyncPlacement(b.t.Context(), b.name)
	})
	return h
}

// begins lets a hub work on the run and its placement until it is dead or the run has begun.
func (b *beginning) begins(h *hub.Stale, dead func() bool) {
	b.t.Helper()
	b.eventually(b.run+" to begin", func() error {
		if dead() {
			return nil
		}
		if err := b.look(h, b.run); err != nil {
			return err
		}
		err := errors.Join(h.SyncRun(b.t.Context(), b.run), h.SyncPlacement(b.t.Context(), b.name))
		if err != nil && !strings.Contains(err.Error(), errFuse.Error()) && !errors.Is(err, backend.ErrConflict) {
			return err
		}
		if dead() {
			return nil
		}
		return b.tells(b.run, "Initialized", "True")
	})
}

// latest returns the index of the latest snapshot, and index the index in the run; -1 if there is
// none.
func (b *beginning) latest() int {
	b.t.Helper()
	view, err := b.engine.Placement(b.name).View(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	all := view.Snapshots()
	if len(all) == 0 {
		return -1
	}
	return all[len(all)-1].Index
}

func (b *beginning) index() int {
	b.t.Helper()
	st, err := b.engine.Run(b.run).Status(b.t.Context())
	if errors.Is(err, backend.ErrNotFound) {
		return -1
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return st.Plan.Index
}

// content returns the content of a snapshot.
func (b *beginning) content(index int) string {
	b.t.Helper()
	view, err := b.engine.Placement(b.name).View(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	set, err := view.Content(b.t.Context(), index)
	if err != nil {
		b.t.Fatal(err)
	}
	var out strings.Builder
	for _, body := range set.Bodies {
		out.Write(body)
	}
	return out.String()
}
