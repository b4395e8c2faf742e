package simulate_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// approved approves each request when it opens, or a while later.
func approved(after time.Duration) func(approval.Request, time.Duration) []simulate.Order {
	return func(r approval.Request, opened time.Duration) []simulate.Order {
		o := decide(opened+after, approval.Approve, r.Stage)
		o.Command.Decision.Binding.Group = r.Group
		return []simulate.Order{o}
	}
}

// hours opens the windows of some clusters in the first ten minutes of each hour.
type hours struct{ every int }

func (h hours) Window(pos int, at time.Time) stages.Window {
	if pos%h.every != 0 {
		return stages.Window{Open: true}
	}
	hour := at.Truncate(time.Hour)
	if at.Sub(hour) < 10*time.Minute {
		return stages.Window{Limited: true, Open: true, Until: hour.Add(10 * time.Minute)}
	}
	return stages.Window{Limited: true, Until: hour.Add(time.Hour), Reason: "not the first ten minutes"}
}

// resumable are runs of six clusters in two stages.
func resumable() map[string]struct {
	edit func(*stages.Strategy)
	w    simulate.Environment
} {
	wait := stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: 7 * minute}}
	gate := stages.Task{Type: stages.Approval}
	type run = struct {
		edit func(*stages.Strategy)
		w    simulate.Environment
	}
	return map[string]run{
		"one at a time": {},
		"two at a time": {edit: func(s *stages.Strategy) {
			s.Stages[0].MaxConcurrency, s.Stages[1].MaxConcurrency = number(2), number(3)
		}},
		"half at a time in groups with gates": {edit: func(s *stages.Strategy) {
			half := intstr.FromString("50%")
			s.Stages[1].Groups = []stages.Group{
				{Name: "even", Selector: selector("g", "0"), MaxConcurrency: &half, Before: []stages.Task{wait}},
				{Name: "odd", Selector: selector("g", "1"), After: []stages.Task{gate}},
			}
		}, w: simulate.Environment{Answer: approved(0)}},
		"waits": {edit: func(s *stages.Strategy) {
			s.Stages[0].After, s.Stages[1].Before = []stages.Task{wait}, []stages.Task{wait}
		}},
		"approvals at once": {edit: func(s *stages.Strategy) {
			s.Stages[0].After, s.Stages[1].After = []stages.Task{gate, wait}, []stages.Task{gate}
		}, w: simulate.Environment{Answer: approved(0)}},
		"approvals in half hours": {edit: func(s *stages.Strategy) { s.Stages[0].After = []stages.Task{gate, wait} }, w: simulate.Environment{Answer: approved(30 * minute)}},
		"soak":                    {edit: func(s *stages.Strategy) { s.MinHealthy.Duration = 90 * second }},
		"windows":                 {w: simulate.Environment{Calendar: hours{2}}},
		"windows in groups": {edit: func(s *stages.Strategy) {
			s.Profile = stages.ClusterUpdate
			s.Stages[1].MaxConcurrency = number(2)
		}, w: simulate.Environment{Calendar: hours{3}}},
		"a cap":                {edit: func(s *stages.Strategy) { s.Cap, s.Stages[1].MaxConcurrency = "shared", number(3) }, w: simulate.Environment{Slots: 2}},
		"stopped and resumed":  {w: simulate.Environment{Orders: []simulate.Order{order(5*minute/2, stages.Stop), order(20*minute, stages.Start)}}},
		"a cluster that fails": {edit: func(s *stages.Strategy) { s.Attempts, s.Stages[0].MaxFailures = 2, number(1) }, w: simulate.Environment{Members: map[string]simulate.Member{"c2": {Take: minute, Fail: 2}}}},
		"retries":              {edit: func(s *stages.Strategy) { s.Attempts, s.Backoff.Duration = 4, 90*second }, w: simulate.Environment{Members: map[string]simulate.Member{"c2": {Take: minute, Fail: 2}, "c5": {Take: 3 * minute, Fail: 1}}}},
	}
}

// began are when the attempts began that events say are under way.
func began(events []simulate.Event) map[string]time.Time {
	out := map[string]time.Time{}
	for _, e := range events {
		switch e.Type {
		case stages.ClusterStarted:
			out[e.Cluster] = e.Time
		case stages.ClusterRetrying:
			out[e.Cluster] = e.Until
		default:
		}
	}
	return out
}

// later returns orders shifted to a start time.
func later(orders []simulate.Order, at time.Duration) (out []simulate.Order) {
	for _, o := range orders {
		if o.At > at {
			o.At -= at
			out = append(out, o)
		}
	}
	return out
}

