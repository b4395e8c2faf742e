package fleet_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/storebench"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// newConstantEnv returns clusters with a constant duration, windows, and an authority that approves
// at once.
func newConstantEnv(t *testing.T, clusters int, take time.Duration, rules calendar.Rules) (*engineEnv, *fleet.Engine) {
	w := newSmallEnv(t, clusters)
	u := &modelled{begun: time.Now(), attempts: map[string]simulate.Attempt{}, environment: &simulate.Environment{Default: simulate.Member{Take: take}}}
	e := w.newEngine(constantConfig(u, rules))
	w.declare(e, smallPlacement("p"))
	return w, e
}

// constantConfig has an authority that approves everything.
func constantConfig(u backend.Updater, rules calendar.Rules) fleet.Config {
	return fleet.Config{
		Updater: u, CallTimeout: 2 * time.Hour, Lease: 6 * time.Hour,
		Authority: approval.Func(func(context.Context, approval.Request) (approval.Decision, error) {
			return approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: "gatekeeper"}}, nil
		}),
		Windows: fleet.WindowsFunc(func(context.Context, *stages.Plan) (calendar.Rules, error) { return rules, nil }),
	}
}

func (w *engineEnv) forecast(e *fleet.Engine, run string, a fleet.Assumptions) fleet.Forecast {
	w.t.Helper()
	f, err := e.Run(run).Forecast(w.t.Context(), a)
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

// If all clusters take the same time, every forecast during a run predicts the actual end, and an
// engine that has read nothing yet predicts the same.
func TestAForecastOfAnActiveRunSaysWhenItEnds(t *testing.T) {
	const take = 4 * time.Minute
	wait, gate := stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: 7 * time.Minute}}, stages.Task{Type: stages.Approval}
	edit := func(s stages.Strategy, change func(*stages.Strategy)) stages.Strategy {
		change(&s)
		return s
	}
	within := func(op metav1.LabelSelectorOperator) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "n", Operator: op, Values: []string{"1", "2"}}}}
	}
	for name, c := range map[string]struct {
		strategy stages.Strategy
		rules    calendar.Rules
	}{
		"one at a time":   {strategy: allAtOnce(1)},
		"three at a time": {strategy: allAtOnce(3)},
		"waits and gates": {strategy: edit(allAtOnce(2, wait, gate), func(s *stages.Strategy) { s.Stages[0].Before = []stages.Task{gate, wait} })},
		"soak":            {strategy: edit(allAtOnce(2), func(s *stages.Strategy) { s.MinHealthy.Duration = 3 * time.Minute })},
		"groups": {strategy: edit(allAtOnce(2), func(s *stages.Strategy) {
			s.Stages[0].Groups = []stages.Group{
				{Name: "first", Selector: within(metav1.LabelSelectorOpIn), After: []stages.Task{wait}},
				{Name: "rest", Selector: within(metav1.LabelSelectorOpNotIn), Before: []stages.Task{wait, gate}},
			}
		})},
		"windows": {strategy: allAtOnce(2), rules: nightly()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, e := newConstantEnv(t, 6, take, c.rules)
				w.create(e, fleet.RunSpec{Name: "r", Placement: "p", Strategy: c.strategy})
				stop := running(t, e)
				time.Sleep(time.Second)
				forecasts, first := 0, w.forecast(e, "r", fleet.Assumptions{Take: metav1.Duration{Duration: take}})
				for {
					status, err := e.Run("r").Status(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					now, f := time.Now(), w.forecast(e, "r", fleet.Assumptions{Take: metav1.Duration{Duration: take}})
					if status.Run.IsEnded() {
						if want := status.Run.Ended.Time(); !f.Ends.Equal(want) || f.End.State != stages.Completed || !first.Ends.Equal(want) {
							t.Errorf("it ended at %s as %s; the forecasts said %s at first and %s at last", want, status.Run.State, first.Ends, f.Ends)
						}
						break
					}
					if diff := cmp.Diff(f.Stages, w.forecast(w.newEngine(constantConfig(&modelled{}, c.rules)), "r", fleet.Assumptions{Take: metav1.Duration{Duration: take}}).Stages); diff != "" {
						t.Errorf("the forecast of an engine that has read nothing differs at %s: %s", now, diff)
					}
					if forecasts++; !f.Ends.Equal(first.Ends) || !f.Now.Equal(now.UTC().Truncate(time.Millisecond)) || f.Assumes != "" || f.Why != "" {
						t.Fatalf("forecast %d, of %s: ends at %s (%s), of %s it was %s", forecasts, f.Now, f.Ends, f.Why, first.Now, first.Ends)
					}
					time.Sleep(53 * time.Second)
				}
				stop()
				if forecasts < 8 {
					t.Errorf("only %d forecasts were made", forecasts)
				}
			})
		})
	}
}

