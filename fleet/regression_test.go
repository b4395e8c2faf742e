package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// within waits for the end of a run and checks what it came to, and that it did
// not take longer than d.
func (w *world) within(d time.Duration, run string, want stages.State) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	defer cancel()
	s, err := w.newEngine(fleet.Config{Name: "observer"}).Wait(ctx, run)
	if err != nil || s.Run.State != want {
		w.t.Errorf("run %s is %s (%s) after at most %v, want %s: %v", run, s.Run.State, s.Run.Reason, d, want, err)
	}
}

// tellIn says in which case a test failed.
func tellIn(t *testing.T, format string, args ...any) {
	if t.Failed() {
		t.Logf("in: "+format, args...)
	}
}

// happened counts the events of a run of one type.
func (w *world) happened(run string, what stages.EventType) (n int) {
	w.t.Helper()
	for _, ev := range w.past(1000) {
		n += count(ev.Run == run && ev.Type == what)
	}
	return n
}

// calm keeps a test from hanging where an engine spins: from the nth call that
// matches on, each takes a minute.
func calm(n int64, calls *atomic.Int64, match func(faulty.Call) bool) faulty.Rule {
	return func(c faulty.Call) faulty.Fault {
		if !match(c) || calls.Add(1) < n {
			return faulty.Fault{}
		}
		return faulty.Fault{Delay: time.Minute}
	}
}

func anyCall(faulty.Call) bool { return true }

// refusing makes a run of ClusterUpdate fail, which can be started again.
func (w *world) refusing(cluster string, refuses bool) {
	if !refuses {
		w.fleet.Cluster(cluster).Refuse(nil)
		return
	}
	w.fleet.Cluster(cluster).Refuse(func(o *unstructured.Unstructured) error {
		if o.GetKind() == "Setting" {
			return errors.New("not admitted")
		}
		return nil
	})
}

func startable() stages.Strategy {
	s := allAtOnce(1)
	s.Profile = stages.ClusterUpdate
	return s
}

// A save of a run that was reported as failed, and lands only after the run was
// read again, is taken in: nothing that it said is lost or told twice.
func TestSaveThatLandsLate(t *testing.T) {
	t.Parallel()
	for n := 1; n < 14; n++ {
		for calls := 1 + n%apart(3); calls < 9; calls += apart(3) {
			synctest.Test(t, func(t *testing.T) {
				defer tellIn(t, "save %d lands before call %d after it", n, calls)
				w := smallWorld(t, 4)
				for i := range 4 {
					w.fleet.SetDelay(fmt.Sprintf("c%02d", i), func() time.Duration { return time.Duration(5+7*i) * time.Millisecond })
				}
				puts := 0
				plan := faulty.NewPlan(func(c faulty.Call) faulty.Fault {
					if c.Op != "put" || c.Key != "run/r" {
						return faulty.Fault{}
					}
					if puts++; puts != n {
						return faulty.Fault{}
					}
					return faulty.LateCalls(nil, calls)
				})
				h := w.newEngine(fleet.Config{Name: "host"})
				w.declare(h, smallPlacement("web"))
				w.create(h, fleet.RunSpec{Name: "r", Placement: "web", Strategy: allAtOnce(4)})
				defer running(t, w.newEngine(fleet.Config{Name: "one", Store: plan.Store(w.store)}))()
				w.within(time.Minute, "r", stages.Completed)
				settle()
				w.tidy()
				if done := w.happened("r", stages.ClusterCompleted); done != 4 || w.happened("r", stages.RunCompleted) != 1 {
					t.Errorf("%d clusters completed in the journal, want 4", done)
				}
			})
		}
	}
}

// A command of a newer format is left for an engine that knows it: a run that
// has ended is not taken for it again and again.
func TestNewerCommandDoesNotKeepARunBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := smallWorld(t, 1)
		e := w.newEngine(fleet.Config{Name: "one"})
		w.declare(e, smallPlacement("web"))
		w.create(e, fleet.RunSpec{Name: "r", Placement: "web", Strategy: allAtOnce(1)})
		stop := running(t, e)
		w.within(time.Minute, "r", stages.Completed)
		stop()
		before := must(e.Status(t.Context(), "r"))(t)
		if err := e.Command(t.Context(), "r", stages.Command{ID: "x", Verb: stages.Start}); err != nil {
			t.Fatal(err)
		}
		key := "command/" + before.Run.UID + "/x"
		edit(t, w.store, key, newerFormat)
		var calls atomic.Int64
		plan := faulty.NewPlan(calm(5000, &calls, anyCall))
		defer running(t, w.newEngine(fleet.Config{Name: "two", Store: plan.Store(w.store)}))()
		time.Sleep(10 * time.Hour)
		after := must(e.Status(t.Context(), "r"))(t)
		if taken := after.Epoch - before.Epoch; taken > 3 || calls.Load() > 1000 {
			t.Errorf("in ten hours the run was taken %d times with %d calls to the store", taken, calls.Load())
		}
		if _, err := w.store.Get(t.Context(), key); err != nil {
			t.Errorf("the command is gone: %v", err)
		}
	})
}

