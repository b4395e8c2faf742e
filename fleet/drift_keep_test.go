package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// driftedPaths returns the reported paths of a cluster.
func driftedPaths(t *testing.T, e *fleet.Engine, cluster string) string {
	t.Helper()
	seen, err := recordedDrift(t.Context(), e.Placement("example-placement"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range seen {
		for _, o := range c.Objects {
			for _, d := range o.Differences {
				if c.Cluster == cluster {
					out = append(out, d.Path)
				}
			}
		}
	}
	return strings.Join(out, " ")
}

func (w *engineEnv) notes(e *fleet.Engine, what stages.EventType) (out []stages.Event) {
	w.t.Helper()
	f, err := e.Placement("example-placement").Follow("")
	if err != nil {
		w.t.Fatal(err)
	}
	for ev, err := range f.Past(w.t.Context()) {
		if err != nil {
			w.t.Fatal(err)
		}
		if ev.Type == what {
			out = append(out, ev)
		}
	}
	return out
}

// A later apply leaves the addition of another client alone and does not explain it. This holds for
// an apply that restores another field, for an apply of another version, and for an apply of
// another object.
func TestLaterApplyDoesNotExplainForeignFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := placed(t, apply.Strategy{WhenToApply: apply.Always, ComparisonOption: drift.Full})
		defer stop()
		w.edit("member2", func(data map[string]any) { data["key"], data["extra"] = "theirs", "x" })
		time.Sleep(5 * time.Second)
		if got := w.value("member2"); got != "value1" {
			t.Errorf("member2 has %s", got)
		}
		if got := driftedPaths(t, e, "member2"); got != "/data/extra" {
			t.Errorf("after it was put back: %q", got)
		}
		for i, obj := range []*unstructured.Unstructured{configMap("test-cm", "value2"), configMap("another", "value1")} {
			if err := w.source.Put(obj); err != nil {
				t.Fatal(err)
			}
			runTo(t, e, fmt.Sprint("run-", i), inOneStage())
			time.Sleep(time.Second)
			if got := driftedPaths(t, e, "member2"); got != "/data/extra" {
				t.Errorf("after %s: %q", obj.GetName(), got)
			}
		}
	})
}

// If a cluster refuses to have an object restored, it is asked at longer and longer intervals.
func TestRefusedRepairsAreRetriedLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, stop := placed(t, apply.Strategy{WhenToApply: apply.Always})
		defer stop()
		w.edit("member2", set("key", "theirs"))
		var asked atomic.Int64
		w.fleet.Cluster("member2").Refuse(func(o *unstructured.Unstructured) error {
			if o.GetName() == "test-cm" {
				asked.Add(1)
				return errors.New("not admitted")
			}
			return nil
		})
		w.edit("member2", set("key", "theirs again"))
		time.Sleep(time.Hour)
		if n := asked.Load(); n == 0 || n > 40 {
			t.Errorf("it was asked %d times in an hour", n)
		}
		w.fleet.Cluster("member2").Refuse(nil)
		time.Sleep(6 * time.Minute)
		if got := w.value("member2"); got != "value1" {
			t.Errorf("member2 has %s", got)
		}
	})
}

// The same edit on many clusters is written to the placement's record in one batch.
func TestAnEditOnManyClustersIsReportedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clusters = 200
		w := newEngineEnv(t)
		for i := range clusters {
			w.fleet.Add(placement.Cluster{Name: fmt.Sprintf("many-%03d", i)})
		}
		var writes atomic.Int64
		plan := faulty.NewPlan(func(c faulty.Call) faulty.Fault {
			if c.Key == "placement/example-placement" && c.Op != "get" {
				writes.Add(1)
			}
			return faulty.Fault{}
		})
		e := w.engine(plan.Store(w.store), "a")
		p := tutorialPlacement()
		p.ApplyStrategy.WhenToApply = apply.IfNotDrifted
		if err := e.PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		defer running(t, e)()
		s := inOneStage()
		s.Stages[0].MaxConcurrency = nil
		runTo(t, e, "one", s)
		time.Sleep(time.Second)
		before := writes.Load()
		for i := range clusters {
			w.edit(fmt.Sprintf("many-%03d", i), set("key", "theirs"))
		}
		time.Sleep(5 * time.Second)
		if n := len(w.notes(e, stages.DriftFound)); n != clusters {
			t.Errorf("%d clusters were told of, want %d", n, clusters)
		}
		if n := writes.Load() - before; n == 0 || n > 20 {
			t.Errorf("the placement was written %d times", n)
		}
	})
}

