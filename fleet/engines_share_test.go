package fleet_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// sharing is engines on one store, with limits and clocks of their own.
type sharing struct {
	*crowd
	rec *recorder
	// reads counts how often each engine read the record of a run.
	reads map[string]*atomic.Int64
}

func newSharing(t *testing.T, clusters int) *sharing {
	w := smallWorld(t, clusters)
	return &sharing{newCrowd(t, w), newRecorder(w.fleet), map[string]*atomic.Int64{}}
}

// join runs an engine whose clock is ahead by so much, and whose every call
// takes a millisecond.
func (s *sharing) join(name string, most int, ahead time.Duration) {
	reads := new(atomic.Int64)
	s.reads[name] = reads
	s.plans[name] = faulty.NewPlan(func(c faulty.Call) faulty.Fault {
		if c.Op == "get" && strings.HasPrefix(c.Key, "run/") {
			reads.Add(1)
		}
		return faulty.Fault{Delay: time.Millisecond}
	})
	s.stops[name] = running(s.t, s.newEngine(fleet.Config{
		Name: name, MaxRuns: most, Store: s.plans[name].Store(&clockStore{s.store, ahead}),
		Dialer: s.plans[name].Dialer(s.rec.dialer(name)),
	}))
}

// stop ends all engines and reads the events to their end.
func (s *sharing) stop() {
	settle()
	for name := range s.stops {
		s.end(name)
	}
	s.feed.read()
	s.feed.stop()
}

// taken returns who took a run, in order.
func (s *sharing) taken(run string) (by []string) {
	s.feed.read()
	for _, ev := range s.feed.events {
		if ev.Run == run && ev.Type == stages.RunTaken {
			by = append(by, ev.By)
		}
	}
	return by
}

// active returns how many runs were under way at the same time at most, and the
// order in which they began.
func (s *sharing) active() (most int, order []string) {
	now := 0
	for _, ev := range s.feed.events {
		switch {
		case ev.Type == stages.RunStarted:
			now++
			order = append(order, ev.Run)
		case slices.Contains(endings, ev.Type):
			now--
		}
		most = max(most, now)
	}
	return most, order
}

// onceAnAttempt checks that no cluster was changed twice for the same attempt of
// a run. The runs' placements share the object.
func onceAnAttempt(t *testing.T, changes []change) {
	t.Helper()
	seen := map[string]change{}
	for _, c := range changes {
		what := fmt.Sprint(c.Cluster, " ", c.Object, " ", c.At.Run, " ", c.At.Attempt)
		if first, twice := seen[what]; twice && c.Op == "write" {
			t.Errorf("%s, and before %s", c, first)
		}
		if c.Op == "write" {
			seen[what] = c
		}
	}
}

// Thirty runs are shared by three engines, one of which dies on the way: all
// come to their end, and no cluster is changed twice. With and without a limit,
// and with clocks that differ by the skew that is allowed.
func TestThreeEnginesBringThirtyRunsToTheirEnd(t *testing.T) {
	t.Parallel()
	type trial struct {
		most int
		skew time.Duration
	}
	trials := []trial{{0, 0}, {4, time.Second}}
	if soak() {
		trials = append(trials, trial{1, 0}, trial{10, time.Second}, trial{0, time.Second})
	}
	for _, c := range trials {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSharing(t, 3)
				for i := range 30 {
					s.waitFor(fmt.Sprintf("p%02d", i), time.Duration(2+i%3)*20*time.Second)
				}
				for i, name := range []string{"one", "two", "three"} {
					s.join(name, c.most, time.Duration(i-1)*c.skew)
				}
				time.Sleep(20 * time.Second)
				had, at := s.holders(), time.Now()
				for _, name := range []string{"one", "two", "three"} {
					if n := len(had[name]); n == 0 || c.most > 0 && n != c.most {
						t.Errorf("%s has %d runs: %v", name, n, had)
					}
				}
				s.kill("one")
				if c.most == 0 {
					s.movedBy(had["one"], "one, which died", at, 15*time.Second+2*time.Second+time.Second)
				}
				for i := range 30 {
					s.feed.end(fmt.Sprintf("p%02d", i))
				}
				s.stop()
				oneAtATime(t, s.feed.events)
				onceAnAttempt(t, s.rec.all())
				s.tidy()
				for run := range s.leases() {
					t.Errorf("run %s is held after its end", run)
				}
			})
		})
	}
}

// An engine drives so many runs at the same time and no more, and of those that
// wait it takes the one that was created first.
func TestAnEngineTakesTheOldestRunWhenAPlaceIsFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, 1)
		var want []string
		for i := range 10 {
			want = append(want, fmt.Sprintf("p%02d", 9-i))
			s.waitFor(want[i], time.Duration(1+i%4)*time.Minute)
			time.Sleep(time.Second)
		}
		s.join("only", 2, 0)
		for _, run := range want {
			s.feed.end(run)
		}
		s.stop()
		most, order := s.active()
		if d := cmp.Diff(want, order); d != "" || most != 2 {
			t.Errorf("%d runs at the same time, in the order (-want +got)\n%s", most, d)
		}
	})
}

