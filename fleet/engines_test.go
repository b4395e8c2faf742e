package fleet_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// newSmallEnv has n clusters and one object for each.
func newSmallEnv(t *testing.T, n int) *engineEnv {
	w := &engineEnv{t: t, store: memory.NewStore(), fleet: memory.NewFleet()}
	w.source = memory.NewSource(plain("v1"))
	for i := range n {
		w.fleet.Add(placement.Cluster{Name: fmt.Sprintf("c%02d", i), Labels: map[string]string{"n": fmt.Sprint(i)}})
	}
	return w
}

// plain is an object without a namespace.
func plain(value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Setting", "metadata": map[string]any{"name": "app"},
		"spec": map[string]any{"value": value},
	}}
}

func smallPlacement(name string) fleet.Placement {
	return fleet.Placement{Name: name, Selectors: []snapshot.Selector{{Group: "example.com", Version: "v1", Kind: "Setting", Name: "app"}}, AllowCoOwnership: true}
}

// allAtOnce is a strategy of one stage.
func allAtOnce(n int, after ...stages.Task) stages.Strategy {
	most := intstr.FromInt32(int32(n))
	return stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: &most, After: after}}}
}

func (w *engineEnv) create(e *fleet.Engine, spec fleet.RunSpec) {
	w.t.Helper()
	if _, err := e.CreateRun(w.t.Context(), spec); err != nil {
		w.t.Fatal(err)
	}
}