// If an event still waits for its batch when the engine ends, it is written before Run returns.
func TestNoEventOfDriftIsLostWhenAnEngineEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := placed(t, apply.Strategy{WhenToApply: apply.IfNotDrifted})
		time.Sleep(time.Second)
		w.edit("member1", set("key", "theirs"))
		time.Sleep(100 * time.Millisecond)
		w.edit("member2", set("key", "theirs"))
		time.Sleep(50 * time.Millisecond)
		if n := len(w.notes(e, stages.DriftFound)); n != 1 {
			t.Errorf("%d events are written while the batch is open", n)
		}
		stop()
		if n := len(w.notes(e, stages.DriftFound)); n != 2 {
			t.Errorf("%d events are written", n)
		}
	})
}

// A placement that stops watching and starts again at once is watched.
func TestAWatchThatEndsCanBeginAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := placed(t, apply.Strategy{WhenToApply: apply.Always})
		defer stop()
		p := tutorialPlacement()
		for range 5 {
			for _, when := range []apply.WhenToApply{"", apply.Always} {
				p.ApplyStrategy.WhenToApply = when
				must(0, e.PutPlacement(t.Context(), p))(t)
			}
			time.Sleep(time.Millisecond)
			w.edit("member2", set("key", "theirs"))
			time.Sleep(2 * time.Second)
			if got := w.value("member2"); got != "value1" {
				t.Errorf("member2 has %s", got)
			}
			time.Sleep(time.Hour)
		}
	})
}

// A placement that changes and changes back between two reads of a reconcile is watched according
// to its final state.
func TestAWatchFollowsAPlacementThatChangesBetweenTwoReads(t *testing.T) {
	for before := range 12 {
		synctest.Test(t, func(t *testing.T) {
			w := newEngineEnv(t)
			other := w.engine(w.store, "other")
			put := func(when apply.WhenToApply, what drift.Comparison) {
				p := tutorialPlacement()
				p.ApplyStrategy.WhenToApply, p.ApplyStrategy.ComparisonOption = when, what
				must(0, other.PutPlacement(t.Context(), p))(t)
			}
			put(apply.Always, drift.Partial)
			var armed atomic.Bool
			var reads atomic.Int64
			plan := faulty.NewPlan(func(c faulty.Call) faulty.Fault {
				if armed.Load() && c.Op == "get" && c.Key == "placement/example-placement" {
					switch reads.Add(1) - 1 {
					case int64(before):
						put("", drift.Full)
					case int64(before) + 1:
						put(apply.Always, drift.Full)
					}
				}
				return faulty.Fault{}
			})
			e := w.engine(plan.Store(w.store), "a")
			defer running(t, e)()
			runTo(t, e, "one", inOneStage())
			time.Sleep(time.Second)
			armed.Store(true)
			put(apply.Always, drift.Full)
			time.Sleep(time.Minute)
			armed.Store(false)
			put(apply.Always, drift.Full)
			time.Sleep(time.Second)
			w.edit("member2", set("key", "theirs"))
			time.Sleep(2 * time.Second)
			if got := w.value("member2"); got != "value1" {
				t.Errorf("changed before read %d: member2 has %s", before, got)
			}
		})
	}
}

// If a placement requests a watch before it has a snapshot, it is watched from the first snapshot
// on, and no error is logged until then.
func TestAWatchBeginsWithTheFirstSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		var log bytes.Buffer
		e := w.newEngine(fleet.Config{Name: "a", Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		p := tutorialPlacement()
		p.ApplyStrategy.Type = apply.ReportDiff
		must(0, e.PutPlacement(t.Context(), p))(t)
		stop := running(t, e)
		time.Sleep(time.Hour)
		if _, err := e.Placement(p.Name).Capture(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if n := len(w.notes(e, stages.DriftFound)); n != 3 {
			t.Errorf("%d clusters were told of, want 3, none of which has the objects", n)
		}
		if stop(); log.Len() > 0 {
			t.Errorf("this was logged:\n%s", log.String())
		}
	})
}

