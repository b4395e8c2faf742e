package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// newCapEnv has clusters for three placements, a, b and c. A run updates each of them with a share
// of cap "database".
func newCapEnv(t *testing.T, clusters int) *engineEnv {
	w := &engineEnv{t: t, store: memory.NewStore(), fleet: memory.NewFleet()}
	w.source = memory.NewSource(namespace("test-namespace"), configMap("test-cm", "value1"))
	for _, of := range []string{"a", "b", "c"} {
		for i := range clusters {
			w.fleet.Add(placement.Cluster{Name: fmt.Sprintf("%s%d", of, i), Labels: map[string]string{"of": of}})
		}
	}
	return w
}

func capPlacement(name string) fleet.Placement {
	return fleet.Placement{
		Name: name, Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "test-namespace"}},
		AllowCoOwnership: true,
		Policy:           placement.Policy{Required: []placement.Term{{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"of": name}}}}},
	}
}

// capRun is a run that updates ten clusters at once if the cap permits it.
func capRun(placement string, soak time.Duration) fleet.RunSpec {
	ten := intstr.FromInt32(10)
	return fleet.RunSpec{Name: "run-" + placement, Placement: placement, Strategy: stages.Strategy{
		Cap: "database", MinHealthy: metav1.Duration{Duration: soak},
		Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: &ten}},
	}}
}

// capGuard is a store that checks a cap: no record of a run has more clusters in flight than slots,
// and all runs together never exceed the limit.
type capGuard struct {
	backend.Store
	t     *testing.T
	limit int
	lock  chan struct{}
	looks *fleet.Engine
	peak  int
	// most is the maximum of clusters in flight of each run.
	most map[string]int
}

func newCapGuard(t *testing.T, s backend.Store, limit int) *capGuard {
	t.Helper()
	looks, err := fleet.New(fleet.Config{Store: s, Inventory: memory.NewFleet(), Dialer: memory.NewFleet()})
	if err != nil {
		t.Fatal(err)
	}
	return &capGuard{Store: s, t: t, limit: limit, lock: make(chan struct{}, 1), looks: looks, most: map[string]int{}}
}

func (g *capGuard) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	g.lock <- struct{}{}
	defer func() { <-g.lock }()
	rev, err := g.Store.Put(ctx, key, value, prev)
	if err == nil && (strings.HasPrefix(key, "run/") || strings.HasPrefix(key, "cap/")) {
		g.look()
	}
	return rev, err
}

// reached returns the maximum of clusters in flight, of all runs and of each.
func (g *capGuard) reached() (peak int, most map[string]int) {
	g.lock <- struct{}{}
	defer func() { <-g.lock }()
	return g.peak, maps.Clone(g.most)
}

// look checks the runs against the cap.
func (g *capGuard) look() {
	ctx := context.Background()
	caps, err := g.looks.Caps(ctx)
	if err != nil || len(caps) == 0 {
		return
	}
	total := 0
	for _, name := range []string{"run-a", "run-b", "run-c"} {
		s, err := g.looks.Run(name).Status(ctx)
		if err != nil {
			continue
		}
		n := 0
		for _, f := range s.Run.Form(runstate.Key{}).InFlight {
			if f.Attempt != 0 {
				n++
			}
		}
		if own, _ := caps[0].Share(s.Run.UID); n > own.Holds {
			g.t.Errorf("%s has %d clusters in flight and holds %d", name, n, own.Holds)
		}
		g.most[name] = max(g.most[name], n)
		total += n
	}
	if g.peak = max(g.peak, total); total > g.limit {
		g.t.Errorf("%d clusters are in flight, and %d may be", total, g.limit)
	}
}

// declareCaps declares the cap and three placements.
func declareCaps(t *testing.T, e *fleet.Engine, limit int) {
	t.Helper()
	if err := e.SetCap(t.Context(), "database", limit); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := e.PutPlacement(t.Context(), capPlacement(name)); err != nil {
			t.Fatal(err)
		}
	}
}

// completes waits for the runs, and checks that the cap has no shares left.
func completes(t *testing.T, e *fleet.Engine, runs ...string) {
	t.Helper()
	for _, name := range runs {
		for range 1000 {
			s, err := e.Run(name).Status(t.Context())
			if err == nil && s.Run.IsEnded() {
				break
			}
			time.Sleep(10 * time.Second)
		}
		if s, err := e.Run(name).Status(t.Context()); err != nil || s.Run.State != stages.Completed {
			t.Fatalf("run %s is %s, %v, and waits for %v", name, s.Run.State, err, step.Waiting(s.Plan, &s.Run))
		}
	}
	settle()
	caps, err := e.Caps(t.Context())
	if err != nil || len(caps) != 1 || len(caps[0].Shares) > 0 {
		t.Errorf("%v, %v", caps, err)
	}
}

