package record

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/stages"
)

// savedRun saves one run after the other as a driver does.
type savedRun struct {
	t     *testing.T
	store *memory.Store
	rec   *Run
	rev   backend.Revision
	pages InFlightPages
	// pagesWritten are those of the last save, largest is the largest record of all.
	pagesWritten, largest int
}

func newSavedRun(t *testing.T) *savedRun {
	s := memory.NewStore()
	rec := &Run{Run: stages.Run{Name: "run", UID: "uid"}}
	return &savedRun{t: t, store: s, rec: rec, pages: InFlightPages{Store: s, UID: "uid"}}
}

func (s *savedRun) save(run stages.Run) {
	s.t.Helper()
	next, c := *s.rec, new(Commit)
	next.Run = run
	next.Seq++
	next.InFlight = s.pages.Write(c, 1, next.Seq, &run)
	c.Record = backend.Write{Key: RunKey("run"), Value: next.Encode(), Prev: s.rev}
	rev, err := c.Write(s.t.Context(), s.store)
	if err != nil {
		s.t.Fatal(err)
	}
	s.pages.Commit(c, next.InFlight, run.InFlight)
	s.rec, s.rev, s.pagesWritten = &next, rev, len(c.Pages)
	for _, w := range append(c.Pages, c.Record) {
		s.largest = max(s.largest, len(w.Value))
	}
}

// read returns the run as another engine finds it, which from now on saves it.
func (s *savedRun) read() stages.Run {
	s.t.Helper()
	rec, err := s.store.Get(s.t.Context(), RunKey("run"))
	if err != nil {
		s.t.Fatal(err)
	}
	got := new(Run)
	if err := Decode(rec, got); err != nil {
		s.t.Fatal(err)
	}
	s.pages = InFlightPages{Store: s.store, UID: "uid"}
	if err := s.pages.Read(s.t.Context(), got); err != nil {
		s.t.Fatal(err)
	}
	s.rec, s.rev = got, rec.Revision
	return got.Run
}

// keys returns the pages that the store has.
func (s *savedRun) keys() (out []string) {
	for rec, err := range s.store.List(s.t.Context(), "inflight/") {
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, strings.TrimPrefix(rec.Key, "inflight/uid/"))
	}
	return out
}

// everyOther returns unsuccessful ranges of every other of n clusters, each of which says
// something else.
func everyOther(n int) (out []stages.Unsuccessful) {
	for pos := 0; pos < n; pos += 2 {
		x := stages.Unsuccessful{First: pos, Last: pos, State: stages.Failed, Attempts: 3}
		if len(out) < 256 {
			x.Reason = strings.Repeat("\x00", 256)
		}
		out = append(out, x)
	}
	return out
}

// waitingAgain returns those clusters lined up again.
func waitingAgain(xs []stages.Unsuccessful) (out []stages.Retrying) {
	for i, x := range xs {
		y := stages.Retrying{Pos: x.First, Attempt: 4, Sent: true}
		if i < 256 {
			y.Tries, y.Since, y.NotYet, y.Started, y.Spent = 9, 1700000000000, 1700000000001, 1700000000002, 99999999
			y.Message = strings.Repeat("\x00", 80)
		}
		out = append(out, y)
	}
	return out
}

// TestNoRecordOfARunGrowsWithWhatGoesWrong has half of 100,000 clusters fail, and
// then all of those wait to be tried again.
func TestNoRecordOfARunGrowsWithWhatGoesWrong(t *testing.T) {
	s := newSavedRun(t)
	failed := everyOther(100_000)
	run := stages.Run{Name: "run", UID: "uid"}
	for _, n := range []int{ListHere, ListHere + 1, 300, len(failed) - 1, len(failed)} {
		run.Unsuccessful = failed[:n]
		s.save(run)
	}
	if s.pagesWritten != 1 {
		t.Errorf("one more range wrote %d pages, want 1", s.pagesWritten)
	}
	if d := cmp.Diff(run, s.read()); d != "" {
		t.Error(d)
	}
	run.Unsuccessful, run.Waiting = nil, waitingAgain(failed)
	s.save(run)
	run.Waiting = run.Waiting[1:]
	s.save(run)
	if s.pagesWritten != 1 {
		t.Errorf("one that waits no more wrote %d pages, want 1", s.pagesWritten)
	}
	if d := cmp.Diff(run, s.read()); d != "" {
		t.Error(d)
	}
	if s.largest > 256<<10 {
		t.Errorf("the largest record has %d bytes, want at most 256 KiB", s.largest)
	}
	run.Waiting = nil
	s.save(run)
	if left := s.keys(); len(left) > 0 {
		t.Errorf("pages %v are left", left)
	}
}