// The record of a cluster that cannot be observed is written once, not with each error. Its known
// state stays, with the time of the last observation.
func TestAnUnreadableClusterIsWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		var puts, calls atomic.Int64
		var down atomic.Bool
		plan := faulty.NewPlan(func(c faulty.Call) faulty.Fault {
			if c.Op == "put" && strings.HasPrefix(c.Key, "drift/") {
				puts.Add(1)
			}
			return faulty.Fault{}
		})
		members := faulty.NewPlan(func(faulty.Call) faulty.Fault {
			if n := calls.Add(1); down.Load() {
				return faulty.Before(fmt.Errorf("dial from port %d: refused", n))
			}
			return faulty.Fault{}
		})
		e := w.newEngine(fleet.Config{Store: plan.Store(w.store), Dialer: members.Dialer(w.fleet), Name: "a"})
		p := tutorialPlacement()
		p.ApplyStrategy.WhenToApply = apply.IfNotDrifted
		if err := e.PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		defer running(t, e)()
		runTo(t, e, "one", inOneStage())
		w.edit("member2", set("key", "theirs"))
		time.Sleep(time.Second)
		seen, _ := recordedDrift(t.Context(), e.Placement(p.Name))
		if puts.Load() != 1 || len(seen) != 1 {
			t.Fatalf("%d writes, %+v", puts.Load(), seen)
		}
		was := seen[0].Objects[0].Observed
		down.Store(true)
		w.edit("member2", set("key", "theirs too"))
		time.Sleep(5 * time.Minute)
		seen, err := recordedDrift(t.Context(), e.Placement(p.Name))
		if err != nil || puts.Load() > 4 || len(seen) == 0 {
			t.Fatalf("%d writes, %+v, %v", puts.Load(), seen, err)
		}
		for _, c := range seen {
			if c.Cluster == "member2" && (c.Total != 1 || !c.Objects[0].Observed.Equal(was)) {
				t.Errorf("%+v, it was observed at %v", c, was)
			}
		}
	})
}

// The current strategy of the placement applies, and a watch that could not begin at once begins
// later.
func TestTheWatchFollowsTheStrategy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		var fail atomic.Bool
		fail.Store(true)
		plan := faulty.NewPlan(func(c faulty.Call) faulty.Fault {
			if fail.Load() && c.Op == "get" && c.Key == "placement/example-placement" {
				return faulty.Before(errors.New("the store is away"))
			}
			return faulty.Fault{}
		})
		other := w.engine(w.store, "b")
		p := tutorialPlacement()
		p.ApplyStrategy.WhenToApply = apply.Always
		if err := other.PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		stop := running(t, other)
		runTo(t, other, "one", inOneStage())
		stop()
		e := w.engine(plan.Store(w.store), "a")
		defer running(t, e)()
		time.Sleep(time.Second)
		fail.Store(false)
		time.Sleep(10 * time.Second)
		w.edit("member2", set("key", "theirs"))
		time.Sleep(2 * time.Second)
		if got := w.value("member2"); got != "value1" {
			t.Errorf("member2 has %s", got)
		}
		p.ApplyStrategy.WhenToApply = apply.IfNotDrifted
		if err := e.PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		w.edit("member2", set("key", "theirs"))
		time.Sleep(time.Minute)
		if got := w.value("member2"); got != "theirs" || driftedPaths(t, e, "member2") != "/data/key" {
			t.Errorf("member2 has %s", got)
		}
		p.ApplyStrategy.WhenToApply = ""
		if err := e.PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := driftedPaths(t, e, "member2"); got != "" {
			t.Errorf("of a placement that is not watched any more: %q", got)
		}
		if _, err := w.store.Get(t.Context(), "watch/example-placement"); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("the lease is still there: %v", err)
		}
	})
}

// A restarted engine does not repeat earlier events.
func TestDriftIsReportedOnceAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, stop := placed(t, apply.Strategy{WhenToApply: apply.IfNotDrifted})
		w.edit("member2", set("key", "theirs"))
		time.Sleep(time.Second)
		stop()
		e := w.engine(w.store, "b")
		defer running(t, e)()
		time.Sleep(time.Minute)
		if n := len(w.notes(e, stages.DriftFound)); n != 1 {
			t.Errorf("it was told %d times", n)
		}
		for i := range 600 {
			w.edit("member2", set("key", fmt.Sprint(i)))
			time.Sleep(time.Second)
		}
		if n := len(w.notes(e, stages.DriftFound)); n > 20 {
			t.Errorf("a value that changes every second was told %d times in ten minutes", n)
		}
	})
}