// If clusters are slower than the known durations, the forecast predicts a later end. Durations
// from an earlier run grow in proportion to the delay of this run's clusters. A cluster that takes
// longer than all others is predicted to be done at once.
func TestAForecastLearnsFromTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 4)
		u := &modelled{begun: time.Now(), attempts: map[string]simulate.Attempt{}, environment: &simulate.Environment{Members: map[string]simulate.Member{
			"c00": {Take: time.Minute}, "c01": {Take: time.Minute}, "c02": {Take: 2 * time.Minute}, "c03": {Take: 3 * time.Minute},
		}}}
		e := w.newEngine(fleet.Config{Updater: u, CallTimeout: 2 * time.Hour, Lease: 6 * time.Hour})
		w.declare(e, smallPlacement("p"))
		stop := running(t, e)
		w.create(e, fleet.RunSpec{Name: "before", Placement: "p", Strategy: allAtOnce(4)})
		w.within(time.Hour, "before", stages.Completed)
		for name, m := range u.environment.Members {
			u.environment.Members[name] = simulate.Member{Take: 5 * m.Take}
		}
		clear(u.attempts)
		w.source = memory.NewSource(plain("v2"))
		w.create(e, fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(1)})
		began := time.Now()
		in := func(at time.Duration) time.Duration {
			time.Sleep(time.Until(began.Add(at)))
			return w.forecast(e, "r", fleet.Assumptions{}).Ends.Sub(began)
		}
		for _, c := range []struct{ at, want time.Duration }{
			{30 * time.Second, 7 * time.Minute}, // as in the run before: 1 + 1 + 2 + 3 minutes
			{4 * time.Minute, 10 * time.Minute}, // the first one is late, and is done any moment
			{6 * time.Minute, 35 * time.Minute}, // it took five times as long
		} {
			if got := in(c.at); got.Round(time.Second) != c.want {
				t.Errorf("after %s the run is to end after %s, want %s", c.at, got, c.want)
			}
		}
		w.within(2*time.Hour, "r", stages.Completed)
		stop()
	})
}

// A cluster that has taken longer than most is predicted to need as long as those that took even
// longer.
func TestAForecastOfAClusterThatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 4)
		u := &modelled{begun: time.Now(), attempts: map[string]simulate.Attempt{}, environment: &simulate.Environment{Members: map[string]simulate.Member{
			"c00": {Take: 9 * time.Minute}, "c01": {Take: 2 * time.Minute}, "c02": {Take: 2 * time.Minute}, "c03": {Take: time.Hour},
		}}}
		e := w.newEngine(fleet.Config{Updater: u, CallTimeout: 2 * time.Hour, Lease: 6 * time.Hour})
		w.declare(e, smallPlacement("p"))
		stop := running(t, e)
		defer stop()
		w.create(e, fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(1)})
		began := time.Now()
		for _, c := range []struct{ at, want time.Duration }{
			{14 * time.Minute, 15 * time.Minute}, // most needed 2 minutes, and it began after 13
			{16 * time.Minute, 22 * time.Minute}, // one needed 9
			{30 * time.Minute, 30 * time.Minute}, // longer than all
		} {
			time.Sleep(time.Until(began.Add(c.at)))
			f := w.forecast(e, "r", fleet.Assumptions{})
			if got := f.Ends.Sub(began).Round(time.Second); got != c.want || f.Known != 3 || f.Typical.Duration != 2*time.Minute {
				t.Errorf("after %s it is to end after %s, want %s; %d are known, %s is typical", c.at, got, c.want, f.Known, f.Typical.Duration)
			}
		}
	})
}