// An engine at its limit leaves the rest to others, and reads no run that it
// cannot take while nothing changes.
func TestAnEngineAtItsLimitLeavesTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, 1)
		for i := range 5 {
			s.waitFor(fmt.Sprintf("p%02d", i), time.Hour)
		}
		s.join("small", 2, 0)
		settle()
		before := s.reads["small"].Load()
		time.Sleep(10 * time.Minute)
		if had := s.holders(); len(had["small"]) != 2 || len(had[""]) != 3 {
			t.Errorf("small has not two of five: %v", had)
		}
		if n := s.reads["small"].Load() - before; n > 0 {
			t.Errorf("an engine at its limit read %d records of runs", n)
		}
		s.join("large", 0, 0)
		time.Sleep(5 * time.Second)
		if had := s.holders(); len(had["small"]) != 2 || len(had["large"]) != 3 {
			t.Errorf("large has not taken the rest: %v", had)
		}
		s.kill("large")
		at := time.Now()
		s.join("larger", 0, 0)
		for _, l := range s.leases() {
			if l.Holder == "large" {
				s.movedBy([]string{l.Run}, "large", at, 18*time.Second)
			}
		}
		s.stop()
	})
}

// A run that is held, stopped or behind another one of its placement takes no
// place, however long it waits; it has one when it is its turn.
func TestARunThatDoesNothingTakesNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, 1)
		host := s.newEngine(fleet.Config{Name: "host"})
		s.waitFor("first", 22*time.Minute)
		s.join("other", 1, 0)
		s.feed.of("first", stages.WaitStarted)
		s.create(host, fleet.RunSpec{Name: "behind", Placement: "first", Strategy: allAtOnce(1)})
		s.declare(host, smallPlacement("q"))
		s.create(host, fleet.RunSpec{Name: "held", Placement: "q", Hold: true, Strategy: allAtOnce(1)})
		s.waitFor("stopped", 30*time.Minute)
		s.join("one", 1, 0)
		s.feed.of("stopped", stages.WaitStarted)
		ask := func(run string, verb stages.Verb) {
			if err := host.Command(t.Context(), run, stages.Command{Verb: verb}); err != nil {
				t.Fatal(err)
			}
		}
		ask("stopped", stages.Stop)
		s.feed.of("stopped", stages.RunStopped)
		s.waitFor("last", time.Minute)
		if end := s.feed.end("last"); time.Since(end.Time) > time.Second {
			t.Error("the last run was not driven at once")
		}
		if took := s.taken("behind"); len(took) > 0 {
			t.Errorf("a run whose turn has not come was taken by %v", took)
		}
		ask("held", stages.Start)
		s.feed.end("held")
		if began, ended := s.feed.end("first").Time, s.feed.end("behind").Time; ended.Sub(began) > 5*time.Second {
			t.Errorf("the next run of the placement ended %v after the one before", ended.Sub(began))
		}
		ask("stopped", stages.Start)
		s.feed.end("stopped")
		s.stop()
		oneAtATime(t, s.feed.events)
		s.tidy()
	})
}

// The end of a run whose engine died at that moment is seen to by an engine
// that is at its limit, too.
func TestAnEndIsSeenToWithoutAPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, 1)
		s.waitFor("ending", time.Minute)
		s.join("A", 0, 0)
		s.feed.of("ending", stages.WaitStarted)
		s.waitFor("long", time.Hour)
		s.feed.of("long", stages.WaitStarted)
		s.feed.end("ending")
		s.kill("A")
		if l := s.leases()["ending"]; l.Holder != "A" || l.State != stages.Completed {
			t.Fatalf("the end was seen to already: %+v", l)
		}
		s.waitFor("full", time.Hour)
		s.join("B", 1, 0)
		time.Sleep(20 * time.Second)
		if l, there := s.leases()["ending"]; there {
			t.Errorf("nobody has seen to the end: %+v", l)
		}
		s.stop()
	})
}

// Whatever time a dead engine's clock left in a lease, the run is taken over
// when its record has stood still for a lease and the skew.
func TestALeaseFarInTheFutureIsTakenOver(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{-time.Hour, time.Hour, 1000 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			s := newSharing(t, 1)
			s.waitFor("r", 10*time.Minute)
			s.join("wrong", 0, ahead)
			s.feed.of("r", stages.WaitStarted)
			s.join("right", 0, 0)
			time.Sleep(time.Minute)
			s.kill("wrong")
			at := time.Now()
			if ahead > 0 {
				s.movedBy([]string{"r"}, "wrong", at, 18*time.Second)
			}
			s.feed.end("r")
			s.stop()
			oneAtATime(t, s.feed.events)
		})
	}
}

// Engines whose clocks differ by much more than is allowed do not take runs
// from each other: one that is seen to save keeps its run.
func TestClocksThatDisagreeDoNotMakeRunsWander(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, 1)
		for i, name := range []string{"late", "right", "early"} {
			s.join(name, 0, time.Duration(i-1)*time.Hour)
		}
		settle()
		var runs []string
		for i := range 6 {
			runs = append(runs, fmt.Sprintf("p%02d", i))
			s.waitFor(runs[i], 5*time.Minute)
		}
		for _, run := range runs {
			s.feed.end(run)
			if by := slices.Compact(s.taken(run)); len(by) != 1 {
				t.Errorf("run %s went from hand to hand: %v", run, by)
			}
		}
		s.stop()
		onceAnAttempt(t, s.rec.all())
	})
}

// Places are kept by runs that have to be taken again because others wanted
// them too, so that no engine holds a run that it does not drive.
func TestEnginesThatWantTheSameRunsShareThemAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, 1)
		for i := range 6 {
			s.waitFor(fmt.Sprintf("p%02d", i), time.Minute)
		}
		for _, name := range []string{"one", "two", "three"} {
			s.join(name, 2, 0)
		}
		time.Sleep(5 * time.Second)
		for name, runs := range s.holders() {
			if len(runs) != 2 {
				t.Errorf("%s has not two of six: %v", name, runs)
			}
		}
		s.stop()
		oneAtATime(t, s.feed.events)
	})
}