// An engine dies at any write while it restores an object. Another engine or a run completes its
// work, and nothing is applied twice.
func TestCrashWhileRestoringDrift(t *testing.T) {
	t.Parallel()
	for i, crash := range []func(int) faulty.Rule{faulty.CrashBefore, faulty.CrashAfter} {
		for n := 1 + 3*i%apart(6); ; n += apart(6) {
			crashed := false
			synctest.Test(t, func(t *testing.T) {
				defer logCase(t, "write %d", n)
				w, _, stop := placed(t, apply.Strategy{WhenToApply: apply.Always, ComparisonOption: drift.Full})
				stop()
				plan := faulty.NewPlan(crash(n))
				e := w.newEngine(fleet.Config{Store: plan.Store(w.store), Dialer: plan.Dialer(w.fleet), Name: "b"})
				stop = running(t, e)
				w.edit("member2", set("key", "theirs"))
				time.Sleep(10 * time.Second)
				stop()
				crashed = plan.Crashed()
				e = w.engine(w.store, "c")
				defer running(t, e)()
				time.Sleep(time.Minute)
				if got := w.value("member2"); got != "value1" {
					t.Errorf("member2 has %s", got)
				}
				lines, all := reportOf(t, e, fleet.DriftOptions{})
				for _, c := range all {
					if c.State != drift.Compared || len(lines) > 0 {
						t.Errorf("%+v", c)
					}
				}
				if seen, err := recordedDrift(t.Context(), e.Placement("example-placement")); err != nil || len(seen) > 0 {
					t.Errorf("%+v, %v", seen, err)
				}
				w.fleet.Cluster("member2").Record(true)
				time.Sleep(time.Hour)
				if log := w.fleet.Cluster("member2").Log(); len(log) > 0 {
					t.Errorf("%d writes while nothing happened: %v", len(log), log[0])
				}
			})
			if !crashed {
				if n < 5 {
					t.Errorf("there were %d writes", n-1)
				}
				break
			}
		}
	}
}

// Rendered overrides of a snapshot are available as long as a cluster has them, even if the run
// that brought them is forgotten.
func TestContentOfAForgottenRunIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		e := w.engine(w.store, "a")
		p := tutorialPlacement()
		p.Overrides = []placement.Override{replaceFor("canary", "ours")}
		p.ApplyStrategy.WhenToApply = apply.Always
		if err := e.PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		stop := running(t, e)
		runTo(t, e, "one", inOneStage())
		if err := e.Run("one").Delete(t.Context(), forced); err != nil {
			t.Fatal(err)
		}
		stop()
		e = w.engine(w.store, "b")
		_, all := reportOf(t, e, fleet.DriftOptions{})
		for _, c := range all {
			if c.State != drift.Compared || c.Total > 0 {
				t.Errorf("%+v", c)
			}
		}
		defer running(t, e)()
		time.Sleep(5 * time.Second)
		w.edit("member1", set("key", "theirs"))
		time.Sleep(30 * time.Second)
		if got := w.value("member1"); got != "ours" {
			t.Errorf("member1 has %s", got)
		}
	})
}

// An edit that removes the marks of the placement is reverted, but the object will no longer be
// deleted. One event of the placement reports that.
func TestRestoreReportsObjectsItNoLongerOwns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := placed(t, apply.Strategy{WhenToApply: apply.Always})
		defer stop()
		if err := w.fleet.Cluster("member2").Update(configMap("test-cm", "theirs")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if got := w.value("member2"); got != "value1" {
			t.Errorf("member2 has %s", got)
		}
		w.edit("member2", func(data map[string]any) { data["key"] = "theirs" })
		time.Sleep(time.Minute)
		told := w.notes(e, stages.ObjectsReleased)
		if len(told) != 1 || told[0].Cluster != "member2" || !strings.Contains(told[0].Message, "test-cm") {
			t.Errorf("told %+v", told)
		}
	})
}

// hiding is a member that does not show one object.
type hiding struct {
	backend.Conn
	name string
}

func (h hiding) Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	if id.Name == h.name {
		return nil, errors.New("planted")
	}
	return h.Conn.Get(ctx, id)
}

// An object that a member does not show is a problem of its own, and hides no drift of other
// objects.
func TestUnreadableObjectHidesNoDriftOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := placed(t, apply.Strategy{})
		defer stop()
		if err := w.source.Put(configMap("other", "value1")); err != nil {
			t.Fatal(err)
		}
		runTo(t, e, "two", inOneStage())
		w.edit("member2", func(data map[string]any) { data["key"] = "theirs" })
		for _, name := range []string{"other", "test-cm", ""} {
			looking := w.newEngine(fleet.Config{Name: "looking", Dialer: backend.DialerFunc(func(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
				conn, err := w.fleet.Dial(ctx, c)
				return hiding{conn, name}, err
			})})
			for c, err := range looking.Placement("example-placement").Drift(t.Context(), fleet.DriftOptions{Clusters: []string{"member2"}}) {
				if err != nil {
					t.Fatal(err)
				}
				if want := count(name != "test-cm"); c.State != drift.Compared || c.Total != want || len(c.Problems) != count(name != "") {
					t.Errorf("without %q: %s, %d of %d objects, %v", name, c.State, c.Total, want, c.Problems)
				}
			}
		}
	})
}
