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
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// savedRun saves one run after the other as a driver does.
type savedRun struct {
	t     *testing.T
	store *memory.Store
	rec   *Run
	rev   backend.Revision
	pages InFlightPages
	// pagesWritten is the number of pages of the last save, largest the size of the largest record.
	pagesWritten, largest int
}

func newSavedRun(t *testing.T) *savedRun {
	s := memory.NewStore()
	rec := &Run{Run: step.Run{Name: "run", UID: "uid"}}
	return &savedRun{t: t, store: s, rec: rec, pages: InFlightPages{Store: s, UID: "uid"}}
}

func (s *savedRun) save(run step.Run) {
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
	s.pages.Commit(c, next.InFlight, run.Form(runstate.Key{}).InFlight)
	s.rec, s.rev, s.pagesWritten = &next, rev, len(c.Pages)
	for _, w := range append(c.Pages, c.Record) {
		s.largest = max(s.largest, len(w.Value))
	}
}

// read returns the run in the form that another engine reads; later saves continue from it.
func (s *savedRun) read() step.Run {
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

// keys returns the names of the pages in the store.
func (s *savedRun) keys() (out []string) {
	for rec, err := range s.store.List(s.t.Context(), "inflight/") {
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, strings.TrimPrefix(rec.Key, "inflight/uid/"))
	}
	return out
}

// everyOther returns every other of n clusters as unsuccessful, each in its own range. The first
// 256 have the longest reason.
func everyOther(n int) (out []runstate.Unsuccessful) {
	for pos := 0; pos < n; pos += 2 {
		x := runstate.Unsuccessful{First: pos, Last: pos, State: stages.Failed, Attempts: 3}
		if len(out) < 256 {
			x.Reason = strings.Repeat("\x00", 256)
		}
		out = append(out, x)
	}
	return out
}

// waitingAgain returns the clusters of xs as waiting for a retry.
func waitingAgain(xs []runstate.Unsuccessful) (out []runstate.Retrying) {
	for i, x := range xs {
		y := runstate.Retrying{Pos: x.First, Attempt: 4, Sent: true}
		if i < 256 {
			y.Tries, y.Since, y.NotYet, y.Started, y.Spent = 9, 1700000000000, 1700000000001, 1700000000002, 99999999
			y.Message = strings.Repeat("\x00", 80)
		}
		out = append(out, y)
	}
	return out
}

// TestRunRecordsStaySmallWithManyFailures lets half of 100,000 clusters fail, and then lets all of
// those wait for a retry.
func TestRunRecordsStaySmallWithManyFailures(t *testing.T) {
	s := newSavedRun(t)
	failed := everyOther(100_000)
	run := step.Run{Name: "run", UID: "uid"}
	for _, n := range []int{ListHere, ListHere + 1, 300, len(failed) - 1, len(failed)} {
		run.Form(runstate.Key{}).Unsuccessful = failed[:n]
		s.save(run)
	}
	if s.pagesWritten != 1 {
		t.Errorf("one more range wrote %d pages, want 1", s.pagesWritten)
	}
	if d := cmp.Diff(run, s.read()); d != "" {
		t.Error(d)
	}
	run.Form(runstate.Key{}).Unsuccessful, run.Form(runstate.Key{}).Waiting = nil, waitingAgain(failed)
	s.save(run)
	run.Form(runstate.Key{}).Waiting = run.Form(runstate.Key{}).Waiting[1:]
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
	run.Form(runstate.Key{}).Waiting = nil
	s.save(run)
	if left := s.keys(); len(left) > 0 {
		t.Errorf("pages %v are left", left)
	}
}

// TestRunListsRoundTripThroughPages changes the lists of a run as runs do, and lets another engine
// continue now and then.
func TestRunListsRoundTripThroughPages(t *testing.T) {
	for seed := range uint64(20) {
		r, s := rand.New(rand.NewPCG(seed, 4)), newSavedRun(t)
		run := step.Run{Name: "run", UID: "uid"}
		free := r.Perm(3000)
		for range 60 {
			run.Form(runstate.Key{}).Waiting = slices.Clone(run.Form(runstate.Key{}).Waiting)
			drop := r.Float64()
			run.Form(runstate.Key{}).Waiting = slices.DeleteFunc(run.Form(runstate.Key{}).Waiting, func(runstate.Retrying) bool { return r.Float64() < drop*drop })
			for range r.IntN(min(200, len(free))) {
				run.Form(runstate.Key{}).Waiting = append(run.Form(runstate.Key{}).Waiting, runstate.Retrying{Pos: free[0], Attempt: 1 + r.IntN(3)})
				free = free[1:]
			}
			run.Form(runstate.Key{}).Unsuccessful = slices.DeleteFunc(everyOther(2*r.IntN(400)), func(runstate.Unsuccessful) bool { return r.IntN(5) == 0 })
			if len(run.Form(runstate.Key{}).Unsuccessful) == 0 {
				run.Form(runstate.Key{}).Unsuccessful = nil
			}
			if len(run.Form(runstate.Key{}).Waiting) == 0 {
				run.Form(runstate.Key{}).Waiting = nil
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

// runOf returns a run with a stored form.
func runOf(f runstate.Form) step.Run {
	r := step.Run{Name: "run", UID: "uid"}
	*r.Form(runstate.Key{}) = f
	return r
}

// TestARunHasAListOnce checks that a list both in the record and in pages is refused.
func TestARunHasAListOnce(t *testing.T) {
	for name, r := range map[string]*Run{
		"unsuccessful": {Run: runOf(runstate.Form{Unsuccessful: everyOther(2)}), InFlight: InFlight{Unsuccessful: []string{"1-1-1-x0"}}},
		"waiting":      {Run: runOf(runstate.Form{Waiting: []runstate.Retrying{{Pos: 1, Attempt: 1}}}), InFlight: InFlight{Waiting: []string{"1-1-1-w0"}}},
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

func TestLostListPageIsAnError(t *testing.T) {
	s := newSavedRun(t)
	s.save(runOf(runstate.Form{Unsuccessful: everyOther(1000)}))
	s.rec.Run.Form(runstate.Key{}).Unsuccessful = nil
	pages := InFlightPages{Store: lostPage{s.store}, UID: "uid"}
	if err := pages.Read(t.Context(), s.rec); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("the error is %v, want that a page is not found", err)
	}
}
