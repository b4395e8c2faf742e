package fleet_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// sharing holds engines on one store, each with its own clock.
type sharing struct {
	*crowd
	rec *recorder
}

func newSharing(t *testing.T, clusters int) *sharing {
	w := newSmallEnv(t, clusters)
	return &sharing{newCrowd(t, w), newRecorder(w.fleet)}
}

// join runs an engine whose clock is ahead by a given time. Each of its calls takes a millisecond.
func (s *sharing) join(name string, ahead time.Duration) {
	s.joinSlow(name, ahead, func(faulty.Call) time.Duration { return time.Millisecond })
}

// joinSlow runs an engine whose calls take as long as delay returns.
func (s *sharing) joinSlow(name string, ahead time.Duration, delay func(faulty.Call) time.Duration) {
	s.plans[name] = faulty.NewPlan(func(c faulty.Call) faulty.Fault { return faulty.Fault{Delay: delay(c)} })
	s.stops[name] = running(s.t, s.newEngine(fleet.Config{
		Name: name, Store: s.plans[name].Store(&clockStore{s.store, ahead}),
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

// taken returns the engines that took a run, in order.
func (s *sharing) taken(run string) (by []string) {
	s.feed.read()
	for _, ev := range s.feed.events {
		if ev.Run == run && ev.Type == stages.RunTaken {
			by = append(by, ev.By)
		}
	}
	return by
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

// Three engines share thirty runs, and one of them dies. All runs end, and no cluster is changed
// twice. The test uses equal clocks, and clocks that differ by the permitted skew.
func TestThreeEnginesBringThirtyRunsToTheirEnd(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{0, time.Second} {
		t.Run(fmt.Sprint(skew), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSharing(t, 3)
				for i := range 30 {
					s.waitFor(fmt.Sprintf("p%02d", i), time.Duration(2+i%3)*20*time.Second)
				}
				for i, name := range []string{"one", "two", "three"} {
					s.join(name, time.Duration(i-1)*skew)
				}
				time.Sleep(20 * time.Second)
				had, at := s.holders(), time.Now()
				for _, name := range []string{"one", "two", "three"} {
					if len(had[name]) == 0 {
						t.Errorf("%s has no run: %v", name, had)
					}
				}
				s.kill("one")
				s.movedBy(had["one"], "one, which died", at, 15*time.Second+2*time.Second+time.Second)
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

// The first engine that reaches a run takes it and keeps it. Two engines are each slow to read
// every other new run, so each carries out the runs that the other one is slow to read.
func TestARunStaysWithTheEngineThatComesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, 1)
		first := map[string][]string{}
		for i, name := range []string{"even", "odd"} {
			var seen sync.Map
			s.joinSlow(name, 0, func(c faulty.Call) time.Duration {
				n, ok := strings.CutPrefix(c.Key, "run/p")
				if !ok || c.Op != "get" || int(n[1]-'0')%2 == i {
					return time.Millisecond
				}
				if _, again := seen.LoadOrStore(n, true); again {
					return time.Millisecond
				}
				return time.Second
			})
		}
		settle()
		for i := range 10 {
			run, name := fmt.Sprintf("p%02d", i), []string{"even", "odd"}[i%2]
			s.waitFor(run, time.Minute)
			time.Sleep(5 * time.Second)
			first[name] = append(first[name], run)
		}
		if d := cmp.Diff(first, s.holders()); d != "" {
			t.Errorf("who has which run (-want +got)\n%s", d)
		}
		for name, runs := range first {
			for _, run := range runs {
				s.feed.end(run)
				if by := s.taken(run); !slices.Equal(by, []string{name}) {
					t.Errorf("run %s was taken by %v", run, by)
				}
			}
		}
		s.stop()
		oneAtATime(t, s.feed.events)
		onceAnAttempt(t, s.rec.all())
	})
}

// An engine takes one run after the other, so that an engine that joins it still finds some. Here
// each call of the first engine takes a second, and taking a run needs about five calls. If it took
// all twelve at once, they would all be its own long before the second engine comes.
func TestAnEngineTakesOneRunAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, 1)
		for i := range 12 {
			s.waitFor(fmt.Sprintf("p%02d", i), 10*time.Minute)
		}
		s.joinSlow("slow", 0, func(faulty.Call) time.Duration { return time.Second })
		time.Sleep(20 * time.Second)
		if n := len(s.holders()["slow"]); n < 1 || n > 6 {
			t.Errorf("an engine that takes some seconds for a run has %d of 12 after 20", n)
		}
		s.join("quick", 0)
		time.Sleep(40 * time.Second)
		if had := s.holders(); len(had["quick"]) < 6 || len(had["slow"])+len(had["quick"]) != 12 {
			t.Errorf("the second engine has not taken the rest: %v", had)
		}
		s.stop()
	})
}

// If the engine of a run dies at the run's end, another engine records the end. Until then the run
// is among the leases.
func TestAnotherEngineRecordsTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, 1)
		s.waitFor("ending", time.Minute)
		s.join("A", 0)
		s.feed.end("ending")
		s.kill("A")
		if l := s.leases()["ending"]; l.Holder != "A" || l.State != stages.Completed {
			t.Fatalf("the end was seen to already: %+v", l)
		}
		s.join("B", 0)
		time.Sleep(20 * time.Second)
		if l, there := s.leases()["ending"]; there {
			t.Errorf("no engine has seen to the end: %+v", l)
		}
		s.stop()
		s.tidy()
	})
}

// Whatever time a dead engine's clock left in a lease, the run is taken over after its record has
// not changed for a lease and the skew.
func TestALeaseFarInTheFutureIsTakenOver(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{-time.Hour, time.Hour, 1000 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			s := newSharing(t, 1)
			s.waitFor("r", 10*time.Minute)
			s.join("wrong", ahead)
			s.feed.of("r", stages.WaitStarted)
			s.join("right", 0)
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

// Engines whose clocks differ by much more than permitted do not take runs from each other: an
// engine that is seen to save keeps its run.
func TestClocksThatDisagreeDoNotMakeRunsWander(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t, 1)
		for i, name := range []string{"late", "right", "early"} {
			s.join(name, time.Duration(i-1)*time.Hour)
		}
		settle()
		var runs []string
		for i := range 6 {
			runs = append(runs, fmt.Sprintf("p%02d", i))
			s.waitFor(runs[i], 5*time.Minute)
		}
		for _, run := range runs {
			s.feed.end(run)
			if by := slices.Compact(s.taken(run)); len(by) > 3 { // it may move to an engine that drives fewer
				t.Errorf("run %s went from hand to hand: %v", run, by)
			}
		}
		s.stop()
		onceAnAttempt(t, s.rec.all())
	})
}