// A retried attempt began at the end of its backoff.
func TestAForecastOfAnAttemptThatWasMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 1)
		u := &modelled{begun: time.Now(), attempts: map[string]simulate.Attempt{}, environment: &simulate.Environment{Default: simulate.Member{Take: 4 * time.Minute, Fail: 1}}}
		e := w.newEngine(fleet.Config{Updater: u, CallTimeout: 2 * time.Hour, Lease: 6 * time.Hour})
		w.declare(e, smallPlacement("p"))
		stop := running(t, e)
		defer stop()
		s := allAtOnce(1)
		s.Attempts, s.Backoff.Duration = 2, time.Minute
		w.create(e, fleet.RunSpec{Name: "r", Placement: "p", Strategy: s})
		began := time.Now()
		for _, at := range []time.Duration{4*time.Minute + 30*time.Second, 6 * time.Minute} {
			time.Sleep(time.Until(began.Add(at)))
			if got := w.forecast(e, "r", fleet.Assumptions{Take: metav1.Duration{Duration: 4 * time.Minute}}).Ends.Sub(began).Round(time.Second); got != 9*time.Minute {
				t.Errorf("after %s it is to end after %s, want 9m", at, got)
			}
		}
		w.within(5*time.Minute, "r", stages.Completed)
	})
}

// A forecast gives a run the part of a cap that other runs do not hold.
func TestAForecastOfARunUnderACap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := newConstantEnv(t, 6, 4*time.Minute, calendar.Rules{})
		w.declare(e, smallPlacement("q"))
		if err := e.SetCap(t.Context(), "shared", 3); err != nil {
			t.Fatal(err)
		}
		stop := running(t, e)
		defer stop()
		s := allAtOnce(2)
		s.Cap = "shared"
		w.create(e, fleet.RunSpec{Name: "a", Placement: "p", Strategy: s})
		time.Sleep(time.Minute)
		began := time.Now()
		s = allAtOnce(6)
		s.Cap = "shared"
		w.create(e, fleet.RunSpec{Name: "b", Placement: "q", Strategy: s})
		time.Sleep(time.Minute)
		a, b := w.forecast(e, "a", fleet.Assumptions{Take: metav1.Duration{Duration: 4 * time.Minute}}), w.forecast(e, "b", fleet.Assumptions{Take: metav1.Duration{Duration: 4 * time.Minute}})
		if gotA, gotB := a.Ends.Sub(began).Round(time.Second), b.Ends.Sub(began).Round(time.Second); gotA != 11*time.Minute || gotB != 24*time.Minute {
			t.Errorf("two at a time end after %s, want 11m, and one at a time after %s, want 24m", gotA, gotB)
		}
	})
}

// An engine reuses a forecast while only clusters make progress, and makes a new one when the run
// is stopped or is another run.
func TestAForecastIsNewWhenTheRunChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := newConstantEnv(t, 6, 4*time.Minute, calendar.Rules{})
		spec := fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(1)}
		w.create(e, spec)
		stop := running(t, e)
		defer stop()
		time.Sleep(time.Minute)
		forecast := func() fleet.Forecast {
			t.Helper()
			f, err := e.Run("r").Forecast(t.Context(), fleet.Assumptions{})
			if err != nil {
				t.Fatal(err)
			}
			e.Run("r").UseFor(fleet.Assumptions{}, time.Hour)
			time.Sleep(5 * time.Minute)
			return f
		}
		first, again := forecast(), forecast()
		if !again.Now.Equal(first.Now) {
			t.Errorf("there is a forecast of %s although only clusters went on since %s", again.Now, first.Now)
		}
		if err := e.Run("r").Command(t.Context(), stages.Command{Verb: stages.Stop}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if stopped := forecast(); stopped.Assumes == "" || !stopped.Now.After(again.Now) {
			t.Errorf("the forecast of a stopped run is of %s and assumes %q", stopped.Now, stopped.Assumes)
		}
		if err := e.Run("r").Delete(t.Context(), forced); err != nil {
			t.Fatal(err)
		}
		spec.Hold = true
		w.create(e, spec)
		if f := forecast(); len(f.End.Clusters) != 6 || f.Stages[0].Starts.Before(f.Now) {
			t.Errorf("the forecast of another run of that name begins at %s, before %s", f.Stages[0].Starts, f.Now)
		}
	})
}