func (w *engineEnv) declare(e *fleet.Engine, p fleet.Placement) {
	w.t.Helper()
	if err := e.PutPlacement(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
}

// wait waits for the end of a run.
func (w *engineEnv) wait(run string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if _, err := w.newEngine(fleet.Config{Name: "observer"}).Run(run).Wait(ctx); err != nil {
		w.t.Fatal(err)
	}
}

// fencedTrial is the scenario of an engine that is paused and wakes up late.
type fencedTrial struct {
	// At is the call that pauses engine A.
	At int
	// Slow makes members slow, so that A wakes up while B is working.
	Slow bool
	// Wake is the time after the pause when A wakes up; 0 means after B has finished.
	Wake time.Duration
}

// fencedResult reports which situations a trial produced.
type fencedResult struct{ paused, between, nothingLeft bool }

// A paused leader that wakes up after its lease writes nothing, neither to the store nor to a
// member that the next leader has reached. It lets the run go. Five hundred trials over five seeds,
// 30 with the race detector.
func TestT16EngineFenced(t *testing.T) {
	t.Parallel()
	trials := 100
	switch {
	case soak():
		trials = 4000
	case underRace:
		trials = 6
	}
	var mu sync.Mutex
	var paused, between, nothingLeft int
	t.Run("trials", func(t *testing.T) {
		for seed := range uint64(5) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(16, seed))
				for range trials {
					f := fencedTrial{At: 1 + r.IntN(70), Slow: r.IntN(3) == 0}
					if f.Slow {
						f.Wake = 17*time.Second + time.Duration(r.IntN(3000))*time.Millisecond
					}
					var got fencedResult
					synctest.Test(t, func(t *testing.T) { got = f.run(t) })
					if t.Failed() {
						t.Fatalf("in %+v", f)
					}
					mu.Lock()
					paused += count(got.paused)
					between += count(got.between)
					nothingLeft += count(got.nothingLeft)
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("A was paused as the leader %d times and woke up before B had finished %d times; B found everything applied %d times", paused, between, nothingLeft)
	if paused < 2*trials || between < trials/10 || nothingLeft < trials/5 {
		t.Error("the test does not test enough")
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (f fencedTrial) run(t *testing.T) (result fencedResult) {
	w := newSmallEnv(t, 3)
	if f.Slow {
		for i := range 3 {
			w.fleet.SetDelay(fmt.Sprintf("c%02d", i), func() time.Duration { return 100 * time.Millisecond })
		}
	}
	rec, p := newRecorder(w.fleet), newPause(f.At)
	a := w.newEngine(fleet.Config{Name: "A", Store: &pausedStore{w.store, p}, Dialer: p.dialer(rec.dialer("A"))})
	b := w.newEngine(fleet.Config{Name: "B", Dialer: rec.dialer("B")})
	w.declare(b, smallPlacement("p"))
	w.create(b, fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(2)})
	stopA := running(t, a)
	select {
	case <-p.held:
	case <-time.After(14 * time.Second): // well within the lease of a run that is done
	}
	stopB := running(t, b)
	if f.Wake > 0 {
		time.Sleep(f.Wake)
	} else {
		w.wait("r")
		settle()
	}
	before := len(rec.all())
	ended := w.outcome("r")["state"] == stages.Completed
	p.wake()
	w.wait("r")
	settle()
	stopA()
	stopB()
	f.check(w, rec, p, w.past(1000), &result)
	if ended && result.paused && len(rec.all()) != before {
		t.Errorf("A changed a member after B had finished: %v", rec.all()[before:])
	}
	result.between = result.paused && !ended
	return result
}

// check searches for writes of A after B had taken over.
func (f fencedTrial) check(w *engineEnv, rec *recorder, p *pause, events []stages.Event, result *fencedResult) {
	t := w.t
	epochs := map[string]int64{}
	for _, ev := range events {
		if ev.Type == stages.RunTaken {
			if epochs["A"] > 0 && epochs["B"] > 0 {
				t.Errorf("taken again: %s", line(ev))
			}
			epochs[ev.By] = ev.Epoch
		}
	}
	result.paused = epochs["A"] > 0 && epochs["B"] > 0
	writes := 0
	for _, c := range rec.all() {
		fenced := c.At.Epoch > epochs["A"] && c.Op != "ledger" || c.Op == "ledger" && c.Was.Epoch > epochs["A"]
		if c.By == "A" && epochs["A"] > 0 && fenced {
			t.Errorf("A is at epoch %d and came through: %s", epochs["A"], c)
		}
		if c.By == "B" && c.Op == "write" {
			writes++
		}
	}
	result.nothingLeft = result.paused && writes == 0
	ownPages := func(op string) bool { // pages of a refused commit, which have unique keys and which no record names, and A's own session
		return slices.ContainsFunc([]string{"put engine/", "delete engine/", "delete inflight/", "delete journal/", "delete bindings/"}, func(prefix string) bool { return strings.HasPrefix(op, prefix) })
	}
	for _, late := range p.late {
		if result.paused && !ownPages(late) {
			t.Errorf("the store accepted of A, which was fenced: %s", late)
		}
	}
	for i := range 3 {
		if got := w.fleet.Cluster(fmt.Sprintf("c%02d", i)).Len(); got != 5 { // three namespaces, the ledger, the object
			t.Errorf("cluster %d has %d objects", i, got)
		}
	}
	if o := w.outcome("r"); o["state"] != stages.Completed || o["holder"] != "" {
		t.Errorf("the run is %v, held by %q", o["state"], o["holder"])
	}
	w.tidy()
}

// crowd is several engines on one store, each with its own plan of faults.
type crowd struct {
	*engineEnv
	feed  *feed
	plans map[string]*faulty.Plan
	stops map[string]func()
}

func newCrowd(t *testing.T, w *engineEnv) *crowd {
	return &crowd{engineEnv: w, feed: w.follow(true), plans: map[string]*faulty.Plan{}, stops: map[string]func(){}}
}

// start runs an engine whose every call takes a millisecond.
func (c *crowd) start(name string) {
	slow := func(faulty.Call) faulty.Fault { return faulty.Fault{Delay: time.Millisecond} }
	c.plans[name] = faulty.NewPlan(slow)
	c.stops[name] = running(c.t, c.newEngine(fleet.Config{
		Name: name, Store: c.plans[name].Store(c.store), Dialer: c.plans[name].Dialer(c.fleet),
	}))
}

// kill ends an engine without a clean shutdown.
func (c *crowd) kill(name string) {
	c.plans[name].Crash()
	c.stops[name]()
	delete(c.stops, name)
}

// end lets an engine finish.
func (c *crowd) end(name string) {
	c.stops[name]()
	delete(c.stops, name)
}

// holders returns the runs by the engine that drives them.
func (c *crowd) holders() map[string][]string {
	out := map[string][]string{}
	for _, run := range c.keys("run/") {
		o := c.outcome(strings.TrimPrefix(run, "run/"))
		out[o["holder"].(string)] = append(out[o["holder"].(string)], strings.TrimPrefix(run, "run/"))
	}
	return out
}

// movedBy checks that, within limit, another engine has taken the runs.
func (c *crowd) movedBy(runs []string, from string, since time.Time, limit time.Duration) {
	c.t.Helper()
	for _, run := range runs {
		ev := c.feed.await(fmt.Sprintf("run %s is taken from %s", run, from), func(ev stages.Event) bool {
			return ev.Run == run && ev.Type == stages.RunTaken && !ev.Time.Before(since.Truncate(time.Millisecond))
		})
		if after := ev.Time.Sub(since); after > limit {
			c.t.Errorf("run %s was taken by %s after %v, want at most %v", run, ev.By, after, limit)
		}
	}
}

// Engines divide the runs of a store among themselves. If an engine dies, other engines take its
// runs over. If it ends properly, they do so at once. If it starts again, it takes its runs itself.
func TestSeveralEnginesShareRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 4)
		c := newCrowd(t, w)
		defer c.feed.stop()
		host := w.newEngine(fleet.Config{Name: "host"})
		for i := range 12 {
			name := fmt.Sprintf("p%02d", i)
			w.declare(host, smallPlacement(name))
			w.create(host, fleet.RunSpec{Name: name, Placement: name, Strategy: allAtOnce(2, stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: 10 * time.Minute}})})
		}
		names := []string{"one", "two", "three"}
		for _, name := range names {
			c.start(name)
		}
		time.Sleep(5 * time.Second)
		had := c.holders()
		for _, name := range names {
			if len(had[name]) == 0 {
				t.Errorf("engine %s has nothing to do: %v", name, had)
			}
		}
		at := time.Now()
		c.kill("one")
		c.movedBy(had["one"], "one, which died", at, 15*time.Second+2*time.Second+time.Second)

		had, at = c.holders(), time.Now()
		c.end("two")
		c.movedBy(had["two"], "two, which ended", at, 1100*time.Millisecond)

		c.start("one")
		had, at = c.holders(), time.Now()
		if len(had["three"]) != 12 {
			t.Errorf("three does not drive everything: %v", had)
		}
		c.kill("three")
		c.start("three")
		c.movedBy(had["three"], "three, which started again", at, time.Second)

		for i := range 12 {
			c.feed.end(fmt.Sprintf("p%02d", i))
		}
		settle()
		for name := range c.stops {
			defer c.end(name)
		}
		c.feed.read()
		oneAtATime(t, c.feed.events)
		w.tidy()
		if left := c.holders(); len(left[""]) != 12 {
			t.Errorf("runs are held after their end: %v", left)
		}
	})
}