// Two engines drive runs of several placements that share a cap. The cap is never exceeded, it is
// used completely, and each run has a share of it at all times.
func TestRunsShareACap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCapEnv(t, 6)
		g := newCapGuard(t, w.store, 4)
		one, two := w.newEngine(fleet.Config{Name: "one", Store: g}), w.newEngine(fleet.Config{Name: "two", Store: g})
		declareCaps(t, one, 4)
		defer running(t, one)()
		defer running(t, two)()
		for _, name := range []string{"a", "b", "c"} {
			create(t, one, capRun(name, time.Minute))
		}
		time.Sleep(90 * time.Second)
		caps, err := one.Caps(t.Context())
		if err != nil || len(caps) != 1 || len(caps[0].Shares) != 3 {
			t.Fatal(caps, err)
		}
		for _, s := range caps[0].Shares {
			if s.Holds < 1 {
				t.Errorf("run %s waits with nothing: %+v", s.Run, caps[0])
			}
		}
		x, err := one.Run("run-a").Explain(t.Context(), "a5")
		waiting := x.Waiting
		if i := slices.IndexFunc(waiting, func(a stages.Awaited) bool { return a.Kind == stages.AwaitCap }); err != nil || i < 0 || !strings.Contains(waiting[i].Message, "waits for cap database, in use 4 of 4: run ") {
			t.Errorf("run-a waits for %v, %v", waiting, err)
		}
		if err := one.DeleteCap(t.Context(), "database"); !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "in use (4 of 4") {
			t.Error(err)
		}
		completes(t, one, "run-a", "run-b", "run-c")
		if peak, _ := g.reached(); peak != 4 {
			t.Errorf("up to %d clusters were in flight", peak)
		}
		if err := one.DeleteCap(t.Context(), "database"); err != nil {
			t.Error(err)
		}
		if _, err := one.CreateRun(t.Context(), fleet.RunSpec{Name: "again", Placement: "a", Strategy: capRun("a", 0).Strategy}); !errors.Is(err, backend.ErrNotFound) || !strings.Contains(err.Error(), "cap database does not exist: declare it first") {
			t.Error(err)
		}
	})
}

// With less than one slot for each, the runs take turns. A run that never ends keeps its slots and
// gets no more, and a limit of 0 stops all starts.
func TestRunsTakeTurnsAtACap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCapEnv(t, 3)
		g := newCapGuard(t, w.store, 1)
		e := w.newEngine(fleet.Config{Store: g})
		declareCaps(t, e, 0)
		defer running(t, e)()
		for _, name := range []string{"a", "b", "c"} {
			create(t, e, capRun(name, time.Minute))
		}
		time.Sleep(5 * time.Minute)
		if peak, _ := g.reached(); peak != 0 {
			t.Errorf("%d clusters started with a limit of 0", peak)
		}
		explains(t, e, "run-a", "a0", stages.NotStarted, "cap database, which several runs share, is used up", "Cap database waits for cap database, in use 0 of 0")
		if err := e.SetCap(t.Context(), "database", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4*time.Minute + 30*time.Second)
		for _, name := range []string{"run-a", "run-b", "run-c"} {
			if _, most := g.reached(); most[name] != 1 {
				t.Errorf("%s had up to %d clusters in flight in the first minutes", name, most[name])
			}
		}
		completes(t, e, "run-a", "run-b", "run-c")
	})
}

// A run returns its slots to others if it is aborted or deleted, or if its engine dies. A stopped
// run returns them as its clusters in flight end.
func TestEndedRunsReleaseTheirCap(t *testing.T) {
	away := map[string]func(t *testing.T, e *fleet.Engine, kill func()){
		"stopped": func(t *testing.T, e *fleet.Engine, _ func()) {
			done(t, e.Run("run-a").Command(t.Context(), stages.Command{Verb: stages.Stop}))
		},
		"aborted": func(t *testing.T, e *fleet.Engine, _ func()) {
			done(t, e.Run("run-a").Command(t.Context(), stages.Command{Verb: stages.Abort}))
		},
		"deleted":         func(t *testing.T, e *fleet.Engine, _ func()) { done(t, e.Run("run-a").Delete(t.Context(), forced)) },
		"its engine died": func(_ *testing.T, _ *fleet.Engine, kill func()) { kill() },
		"deleted and died": func(t *testing.T, e *fleet.Engine, kill func()) {
			kill()
			done(t, e.Run("run-a").Delete(t.Context(), forced))
		},
	}
	for name, leave := range away {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCapEnv(t, 4)
				g := newCapGuard(t, w.store, 2)
				crash := faulty.NewPlan(func(faulty.Call) faulty.Fault { return faulty.Fault{} })
				one, two := w.newEngine(fleet.Config{Name: "one", Store: crash.Store(g)}), w.newEngine(fleet.Config{Name: "two", Store: g})
				declareCaps(t, two, 2)
				stop := running(t, one)
				defer stop()
				create(t, two, capRun("a", 4*time.Minute))
				time.Sleep(time.Minute)
				defer running(t, two)()
				create(t, two, capRun("b", time.Second))
				leave(t, two, stop)
				if name == "its engine died" {
					completes(t, two, "run-b", "run-a")
					return
				}
				completes(t, two, "run-b")
			})
		})
	}
}

