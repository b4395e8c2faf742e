package fleet_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// A forecast uses a cluster's duration from an earlier run, the typical duration for an unknown
// cluster, and the given durations for people.
func TestAForecastTellsWhenARunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 3)
		u := &modelled{begun: time.Now(), attempts: map[string]simulate.Attempt{}, environment: &simulate.Environment{Members: map[string]simulate.Member{
			"c00": {Take: time.Minute}, "c01": {Take: 3 * time.Minute}, "c02": {Take: 2 * time.Minute},
		}}}
		rules := calendar.Rules{}
		e := w.newEngine(fleet.Config{
			Updater: u, CallTimeout: time.Hour, Lease: 3 * time.Hour,
			Windows: fleet.WindowsFunc(func(context.Context, *stages.Plan) (calendar.Rules, error) { return rules, nil }),
		})
		w.declare(e, smallPlacement("p"))
		spec := fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(1, stages.Task{Type: stages.Approval}, stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: 10 * time.Minute}})}

		f, err := forecastOf(t, e, spec, fleet.Assumptions{Take: metav1.Duration{Duration: time.Hour}, Approve: metav1.Duration{Duration: -1}})
		if err != nil || f.Known != 0 || f.Typical.Duration != time.Hour || f.End.Reason != simulate.Stuck || f.End.State != stages.Running {
			t.Errorf("without a run before: %d known, %v each, ends as %s (%s), %v", f.Known, f.Typical.Duration, f.End.State, f.End.Reason, err)
		}

		first := spec
		first.Strategy = allAtOnce(3)
		first.Strategy.MinHealthy.Duration = 30 * time.Second
		w.create(e, first)
		stop := running(t, e)
		w.within(time.Hour, "r", stages.Completed)
		stop()
		spec.Name = "next"
		w.fleet.Add(placement.Cluster{Name: "c03", Labels: map[string]string{"n": "3"}})
		for approve, want := range map[time.Duration]time.Duration{
			// 1 + 3 + 2 + 2 minutes, then the longer one of the wait and the approval.
			0: 18 * time.Minute, 20 * time.Minute: 28 * time.Minute,
		} {
			f, err = forecastOf(t, e, spec, fleet.Assumptions{Approve: metav1.Duration{Duration: approve}})
			if err != nil || f.Known != 3 || f.Typical.Duration != 2*time.Minute || f.End.State != stages.Completed || f.End.At.Duration != want {
				t.Errorf("approved after %v: %d known, %v each, %s after %v, %v; want 3, 2m, Completed after %v", approve, f.Known, f.Typical.Duration, f.End.State, f.End.At.Duration, err, want)
			}
		}
		if started := slices.IndexFunc(f.Events, func(ev simulate.Event) bool { return ev.Type == stages.ClusterStarted && ev.Cluster == "c02" }); f.Events[started].At.Duration != 4*time.Minute {
			t.Errorf("c02 starts after %v, want 4m", f.Events[started].At.Duration)
		}
		thaw := time.Now().Add(time.Hour).Truncate(time.Second)
		rules = frozenUntil(thaw)
		want := time.Until(thaw) + 18*time.Minute
		if f, err = forecastOf(t, e, spec, fleet.Assumptions{}); err != nil || f.End.At.Round(time.Second) != want.Round(time.Second) {
			t.Errorf("under a freeze of an hour the run ends after %v, %v, want %v", f.End.At.Duration, err, want)
		}
		if _, err := e.Run("next").Status(t.Context()); err == nil {
			t.Error("a forecast has created a run")
		}
	})
}

// A forecast ends even if the run would wait for approvals that come after its end, that expire, or
// that the policy lets no known person give.
func TestAForecastDoesNotWaitForApprovalsThatNeverCount(t *testing.T) {
	starter := approval.Identity{Name: "ann"}
	for name, c := range map[string]struct {
		policy  approval.Policy
		starter approval.Identity
		assume  fleet.Assumptions
		want    simulate.Reason
	}{
		"after the end":         {assume: fleet.Assumptions{Approve: metav1.Duration{Duration: 2 * time.Hour}, Until: metav1.Duration{Duration: time.Hour}}, want: simulate.Stuck},
		"after a year":          {assume: fleet.Assumptions{Approve: metav1.Duration{Duration: 364*24*time.Hour + 23*time.Hour + 59*time.Minute + 30*time.Second}}, want: simulate.Stuck},
		"expired":               {policy: approval.Policy{Expires: metav1.Duration{Duration: time.Hour}}, assume: fleet.Assumptions{Approve: metav1.Duration{Duration: 2 * time.Hour}, Until: metav1.Duration{Duration: 5 * time.Hour}}, want: simulate.Cut},
		"not by the starter":    {policy: approval.Policy{ForbidStarter: true}, starter: starter, want: simulate.Ended},
		"the starter not known": {policy: approval.Policy{ForbidStarter: true}, want: simulate.Stuck},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSmallEnv(t, 1)
			e := w.newEngine(fleet.Config{})
			w.declare(e, smallPlacement("p"))
			spec := fleet.RunSpec{Name: "r", Placement: "p", Starter: c.starter, Strategy: allAtOnce(1, stages.Task{Type: stages.Approval, Approval: &c.policy})}
			f, err := forecastOf(t, e, spec, c.assume)
			if refused := c.policy.ForbidStarter && c.starter.Name == ""; (err != nil) != refused || !refused && f.End.Reason != c.want {
				t.Errorf("ends as %s (%s), %v, want %s", f.End.State, f.End.Reason, err, c.want)
			}
		})
	}
}

// forecastOf forecasts a run that does not exist yet.
func forecastOf(t *testing.T, e *fleet.Engine, spec fleet.RunSpec, a fleet.Assumptions) (fleet.Forecast, error) {
	t.Helper()
	p, err := e.Preview(t.Context(), spec)
	if err != nil {
		return fleet.Forecast{}, err
	}
	return p.Forecast(t.Context(), a)
}
