package simulate_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

func TestStepLimit(t *testing.T) {
	p := plan(t, strategy(1, nil), fleet(1))
	w := simulate.Environment{Members: map[string]simulate.Member{"c1": {Fail: simulate.Always}}, Steps: 50}
	_, err := simulate.Run(p, w, nil)
	if !errors.Is(err, simulate.ErrSteps) || !strings.Contains(err.Error(), "50") {
		t.Errorf("error = %v", err)
	}
}

func TestAnErrorOfTellEndsTheSimulation(t *testing.T) {
	p := plan(t, strategy(1, nil), fleet(5))
	broken, calls := errors.New("broken"), 0
	_, err := simulate.Run(p, simulate.Environment{Default: tenSeconds}, func(simulate.Event) error {
		calls++
		if calls == 3 {
			return broken
		}
		return nil
	})
	if !errors.Is(err, broken) || calls != 3 {
		t.Errorf("error = %v after %d calls", err, calls)
	}
}

func TestInvalidEnvironmentReportsAllProblems(t *testing.T) {
	w := simulate.Environment{
		Until: -1, Default: simulate.Member{Take: -1}, Churn: []simulate.Change{{At: -1}},
		Orders: []simulate.Order{{At: -1}, {Command: stages.Command{Verb: stages.Decide}}},
		Members: map[string]simulate.Member{"c1": {
			Fail: -2, Unreachable: []simulate.Interval{{From: -1}}, Unhealthy: []simulate.Interval{{From: 2, To: 1}},
		}},
	}
	_, err := simulate.Run(plan(t, strategy(1, nil), fleet(1)), w, nil)
	for _, want := range []string{
		"until:", "default.take:", "churn[0].at:", "orders[0].at:", "orders[1].command.decision:",
		"members[c1].fail:", "members[c1].unreachable[0]:", "members[c1].unhealthy[0]:",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("there is no %q in %v", want, err)
		}
	}
}

func TestEventsHaveTheTimesOfTheWorldsStart(t *testing.T) {
	start := time.Date(2026, time.March, 1, 12, 0, 0, 5e8+3, time.UTC)
	_, err := simulate.Run(plan(t, strategy(1, nil), fleet(1)), simulate.Environment{Start: start, Default: tenSeconds}, func(e simulate.Event) error {
		if want := stages.At(start).Time().Add(e.At.Duration); !e.Time.Equal(want) {
			t.Errorf("%s at %s has the time %s", e.Type, e.At.Duration, e.Time)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// nights is a calendar that opens after an hour, and closes an hour later.
type nights struct{ start time.Time }

func (n nights) Window(pos int, at time.Time) stages.Window {
	from, to := n.start.Add(time.Hour), n.start.Add(2*time.Hour)
	switch {
	case pos > 0:
		return stages.Window{Open: true}
	case at.Before(from):
		return stages.Window{Limited: true, Until: from, Reason: "too early"}
	case at.Before(to):
		return stages.Window{Limited: true, Open: true, Until: to}
	default:
		return stages.Window{Limited: true, Reason: "too late"}
	}
}

func TestAClusterOutsideItsWindowWaitsForIt(t *testing.T) {
	p := plan(t, strategy(1, nil), fleet(2))
	w := simulate.Environment{Default: tenSeconds, Calendar: nights{simulate.DefaultStart()}}
	script(t, p, w, `
		0s RunStarted
		0s StageStarted s1
		0s ClusterPending s1 c1: too early
		0s ClusterStarted s1 c2
		10s ClusterApplied s1 c2
		10s ClusterCompleted s1 c2
		1h0m0s ClusterStarted s1 c1
		1h0m10s ClusterApplied s1 c1
		1h0m10s ClusterCompleted s1 c1
		1h0m10s StageCompleted s1
		1h0m10s RunCompleted`)
}