// spans checks that no two runs are active at the same time, by their events.
func (w *world) spans(runs ...string) {
	w.t.Helper()
	active := ""
	for _, ev := range w.past(1000) {
		switch ev.Type {
		case stages.RunStarted, stages.RunResumed:
			if active != "" && active != ev.Run {
				w.t.Errorf("%s, while run %s is active", line(ev), active)
			}
			active = ev.Run
		case stages.RunCompleted, stages.RunFailed, stages.RunAborted, stages.RunSuperseded:
			if active == ev.Run {
				active = ""
			}
		}
	}
}

// A failed run that is started again has the placement from then on, also while
// this is not saved yet: a run that is created meanwhile waits.
func TestRestartAndNewRunDoNotOverlap(t *testing.T) {
	t.Parallel()
	for slow := 1; slow <= 4; slow++ {
		synctest.Test(t, func(t *testing.T) {
			defer tellIn(t, "save %d is slow", slow)
			w := smallWorld(t, 2)
			h := w.newEngine(fleet.Config{Name: "host"})
			w.declare(h, smallPlacement("web"))
			w.refusing("c00", true)
			w.create(h, fleet.RunSpec{Name: "a", Placement: "web", Strategy: startable()})
			stop := running(t, h)
			w.within(time.Minute, "a", stages.Failed)
			stop()
			w.refusing("c00", false)
			for _, name := range []string{"c00", "c01"} {
				w.fleet.SetDelay(name, func() time.Duration { return 300 * time.Millisecond })
			}
			saving, puts := make(chan struct{}), 0
			plan := faulty.NewPlan(faulty.On(func(c faulty.Call) bool {
				if c.Op != "put" || c.Key != "run/a" {
					return false
				}
				if puts++; puts == slow {
					close(saving)
				}
				return puts == slow
			}, faulty.Fault{Delay: 100 * time.Millisecond}))
			if err := h.Command(t.Context(), "a", stages.Command{ID: "again", Verb: stages.Start}); err != nil {
				t.Fatal(err)
			}
			defer running(t, w.newEngine(fleet.Config{Name: "one", Store: plan.Store(w.store)}))()
			<-saving
			w.create(h, fleet.RunSpec{Name: "b", Placement: "web", Strategy: allAtOnce(1)})
			defer running(t, w.newEngine(fleet.Config{Name: "two"}))()
			settle()
			w.within(time.Hour, "b", stages.Completed)
			settle()
			if w.happened("a", stages.CommandRefused) == 0 { // b was not first
				w.within(time.Hour, "a", stages.Completed)
			} else if slow > 1 {
				t.Error("the start was refused although the run had the placement")
			}
			w.spans("a", "b")
			settle()
			w.tidy()
		})
	}
}

// A cluster that gave its slot away because nothing was sent to it is not worked
// on while another one has the slot.
func TestNoWorkWithoutASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := smallWorld(t, 2)
		plan := faulty.NewPlan(
			faulty.On(func(c faulty.Call) bool { return c.Op == "put" && c.Key == "run/a" }, faulty.Fault{Delay: 400 * time.Millisecond}))
		rec, dials := newRecorder(w.fleet), 0
		d := backend.DialerFunc(func(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
			if c.Name == "c00" {
				if dials++; dials == 1 {
					return nil, errors.New("no route to host")
				}
			}
			return rec.dialer("one").Dial(ctx, c)
		})
		w.fleet.SetDelay("c00", func() time.Duration { return 20 * time.Millisecond })
		w.fleet.SetDelay("c01", func() time.Duration { return 60 * time.Millisecond })
		h := w.newEngine(fleet.Config{Name: "host"})
		w.declare(h, smallPlacement("web"))
		w.create(h, fleet.RunSpec{Name: "a", Placement: "web", Strategy: allAtOnce(1)})
		defer running(t, w.newEngine(fleet.Config{Name: "one", Store: plan.Store(w.store), Dialer: d}))()
		w.within(10*time.Minute, "a", stages.Completed)
		var order []string
		for _, c := range rec.all() {
			if n := len(order); n == 0 || order[n-1] != c.Cluster {
				order = append(order, c.Cluster)
			}
		}
		if got := strings.Join(order, " "); got != "c01 c00" {
			t.Errorf("the clusters were changed in the order %s, want c01 and then c00: %v", got, rec.all())
		}
		if w.happened("a", stages.ClusterPending) == 0 {
			t.Error("c00 did not give its slot away: the test does not test enough")
		}
	})
}