func done(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Whichever write fails, and whichever engine continues, no run ever has more clusters in flight
// than slots, the cap is not exceeded, all runs end, and no slot remains in use.
func TestCapSurvivesACrashAtEveryWrite(t *testing.T) {
	writes := playCap(t, 0, "")
	step := 1
	if testing.Short() || !soak() {
		step = 7 * apart(3)
	}
	for m, mode := range crashModes {
		for k := 1 + m; k <= writes; k += step {
			playCap(t, k, mode)
			if t.Failed() {
				t.Fatalf("%s write %d of %d", mode, k, writes)
			}
		}
	}
}

// playCap plays two runs that share a cap, with a failure of the kth write, and returns the number
// of writes.
func playCap(t *testing.T, k int, mode string) (writes int) {
	synctest.Test(t, func(t *testing.T) {
		w := newCapEnv(t, 3)
		g := newCapGuard(t, w.store, 2)
		s := crashScenario{}
		h := s.newCapHost(w, g, k, mode)
		declareCaps(t, h.two, 2)
		for _, name := range []string{"a", "b"} {
			create(t, h.two, capRun(name, time.Second))
		}
		stop := h.live()
		completes(t, h.two, "run-a", "run-b")
		stop()
		writes = h.plan.Writes()
	})
	return writes
}

// newCapHost is newHost for engines with a capGuard.
func (s crashScenario) newCapHost(w *engineEnv, g *capGuard, k int, mode string) *host {
	store := w.store
	h := s.newHost(w, k, mode)
	h.engineEnv.store = store
	h.one = w.newEngine(fleet.Config{Name: "one", Store: h.plan.Store(g), Dialer: h.plan.Dialer(h.rec.dialer("one"))})
	h.two = w.newEngine(fleet.Config{Name: "two", Store: g, Dialer: h.rec.dialer("two")})
	return h
}

// A cap that is unreadable, or written by a newer version, does not prevent the deletion of a run.
func TestDeleteRunBesideDamagedCaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCapEnv(t, 1)
		e := w.newEngine(fleet.Config{})
		declareCaps(t, e, 1)
		for name, value := range map[string]string{"broken": "{", "newer": `{"format":99}`} {
			if _, err := w.store.Put(t.Context(), "cap/"+name, []byte(value), ""); err != nil {
				t.Fatal(err)
			}
		}
		spec := capRun("a", 0)
		spec.Hold = true
		if _, err := e.CreateRun(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		if err := e.Run("run-a").Delete(t.Context(), forced); err != nil {
			t.Errorf("the run cannot be deleted: %v", err)
		}
	})
}

// If a cap is damaged while a run shares it, the run still ends, and its lease is released.
func TestARunEndsBesideADamagedCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCapEnv(t, 1)
		e := w.newEngine(fleet.Config{Name: "one"})
		defer running(t, e)()
		declareCaps(t, e, 1)
		create(t, e, capRun("a", time.Hour))
		time.Sleep(time.Minute)
		broken, err := w.store.Get(t.Context(), "cap/database")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.Put(t.Context(), "cap/database", []byte("{"), broken.Revision); err != nil {
			t.Fatal(err)
		}
		if err := e.Run("run-a").Command(t.Context(), stages.Command{Verb: stages.Abort}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		leases, err := e.Leases(t.Context())
		if err != nil || slices.ContainsFunc(leases, func(l fleet.Lease) bool { return l.Holder != "" }) {
			t.Errorf("%+v, %v", leases, err)
		}
	})
}

// The share of an ended run in a cap does not prevent the deletion of the cap.
func TestDeleteCapAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCapEnv(t, 1)
		e := w.newEngine(fleet.Config{Name: "one"})
		stop := running(t, e)
		declareCaps(t, e, 1)
		create(t, e, capRun("a", time.Hour))
		time.Sleep(time.Minute)
		stop()
		run, err := w.store.Get(t.Context(), "run/run-a")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.store.Delete(t.Context(), run.Key, run.Revision); err != nil {
			t.Fatal(err)
		}
		if err := e.DeleteCap(t.Context(), "database"); err != nil {
			t.Error(err)
		}
	})
}
