package fleet_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// skew writes the lease of a run as if the clock of its holder were wrong.
func (w *engineEnv) skew(run string, until time.Time) {
	w.t.Helper()
	for {
		err := fleet.SkewLease(w.t.Context(), w.store, run, until)
		if err == nil {
			return
		}
		if !errors.Is(err, backend.ErrConflict) {
			w.t.Fatal(err)
		}
	}
}

// Threat T15: a lease that seems to have ended long ago is taken from a living engine. This is
// safe: nothing is done twice, and one of the engines lets go.
func TestT15LeaseInThePast(t *testing.T) {
	t.Parallel()
	for at := range 8 {
		synctest.Test(t, func(t *testing.T) {
			w := newSmallEnv(t, 6)
			for i := range 6 {
				w.fleet.SetDelay(fmt.Sprintf("c%02d", i), func() time.Duration { return 100 * time.Millisecond })
			}
			rec, feed := newRecorder(w.fleet), w.follow(true)
			defer feed.stop()
			a := w.newEngine(fleet.Config{Name: "A", Dialer: rec.dialer("A")})
			b := w.newEngine(fleet.Config{Name: "B", Dialer: rec.dialer("B")})
			w.declare(a, smallPlacement("p"))
			w.create(a, fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(2)})
			stopA := running(t, a)
			time.Sleep(time.Duration(50+at*300) * time.Millisecond)
			w.skew("r", time.Now().Add(-time.Hour))
			stopB := running(t, b)
			feed.end("r")
			settle()
			stopA()
			stopB()
			feed.read()
			oneAtATime(t, feed.events)
			w.wantStates("r", stages.Completed, stages.Completed, stages.Completed, stages.Completed, stages.Completed, stages.Completed)
			appliedOnce(t, rec.all())
			w.tidy()
		})
	}
}

// appliedOnce checks that no object was changed twice.
func appliedOnce(t *testing.T, changes []change) {
	t.Helper()
	seen := map[string]change{}
	for _, c := range changes {
		if first, twice := seen[c.Cluster+c.Object]; twice && c.Op == "write" {
			t.Errorf("%s, and before %s", c, first)
		}
		if c.Op == "write" {
			seen[c.Cluster+c.Object] = c
		}
	}
}

// A dead engine's lease that ends in an hour delays other engines. The engine itself continues at
// once when it starts again.
func TestT15LeaseInTheFuture(t *testing.T) {
	t.Parallel()
	for _, again := range []string{"A", "B"} {
		t.Run(again, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newSmallEnv(t, 2)
				c := newCrowd(t, w)
				defer c.feed.stop()
				host := w.newEngine(fleet.Config{})
				w.declare(host, smallPlacement("p"))
				w.create(host, fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(2, stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Minute}})})
				c.start("A")
				c.feed.of("r", stages.WaitStarted)
				c.kill("A")
				at := time.Now()
				w.skew("r", at.Add(time.Hour))
				c.start(again)
				c.movedBy([]string{"r"}, "the engine that died", at, map[string]time.Duration{"A": time.Second, "B": time.Hour + 5*time.Second}[again])
				c.feed.end("r")
				c.end(again)
				c.feed.read()
				oneAtATime(t, c.feed.events)
			})
		})
	}
}

// A timed wait ends on time, whichever engines were running in between.
func TestT15WaitSurvivesRestart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ dead, back, want time.Duration }{
		"back in time": {4 * time.Minute, 7 * time.Minute, 10 * time.Minute},
		"back late":    {4 * time.Minute, 15 * time.Minute, 15 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newSmallEnv(t, 2)
				c := newCrowd(t, w)
				defer c.feed.stop()
				host := w.newEngine(fleet.Config{})
				w.declare(host, smallPlacement("p"))
				w.create(host, fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(2, stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: 10 * time.Minute}})})
				c.start("A")
				began := c.feed.of("r", stages.WaitStarted).Time
				time.Sleep(time.Until(began.Add(tc.dead)))
				c.kill("A")
				time.Sleep(time.Until(began.Add(tc.back)))
				c.start("B")
				ended := c.feed.of("r", stages.WaitEnded).Time.Sub(began)
				if ended < tc.want || ended > tc.want+time.Second {
					t.Errorf("the wait ended after %v, want %v", ended, tc.want)
				}
				c.feed.end("r")
				c.end("B")
			})
		})
	}
}

// If a cluster becomes unhealthy while no engine is running, it is not done when its soak would
// have ended; the soak starts again.
func TestUnobservedSoakStartsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 1)
		feed := w.follow(true)
		defer feed.stop()
		one := w.newEngine(fleet.Config{Name: "one", Prober: probed})
		strategy := allAtOnce(1)
		strategy.MinHealthy.Duration = 5 * time.Minute
		w.declare(one, smallPlacement("p"))
		w.create(one, fleet.RunSpec{Name: "r", Placement: "p", Strategy: strategy})
		stop := running(t, one)
		feed.of("r", stages.ClusterApplied)
		w.makeReady("c00", true)
		time.Sleep(time.Minute)
		stop()
		w.makeReady("c00", false)
		time.Sleep(time.Hour)
		defer running(t, w.newEngine(fleet.Config{Name: "two", Prober: probed}))()
		feed.of("r", stages.ClusterUnhealthy)
		time.Sleep(time.Hour)
		w.wantStates("r", stages.Running)
		at := time.Now()
		w.makeReady("c00", true)
		if d := feed.end("r").Time.Sub(at.Truncate(time.Millisecond)); d < 5*time.Minute || d > 5*time.Minute+time.Second {
			t.Errorf("done %v after it became healthy, want 5m", d)
		}
	})
}
