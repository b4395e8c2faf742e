package fleet_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
)

// timetable provides a host's windows, which may change and fail.
type timetable struct {
	rules atomic.Pointer[calendar.Rules]
	err   atomic.Pointer[error]
	asked atomic.Int32
}

func (w *timetable) Rules(context.Context, *stages.Plan) (calendar.Rules, error) {
	w.asked.Add(1)
	if err := w.err.Load(); err != nil {
		return calendar.Rules{}, *err
	}
	if r := w.rules.Load(); r != nil {
		return *r, nil
	}
	return calendar.Rules{}, nil
}

func (w *timetable) set(r calendar.Rules) {
	w.rules.Store(&r)
	w.err.Store(nil)
}

// nightly lets c00 start only from four o'clock on, for an hour.
func nightly() calendar.Rules {
	return calendar.Rules{Clusters: map[string]calendar.Level{
		"c00": {Windows: []calendar.Window{{RRule: "FREQ=DAILY;BYHOUR=4", Duration: metav1.Duration{Duration: time.Hour}}}},
	}}
}

func frozenUntil(t time.Time) calendar.Rules {
	return calendar.Rules{Run: calendar.Level{Freezes: []calendar.Freeze{{Name: "stop-the-line", From: "2000-01-01T00:00:00", Until: t.UTC().Format("2006-01-02T15:04:05")}}}}
}

// started returns the start times of the clusters of a run, relative to since.
func (w *engineEnv) started(run string, since time.Time) map[string]time.Duration {
	out := map[string]time.Duration{}
	for _, ev := range w.past(1000) {
		if ev.Run == run && ev.Type == stages.ClusterStarted {
			out[ev.Cluster] = ev.Time.Sub(since)
		}
	}
	return out
}

// scheduled returns an environment of three clusters with windows, and a run that updates one after
// the other.
func scheduled(t *testing.T, windows *timetable, adjust ...func(*stages.Strategy)) (*engineEnv, *fleet.Engine) {
	w := newSmallEnv(t, 3)
	e := w.newEngine(fleet.Config{Windows: windows})
	w.declare(e, smallPlacement("p"))
	s := allAtOnce(1)
	for _, do := range adjust {
		do(&s)
	}
	w.create(e, fleet.RunSpec{Name: "r", Placement: "p", Strategy: s})
	return w, e
}

func TestAClusterStartsInItsWindowAndOthersGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		windows := &timetable{}
		windows.set(nightly())
		begun := time.Now() // midnight UTC
		w, e := scheduled(t, windows)
		defer running(t, e)()
		w.within(5*time.Hour, "r", stages.Completed)
		at := w.started("r", begun)
		if at["c00"] != 4*time.Hour || at["c01"] > time.Minute || at["c02"] > time.Minute {
			t.Errorf("started after %v, want c00 after 4h and the others at once", at)
		}
		if w.happened("r", stages.ClusterPending) != 1 {
			t.Error("want one event that says that c00 is pending")
		}
	})
}

func TestAFreezeTakesEffectOnARunThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		windows := &timetable{}
		begun := time.Now()
		w, e := scheduled(t, windows, func(s *stages.Strategy) { s.MinHealthy.Duration = time.Minute })
		defer running(t, e)()
		time.Sleep(30 * time.Second)
		windows.set(frozenUntil(begun.Add(2 * time.Hour)))
		w.within(3*time.Hour, "r", stages.Completed)
		at := w.started("r", begun)
		if at["c00"] > time.Second || at["c01"] != 2*time.Hour || at["c02"] < 2*time.Hour {
			t.Errorf("started after %v, want c00 at once and the others after the freeze, 2h", at)
		}
	})
}

func TestNothingStartsBeforeTheWindowsAreKnown(t *testing.T) {
	for name, err := range map[string]error{"the host fails": errors.New("calendar service is down"), "rules are invalid": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				windows := &timetable{}
				windows.set(calendar.Rules{Run: calendar.Level{Windows: []calendar.Window{{RRule: "FREQ=NEVER"}}}})
				if err != nil {
					windows.err.Store(&err)
				}
				begun := time.Now()
				w, e := scheduled(t, windows)
				defer running(t, e)()
				time.Sleep(time.Hour)
				if at := w.started("r", begun); len(at) > 0 {
					t.Errorf("started %v, want nothing", at)
				}
				x, err := e.Run("r").Explain(t.Context(), "c01")
				if err != nil || x.State != stages.Pending || !strings.Contains(x.Reason, "windows") {
					t.Errorf("explains %+v, %v, want that c01 is Pending because the windows are not known", x, err)
				}
				windows.set(calendar.Rules{})
				w.within(time.Minute, "r", stages.Completed)
			})
		})
	}
}

func TestFailedCalendarKeepsTheEarlierWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		windows := &timetable{}
		windows.set(nightly())
		begun := time.Now()
		w, e := scheduled(t, windows)
		defer running(t, e)()
		time.Sleep(time.Minute)
		down := errors.New("calendar service is down")
		windows.err.Store(&down)
		w.within(5*time.Hour, "r", stages.Completed)
		if at := w.started("r", begun); at["c00"] != 4*time.Hour {
			t.Errorf("started after %v, want c00 after 4h", at)
		}
	})
}

func TestABypassIsRecordedAndLetsClustersStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		windows := &timetable{}
		windows.set(nightly())
		begun := time.Now()
		w, e := scheduled(t, windows)
		defer running(t, e)()
		time.Sleep(time.Hour)
		if err := e.Run("r").Command(t.Context(), stages.Command{Verb: stages.BypassWindows, Until: time.Now().Add(time.Hour)}); err == nil {
			t.Error("a bypass without a reason was taken")
		}
		bypass := stages.Command{
			ID: "b", Verb: stages.BypassWindows, By: approval.Identity{Name: "ann"}, Message: "security fix", Until: time.Now().Add(time.Hour),
		}
		for range 3 {
			if err := e.Run("r").Command(t.Context(), bypass); err != nil {
				t.Fatal(err)
			}
		}
		w.within(time.Minute, "r", stages.Completed)
		if at := w.started("r", begun); at["c00"] < time.Hour || at["c00"] > time.Hour+time.Second {
			t.Errorf("started after %v, want c00 after an hour", at)
		}
		told := 0
		for _, ev := range w.past(1000) {
			if ev.Type == stages.WindowsBypassed {
				told++
				if ev.By != "ann" || ev.Message != "security fix" || !ev.Until.Equal(bypass.Until) {
					t.Errorf("told as %+v", ev)
				}
			}
		}
		if told != 1 {
			t.Errorf("told %d times, want once", told)
		}
	})
}

func TestADeletionDoesNotWaitForWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		windows := &timetable{}
		w, e := scheduled(t, windows)
		defer running(t, e)()
		w.within(time.Minute, "r", stages.Completed)
		windows.set(frozenUntil(time.Now().Add(24 * time.Hour)))
		if err := e.Placement("p").Delete(t.Context(), fleet.DeleteOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if d, err := e.Placement("p").Deletion(t.Context()); err != nil || d.Ended.IsZero() || d.Done != 3 {
			t.Errorf("the deletion is %+v, %v, want that it has ended on 3 clusters", d, err)
		}
	})
}

func TestRetryKeepsThePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 3)
		e := w.newEngine(fleet.Config{})
		w.declare(e, smallPlacement("p"))
		w.refusing("c01", true)
		w.create(e, fleet.RunSpec{Name: "r", Placement: "p", Strategy: startable()})
		defer running(t, e)()
		w.within(time.Minute, "r", stages.Failed)
		before, err := e.Run("r").Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.refusing("c01", false)
		if err := w.source.Put(plain("v2")); err != nil { // the target is frozen
			t.Fatal(err)
		}
		if err := e.Run("r").Command(t.Context(), stages.Command{Verb: stages.Retry, Only: "Everything"}); err == nil {
			t.Error("a retry of everything was taken")
		}
		if err := e.Run("r").Command(t.Context(), stages.Command{Verb: stages.Retry, Only: stages.OnlyFailed}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.within(time.Minute, "r", stages.Completed)
		after, err := e.Run("r").Status(t.Context())
		if err != nil || after.Plan.Digest != before.Plan.Digest || after.Run.Attempt != 2 {
			t.Errorf("attempt %d of plan %s, %v; want attempt 2 of plan %s", after.Run.Attempt, after.Plan.Digest, err, before.Plan.Digest)
		}
		for _, c := range []string{"c00", "c01", "c02"} {
			if got := w.setting(c); got != "v1" {
				t.Errorf("%s has %s, want v1", c, got)
			}
		}
	})
}

// hanging is a host that never answers, whatever the deadline.
type hanging struct{ until chan struct{} }

func (w hanging) Rules(context.Context, *stages.Plan) (calendar.Rules, error) {
	<-w.until
	return calendar.Rules{}, nil
}

// If the host does not provide the windows, an engine continues with clusters in flight, even with
// a short lease, and starts no others.
func TestHangingCalendarDelaysNoClusterInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := scheduled(t, &timetable{}, func(s *stages.Strategy) { s.MinHealthy.Duration = 30 * time.Second })
		stop := running(t, e)
		time.Sleep(10 * time.Second)
		stop()
		begun := time.Now()
		hang := hanging{make(chan struct{})}
		short := fleet.Config{Name: "two", Windows: hang, Lease: 1500 * time.Millisecond, CallTimeout: time.Second}
		two := w.newEngine(short)
		short.Name = "three"
		defer running(t, two)()
		defer running(t, w.newEngine(short))()
		defer close(hang.until)
		time.Sleep(5 * time.Minute)
		s := must(two.Run("r").Status(t.Context()))(t)
		if g := s.Run.Form(runstate.Key{}).Stages[0].Groups[0]; g.Completed != 1 {
			t.Errorf("%d clusters have completed, want c00, which was in flight", g.Completed)
		}
		for name, at := range w.started("r", begun) {
			if at > 0 {
				t.Errorf("%s was started after %v, without windows being known", name, at)
			}
		}
		if n := w.happened("r", stages.RunTaken); n != 2 {
			t.Errorf("the run was taken %d times, want once by each of two engines", n)
		}
	})
}