// The forecast of a run that does not continue by itself names its assumptions. The forecast of a
// run that never ends names the reason. Neither writes anything.
func TestForecastOfABlockedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := newConstantEnv(t, 3, time.Minute, calendar.Rules{})
		spec := fleet.RunSpec{Name: "held", Placement: "p", Hold: true, Strategy: allAtOnce(1, stages.Task{Type: stages.Approval})}
		w.create(e, spec)
		check := func(a fleet.Assumptions, assumes, why string, in time.Duration) {
			t.Helper()
			before := w.records()
			f := w.forecast(e, "held", a)
			ends := time.Now().Add(in).UTC().Truncate(time.Millisecond)
			if in < 0 {
				ends = time.Time{}
			}
			if f.Assumes != assumes || f.Why != why || !f.Ends.Equal(ends) {
				t.Errorf("assumes %q, ends at %s (%q), want %q, %s (%q)", f.Assumes, f.Ends, f.Why, assumes, ends, why)
			}
			if diff := cmp.Diff(before, w.records()); diff != "" {
				t.Errorf("the forecast has written:\n%s", diff)
			}
		}
		check(fleet.Assumptions{}, "it is started now", "", 3*time.Minute)
		check(fleet.Assumptions{Approve: metav1.Duration{Duration: -1}}, "it is started now", "waits for a decision on request held-after-all", -1)
		check(fleet.Assumptions{Until: metav1.Duration{Duration: 2 * time.Minute}}, "it is started now", "goes on for longer than 2m0s", -1)

		stop := running(t, e)
		command := func(verb stages.Verb) {
			t.Helper()
			if err := e.Run("held").Command(t.Context(), stages.Command{Verb: verb}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		command(stages.Start)
		time.Sleep(time.Minute)
		command(stages.Stop)
		time.Sleep(10 * time.Minute)
		stop()
		check(fleet.Assumptions{}, "it is started now", "", time.Minute)

		stop = running(t, e)
		command(stages.Start)
		w.within(time.Hour, "held", stages.Completed)
		time.Sleep(time.Hour)
		stop()
		f := w.forecast(e, "held", fleet.Assumptions{})
		status, err := e.Run("held").Status(t.Context())
		if want := status.Run.Ended.Time(); err != nil || !f.Ends.Equal(want) || len(f.Events) > 0 || f.End.At.Duration != want.Sub(f.Now) || !f.Stages[0].Ends.Equal(want) {
			t.Errorf("it ended at %s, and the forecast says %s, %+v, %v", want, f.Ends, f.Stages, err)
		}
		if _, err := e.Run("none").Forecast(t.Context(), fleet.Assumptions{}); err == nil {
			t.Error("there is a forecast of a run that does not exist")
		}
	})
}

// records returns the keys and revisions of everything in the store.
func (w *engineEnv) records() map[string]backend.Revision {
	out := map[string]backend.Revision{}
	for rec, err := range w.store.List(w.t.Context(), "") {
		if err != nil {
			w.t.Fatal(err)
		}
		out[rec.Key] = rec.Revision
	}
	return out
}

// BenchmarkForecastRun forecasts a run with half of its clusters done, all with different
// durations, and the other half to come, a twentieth at a time. It also measures repeated requests
// without news.
func BenchmarkForecastRun(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("clusters=%d", n), func(b *testing.B) {
			members := memory.NewFleet()
			for i := range n {
				members.Add(placement.Cluster{Name: fmt.Sprintf("cluster-%05d", i), Labels: map[string]string{"half": fmt.Sprint(i % 2)}})
			}
			e, err := fleet.New(fleet.Config{
				Store: memory.NewStore(), Inventory: members, Dialer: members, Source: memory.NewSource(plain("v1")), Updater: storebench.Instant{}, MaxUpdates: 1024,
			})
			if err != nil {
				b.Fatal(err)
			}
			if err := e.PutPlacement(b.Context(), smallPlacement("p")); err != nil {
				b.Fatal(err)
			}
			s := allAtOnce(n / 20)
			second := s.Stages[0]
			s.Stages[0].Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"half": "0"}}
			second.Name, second.Before = "rest", []stages.Task{{Type: stages.Approval}}
			second.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"half": "1"}}
			s.Stages = append(s.Stages, second)
			if _, err := e.CreateRun(b.Context(), fleet.RunSpec{Name: "r", Placement: "p", Strategy: s}); err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan error, 1)
			go func() { done <- e.Start(ctx) }()
			for {
				if requests, err := e.Run("r").Requests(b.Context()); err != nil {
					b.Fatal(err)
				} else if len(requests) > 0 {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			cancel()
			<-done
			b.Run("whole", func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					whole := fleet.Assumptions{Until: metav1.Duration{Duration: time.Duration(i+1)*time.Second + 300*24*time.Hour}} // others than before
					if f, err := e.Run("r").Forecast(b.Context(), whole); err != nil || f.End.State != stages.Completed {
						b.Fatal(f.End.State, err)
					}
				}
			})
			b.Run("again", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if f, err := e.Run("r").Forecast(b.Context(), fleet.Assumptions{}); err != nil || f.End.State != stages.Completed {
						b.Fatal(f.End.State, err)
					}
				}
			})
		})
	}
}