// A command to a run that has ended is not lost although the store fails when
// the run is looked for.
func TestStartSurvivesAFailedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := smallWorld(t, 1)
		w.refusing("c00", true)
		var fail atomic.Int32
		plan := faulty.NewPlan(faulty.On(func(c faulty.Call) bool {
			return c.Op == "list" && c.Key == "run/" && fail.Add(-1) >= 0
		}, faulty.Before(nil)))
		h := w.newEngine(fleet.Config{Name: "host"})
		w.declare(h, smallPlacement("web"))
		w.create(h, fleet.RunSpec{Name: "a", Placement: "web", Strategy: startable()})
		defer running(t, w.newEngine(fleet.Config{Name: "one", Store: plan.Store(w.store)}))()
		w.within(time.Minute, "a", stages.Failed)
		w.refusing("c00", false)
		time.Sleep(time.Hour)
		fail.Store(3)
		if err := h.Command(t.Context(), "a", stages.Command{ID: "again", Verb: stages.Start}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.within(time.Minute, "a", stages.Completed)
		if fail.Load() >= 0 {
			t.Error("no list has failed: the test does not test enough")
		}
		w.tidy()
	})
}

// Commands that cannot be deleted are carried out once, and keep neither newer
// ones from being heard nor the engine busy.
func TestUndeletableCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := smallWorld(t, 1)
		var lists atomic.Int64
		command := func(c faulty.Call) bool { return strings.HasPrefix(c.Key, "command/") }
		plan := faulty.NewPlan(
			faulty.On(func(c faulty.Call) bool { return c.Op == "delete" && command(c) }, faulty.Before(backend.ErrPermanent)),
			calm(5000, &lists, func(c faulty.Call) bool { return c.Op == "list" && command(c) }))
		h := w.newEngine(fleet.Config{Name: "host"})
		w.declare(h, smallPlacement("web"))
		w.create(h, fleet.RunSpec{Name: "a", Placement: "web", Strategy: allAtOnce(1, stages.Task{Type: stages.Approval})})
		defer running(t, w.newEngine(fleet.Config{Name: "one", Store: plan.Store(w.store)}))()
		time.Sleep(time.Second)
		for i := range 40 {
			verb := []stages.Verb{stages.Stop, stages.Start}[i%2]
			if err := h.Command(t.Context(), "a", stages.Command{ID: fmt.Sprint("c", i), Verb: verb}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			if got := w.happened("a", stages.RunStopped) + w.happened("a", stages.RunResumed); got != i+1 {
				t.Fatalf("after %d commands the run was stopped or resumed %d times", i+1, got)
			}
		}
		if err := h.Command(t.Context(), "a", stages.Command{ID: "abort", Verb: stages.Abort}); err != nil {
			t.Fatal(err)
		}
		w.within(10*time.Second, "a", stages.Aborted)
		time.Sleep(time.Hour)
		if n := lists.Load(); n > 500 {
			t.Errorf("the commands were read %d times", n)
		}
		if n := w.happened("a", stages.RunTaken); n > 50 {
			t.Errorf("the run was taken %d times", n)
		}
	})
}

// openConn is a connection that is counted while it is open.
type openConn struct {
	backend.ConnWatcher
	open *atomic.Int32
}

func (c *openConn) Close() error {
	c.open.Add(-1)
	return c.ConnWatcher.Close()
}

// Connections to clusters that are not used are closed within minutes; those of
// clusters that a run waits for stay, and others are opened again when needed.
func TestIdleConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := smallWorld(t, 50)
		var open, dials atomic.Int32
		d := backend.DialerFunc(func(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
			conn, err := w.fleet.Dial(ctx, c)
			if err != nil {
				return nil, err
			}
			open.Add(1)
			dials.Add(1)
			return &openConn{conn.(backend.ConnWatcher), &open}, nil
		})
		e := w.newEngine(fleet.Config{Name: "one", Dialer: d, Prober: probed})
		w.declare(e, smallPlacement("web"))
		stop := running(t, e)
		defer stop()
		for i, run := range []string{"a", "b"} {
			w.now(plain(run))
			w.create(e, fleet.RunSpec{Name: run, Placement: "web", Strategy: allAtOnce(50)})
			time.Sleep(time.Hour) // of a, nothing is ready
			if i == 0 && (open.Load() != 50 || dials.Load() != 50) {
				t.Errorf("%d connections are open after %d dials while the run waits, want 50", open.Load(), dials.Load())
			}
			for c := range w.fleet.Clusters(t.Context()) {
				w.makeReady(c.Name, true)
			}
			w.within(time.Minute, run, stages.Completed)
			time.Sleep(7 * time.Minute)
			if n := open.Load(); n != 0 {
				t.Errorf("%d connections are open minutes after run %s", n, run)
			}
		}
		if n := dials.Load(); n != 100 {
			t.Errorf("%d dials for two runs of 50 clusters, want 100", n)
		}
	})
}