// Runs move to new engines, and away from engines that end, until each drives its share; then
// nothing moves any more.
func TestWorkSpreadsWhenEnginesComeAndGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 4)
		c := newCrowd(t, w)
		defer c.feed.stop()
		host := w.newEngine(fleet.Config{Name: "host"})
		for i := range 12 {
			name := fmt.Sprintf("p%02d", i)
			w.declare(host, smallPlacement(name))
			w.create(host, fleet.RunSpec{Name: name, Placement: name, Strategy: allAtOnce(2, stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: 15 * time.Minute}})})
		}
		spread := func(when string, want map[string]int) {
			t.Helper()
			time.Sleep(time.Minute)
			had := map[string]int{}
			for name, runs := range c.holders() {
				if name != "" || len(runs) > 0 {
					had[name] = len(runs)
				}
			}
			if !maps.Equal(had, want) {
				t.Errorf("%s: engines drive %v, want %v", when, had, want)
			}
		}
		taken := func() (n int) {
			c.feed.read()
			for _, event := range c.feed.events {
				if event.Type == stages.RunTaken {
					n++
				}
			}
			return n
		}
		c.start("one")
		spread("alone", map[string]int{"one": 12})
		if keys := w.keys("engine/"); !slices.Equal(keys, []string{"engine/one"}) {
			t.Errorf("the sessions are %q", keys)
		}
		c.start("two")
		spread("the second one came", map[string]int{"one": 6, "two": 6})
		c.start("three")
		spread("the third one came", map[string]int{"one": 4, "two": 4, "three": 4})
		before := taken()
		spread("later", map[string]int{"one": 4, "two": 4, "three": 4})
		if n := taken() - before; n > 0 {
			t.Errorf("%d runs moved although each had its part", n)
		}
		c.end("two")
		spread("the second one ended", map[string]int{"one": 6, "three": 6})
		c.kill("three")
		spread("the third one died", map[string]int{"one": 12})
		for i := range 12 {
			c.feed.end(fmt.Sprintf("p%02d", i))
		}
		settle()
		c.end("one")
		c.feed.read()
		oneAtATime(t, c.feed.events)
		w.tidy()
	})
}

// oneAtATime checks that epochs rise, and that each run ended once.
func oneAtATime(t *testing.T, events []stages.Event) {
	t.Helper()
	epochs, ends := map[string]int64{}, map[string]int{}
	for _, ev := range events {
		if ev.Type == stages.RunTaken {
			if ev.Epoch <= epochs[ev.Placement] {
				t.Errorf("placement %s: epoch %d after %d", ev.Placement, ev.Epoch, epochs[ev.Placement])
			}
			epochs[ev.Placement] = ev.Epoch
		}
		if slices.Contains(endings, ev.Type) {
			ends[ev.Run]++
		}
	}
	for run, n := range ends {
		if n != 1 {
			t.Errorf("run %s ended %d times", run, n)
		}
	}
}
