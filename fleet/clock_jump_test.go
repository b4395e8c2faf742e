package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// jumpy is a clock with a configurable error.
type jumpy struct{ wrong atomic.Int64 }

func (c *jumpy) now() time.Time { return time.Now().Round(0).Add(time.Duration(c.wrong.Load())) }

func (c *jumpy) jump(by time.Duration) { c.wrong.Store(int64(by)) }

// A clock that jumps back at any time does not shorten a timed wait, which ends when the clock
// reaches its end. A jump forward ends the wait at once. If a wait begins after a jump forward and
// the clock then returns, the wait lasts longer by the rest of the jump.
func TestAWaitWhileTheClockJumps(t *testing.T) {
	t.Parallel()
	const wait = 10 * time.Minute
	for name, tc := range map[string]struct {
		before, after time.Duration // the clock before the wait begins, and after two minutes of it
		most          time.Duration
	}{
		"right":                {0, 0, wait},
		"back":                 {0, -time.Hour, wait + time.Hour},
		"back from the future": {time.Hour, 0, wait + time.Hour},
		"forward":              {0, time.Hour, 2 * time.Minute},
		"forward a little":     {0, time.Minute, wait - time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newSmallEnv(t, 2)
				feed := w.follow(true)
				defer feed.stop()
				clock := &jumpy{}
				clock.jump(tc.before)
				e := w.newEngine(fleet.Config{Name: "one", Clock: clock.now})
				w.declare(e, smallPlacement("p"))
				w.create(e, fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(2, stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: wait}})})
				defer running(t, e)()
				started := feed.of("r", stages.WaitStarted)
				began := time.Now()
				time.Sleep(2 * time.Minute)
				clock.jump(tc.after)
				ended := feed.of("r", stages.WaitEnded)
				lasted := time.Since(began)
				if lasted < min(wait, tc.most)-time.Second || lasted > tc.most+10*time.Second {
					t.Errorf("the wait lasted %v, want %v", lasted, tc.most)
				}
				if ended.Time.Before(started.Until) {
					t.Errorf("it ended at %v, and was to last until %v", ended.Time, started.Until)
				}
				feed.end("r")
			})
		})
	}
}

// The clocks of two engines may jump at any time, and further than Config.Skew apart: nothing is
// applied twice, each run has one engine at a time, the time of a run does not go back, and every
// run ends after the clocks are right.
func TestEnginesWhoseClocksJump(t *testing.T) {
	t.Parallel()
	for seed := uint64(0); seed < 12; seed += uint64(apart(3)) {
		synctest.Test(t, func(t *testing.T) { jumpAround(t, rand.New(rand.NewPCG(seed, 15))) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func jumpAround(t *testing.T, r *rand.Rand) {
	w := newSmallEnv(t, 6)
	for i := range 6 {
		w.fleet.SetDelay(fmt.Sprintf("c%02d", i), func() time.Duration { return 300 * time.Millisecond })
	}
	rec, feed := newRecorder(w.fleet), w.follow(true)
	defer feed.stop()
	var clocks [2]jumpy
	var engines []*fleet.Engine
	for i := range clocks {
		name := fmt.Sprint("engine-", i)
		engines = append(engines, w.newEngine(fleet.Config{Name: name, Dialer: rec.dialer(name), Clock: clocks[i].now}))
		defer running(t, engines[i])()
	}
	w.declare(engines[0], smallPlacement("p"))
	strategy := allAtOnce(2, stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Minute}})
	strategy.MinHealthy.Duration = 5 * time.Second
	for i := range 4 {
		w.create(engines[i%2], fleet.RunSpec{Name: fmt.Sprint("r", i), Placement: "p", Strategy: strategy})
	}
	for range 30 {
		by := time.Duration(r.Int64N(int64(2*time.Minute))) - time.Minute
		clocks[r.IntN(2)].jump(by)
		time.Sleep(time.Duration(r.Int64N(int64(20 * time.Second))))
	}
	for i := range clocks {
		clocks[i].jump(0)
	}
	for i := range 4 {
		feed.end(fmt.Sprint("r", i))
	}
	settle()
	feed.read()
	appliedOnce(t, rec.all())
	last, epochs := map[string]time.Time{}, map[string]int64{}
	for _, ev := range feed.events {
		if ev.Type == stages.RunTaken {
			if ev.Epoch <= epochs[ev.Run] {
				t.Errorf("epoch %d after %d: %s", ev.Epoch, epochs[ev.Run], line(ev))
			}
			epochs[ev.Run] = ev.Epoch
		}
		if ev.Type == stages.RunTaken || ev.Type == stages.RunCreated || ev.Run == "" {
			continue // times by the clock of an engine
		}
		if ev.Time.Before(last[ev.Run]) {
			t.Errorf("the time of a run goes back from %v: %s", last[ev.Run], line(ev))
		}
		last[ev.Run] = ev.Time
	}
	w.tidy()
}

// The engine's clock decides about the end of a lease: if the clocks of all engines have the same
// error, an expired lease is taken at once.
func TestALeaseIsJudgedByTheEnginesClock(t *testing.T) {
	t.Parallel()
	for _, wrong := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			w := newSmallEnv(t, 2)
			feed := w.follow(true)
			defer feed.stop()
			clock := &jumpy{}
			clock.jump(wrong)
			alive := faulty.NewPlan(func(faulty.Call) faulty.Fault { return faulty.Fault{} })
			one := w.newEngine(fleet.Config{Name: "one", Clock: clock.now, Store: alive.Store(w.store)})
			w.declare(one, smallPlacement("p"))
			w.create(one, fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(2, stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: 2 * time.Hour}})})
			stop := running(t, one)
			feed.of("r", stages.WaitStarted)
			alive.Crash()
			stop()
			time.Sleep(30 * time.Second)
			began := time.Now()
			leases, err := w.newEngine(fleet.Config{Name: "three", Clock: clock.now}).Leases(t.Context())
			if err != nil || len(leases) != 1 || !leases[0].Overdue {
				t.Errorf("%+v, %v, want one that is overdue", leases, err)
			}
			defer running(t, w.newEngine(fleet.Config{Name: "two", Clock: clock.now}))()
			for w.leases()["r"].Holder != "two" {
				time.Sleep(100 * time.Millisecond)
			}
			if after := time.Since(began); after > time.Second {
				t.Errorf("the run was taken after %v", after)
			}
		})
	}
}