// A run that is resumed from its state at any moment continues like an uninterrupted one: the
// same events follow, at the same times.
func TestResumedRunEqualsAnUninterruptedRun(t *testing.T) {
	for name, c := range resumable() {
		t.Run(name, func(t *testing.T) {
			clusters := fleet(2, 4)
			for i := range clusters {
				clusters[i].Labels["g"] = fmt.Sprint(i % 2)
			}
			p := plan(t, strategy(2, c.edit), clusters)
			w := c.w
			w.Default = simulate.Member{Take: minute}
			whole, end := events(t, func(tell func(simulate.Event) error) (simulate.End, error) { return simulate.Run(p, w, tell) })
			if end.Reason != simulate.Ended || len(whole) < 10 {
				t.Fatalf("the run is %s (%s) after %d events", end.State, end.Reason, len(whole))
			}
			moments := []time.Duration{0}
			for _, e := range whole {
				moments = append(moments, e.At.Duration, e.At.Duration+17*second)
			}
			for _, at := range slices.Compact(moments) {
				if at > end.At.Duration {
					continue
				}
				part := w
				part.Until = max(at, 1)
				past, then := events(t, func(tell func(simulate.Event) error) (simulate.End, error) { return simulate.Run(p, part, tell) })
				before := then.Run
				rest := w
				rest.Start, rest.Orders, rest.Began = simulate.DefaultStart().Add(at), later(w.Orders, at), began(past)
				got, resumed := events(t, func(tell func(simulate.Event) error) (simulate.End, error) {
					return simulate.Resume(p, then.Run, rest, tell)
				})
				if diff := cmp.Diff(times(whole[len(past):]), times(got)); diff != "" {
					t.Fatalf("from %s on (-want +got):\n%s", at, diff)
				}
				if resumed.State != end.State || resumed.At.Duration+at != end.At.Duration || !resumed.Run.Ended.Time().Equal(end.Run.Ended.Time()) {
					t.Errorf("resumed at %s it is %s after %s, want %s after %s", at, resumed.State, resumed.At.Duration+at, end.State, end.At.Duration)
				}
				if diff := cmp.Diff(before, then.Run); diff != "" {
					t.Errorf("the run that is resumed at %s was changed:\n%s", at, diff)
				}
			}
		})
	}
}

func events(t *testing.T, run func(func(simulate.Event) error) (simulate.End, error)) (all []simulate.Event, end simulate.End) {
	t.Helper()
	end, err := run(func(e simulate.Event) error {
		all = append(all, e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, end
}

// times are events in words, with their time.
func times(all []simulate.Event) (out []string) {
	for _, e := range all {
		e.At.Duration = e.Time.Sub(simulate.DefaultStart())
		out = append(out, line(e))
	}
	return out
}

// A cluster that was applied and is not healthy yet becomes healthy when its attempt ends, counted
// from the recorded begin of the attempt.
func TestAnAttemptContinuesFromWhenItBegan(t *testing.T) {
	p := plan(t, strategy(1, nil), fleet(1))
	w := simulate.Environment{Default: simulate.Member{Take: 10 * second, Unhealthy: []simulate.Interval{{}}}, Until: 30 * second}
	_, then := play(t, p, w)
	if then.Run.Form(runstate.Key{}).InFlight[0].Phase != stages.Settling {
		t.Fatalf("the cluster is in phase %d", then.Run.Form(runstate.Key{}).InFlight[0].Phase)
	}
	for want, began := range map[time.Duration]map[string]time.Time{
		30 * second: nil, // when the cluster was started
		50 * second: {"c1": simulate.DefaultStart().Add(20 * second)},
		0:           {"c1": simulate.DefaultStart().Add(-minute)},
	} {
		end, err := simulate.Resume(p, then.Run, simulate.Environment{
			Start: simulate.DefaultStart().Add(30 * second), Default: simulate.Member{Take: minute}, Began: began,
		}, nil)
		if err != nil || end.State != stages.Completed || end.At.Duration != want {
			t.Errorf("an attempt that began at %v is done %s after that, want %s: %s, %v", began, end.At.Duration, want, end.State, err)
		}
	}
}

// A stopped run waits for an order, an ended run does not change, and a run of another plan is
// refused.
func TestResumeOfStoppedAndEndedRuns(t *testing.T) {
	p := plan(t, strategy(1, nil), fleet(3))
	w := simulate.Environment{Default: simulate.Member{Take: minute}, Orders: []simulate.Order{order(90*second, stages.Stop)}, Until: 10 * minute}
	_, stopped := play(t, p, w)
	w.Orders, w.Start = nil, simulate.DefaultStart().Add(10*minute)
	end, err := simulate.Resume(p, stopped.Run, w, nil)
	if err != nil || end.Reason != simulate.Stuck || end.State != stages.Stopped {
		t.Errorf("without an order it is %s (%s), %v", end.State, end.Reason, err)
	}
	w.Orders = []simulate.Order{order(0, stages.Start)}
	if end, err = simulate.Resume(p, stopped.Run, w, nil); err != nil || end.State != stages.Completed || end.At.Duration != minute {
		t.Errorf("started again it is %s after %s, %v", end.State, end.At.Duration, err)
	}
	ended := end.Run
	w.Orders, w.Start = nil, w.Start.Add(time.Hour)
	if end, err = simulate.Resume(p, ended, w, nil); err != nil || end.Reason != simulate.Ended || end.At.Duration != minute-time.Hour || cmp.Diff(ended, end.Run) != "" {
		t.Errorf("of a run that has ended it says %s (%s) at %s, %v", end.State, end.Reason, end.At.Duration, err)
	}
	if _, err := simulate.Resume(plan(t, strategy(1, nil), fleet(4)), ended, w, nil); err == nil {
		t.Error("a run of another plan is resumed")
	}
}

// The rollback of a resumed run is another run, which is not simulated.
func TestARunThatIsResumedIsNotRolledBack(t *testing.T) {
	p := plan(t, backStrategy(nil), fleet(1, 1, 1))
	w := rollbackEnvironment("c2")
	part := w
	part.Until = 90 * second
	_, then := play(t, p, part)
	w.Start = simulate.DefaultStart().Add(90 * second)
	got, end := events(t, func(tell func(simulate.Event) error) (simulate.End, error) {
		return simulate.Resume(p, then.Run, w, tell)
	})
	if end.State != stages.Failed || end.At.Duration != 30*second || end.Back != nil || got[len(got)-1].Type != stages.RunFailed {
		t.Errorf("it is %s after %s, with a rollback %+v, and ends with %s", end.State, end.At.Duration, end.Back, got[len(got)-1].Type)
	}
}