// TestARunComesBackFromPagesAsItWas changes its lists as runs do, and has another
// engine go on now and then.
func TestARunComesBackFromPagesAsItWas(t *testing.T) {
	for seed := range uint64(20) {
		r, s := rand.New(rand.NewPCG(seed, 4)), newSavedRun(t)
		run := stages.Run{Name: "run", UID: "uid"}
		free := r.Perm(3000)
		for range 60 {
			run.Waiting = slices.Clone(run.Waiting)
			drop := r.Float64()
			run.Waiting = slices.DeleteFunc(run.Waiting, func(stages.Retrying) bool { return r.Float64() < drop*drop })
			for range r.IntN(min(200, len(free))) {
				run.Waiting = append(run.Waiting, stages.Retrying{Pos: free[0], Attempt: 1 + r.IntN(3)})
				free = free[1:]
			}
			run.Unsuccessful = slices.DeleteFunc(everyOther(2*r.IntN(400)), func(stages.Unsuccessful) bool { return r.IntN(5) == 0 })
			if len(run.Unsuccessful) == 0 {
				run.Unsuccessful = nil
			}
			if len(run.Waiting) == 0 {
				run.Waiting = nil
			}
			s.save(run)
			named := slices.DeleteFunc(s.rec.InFlight.Names(), func(name string) bool { return name == "" })
			if slices.Sort(named); !slices.Equal(named, s.keys()) {
				t.Fatalf("seed %d: the record names %v, and the store has %v", seed, named, s.keys())
			}
			if r.IntN(3) > 0 {
				continue
			}
			if d := cmp.Diff(run, s.read()); d != "" {
				t.Fatalf("seed %d: %s", seed, d)
			}
			if len(free) < 500 {
				break
			}
		}
	}
}

// TestARunHasAListOnce is that a list in the record and in pages is refused.
func TestARunHasAListOnce(t *testing.T) {
	for name, r := range map[string]*Run{
		"unsuccessful": {Run: stages.Run{Unsuccessful: everyOther(2)}, InFlight: InFlight{Unsuccessful: []string{"1-1-1-x0"}}},
		"waiting":      {Run: stages.Run{Waiting: []stages.Retrying{{Pos: 1, Attempt: 1}}}, InFlight: InFlight{Waiting: []string{"1-1-1-w0"}}},
	} {
		s := newSavedRun(t)
		if err := s.pages.Read(t.Context(), r); !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// lostPage is a store that has lost a page.
type lostPage struct{ backend.Store }

func (l lostPage) Get(ctx context.Context, key string) (backend.Record, error) {
	if strings.HasSuffix(key, "-x1") {
		return backend.Record{}, fmt.Errorf("%s: %w", key, backend.ErrNotFound)
	}
	return l.Store.Get(ctx, key)
}

func TestALostPageOfUnsuccessfulClustersIsNoShorterList(t *testing.T) {
	s := newSavedRun(t)
	s.save(stages.Run{Name: "run", UID: "uid", Unsuccessful: everyOther(1000)})
	s.rec.Run.Unsuccessful = nil
	pages := InFlightPages{Store: lostPage{s.store}, UID: "uid"}
	if err := pages.Read(t.Context(), s.rec); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("the error is %v, want that a page is not found", err)
	}
}
