package watch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
	"github.com/slipway-dev/slipway/watch"
)

// A frame says how far the rollback of its run is: nothing is called rolled back before it is.
func TestFrameShowsTheStateOfARollback(t *testing.T) {
	t.Parallel()
	s := scenes()["rolled-back"]
	s.clusters = fleetOf()
	m := s.model(t)
	why := m.Status.Run.Form(runstate.Key{}).RollbackRequest.Message
	for want, back := range map[string]fleet.Rollback{
		"it is going to be rolled back: " + why:                      {},
		"run back is about to roll it back: " + why:                  {By: "back", Pending: true},
		"run back rolls it back and is Running: " + why:              {By: "back", State: stages.Running},
		"run back rolls it back and is Stopped: " + why:              {By: "back", State: stages.Stopped},
		"rolled back by run back: " + why:                            {By: "back", State: stages.Completed},
		"run back, which rolls it back, is Failed: " + why:           {By: "back", State: stages.Failed},
		"rolled back by run back, which was deleted: " + why:         {By: "back"},
		"not rolled back: 3 keep their revision: it is irreversible": {Refused: "3 keep their revision: it is irreversible"},
	} {
		m.Rollback = back
		got := watch.Frame(m, 200, 24, watch.Style{})
		if !strings.Contains(got, "\n  "+want+"\n") || strings.Count(got, "roll") != 1 {
			t.Errorf("%+v: want %q\n%s", back, want, got)
		}
	}
	m.Status.Run.Form(runstate.Key{}).RollbackRequest, m.Rollback = nil, fleet.Rollback{By: "undo", State: stages.Running} // by command, after the end
	if got := watch.Frame(m, 200, 24, watch.Style{}); !strings.Contains(got, "run undo rolls it back and is Running\n") {
		t.Errorf("by command:\n%s", got)
	}
}

// The forecast has people answer at once. While one is waited for, the frame says how long the
// run takes after the answer, and a run that is late is not said to end in 0s.
func TestFrameExcludesPendingApprovalsFromTheForecast(t *testing.T) {
	t.Parallel()
	atGate := scene{strategy: rollout(), clusters: fleetOf(), world: simulate.Environment{Orders: toProd()[:1]}, at: 15 * time.Minute}
	held := scene{strategy: rollout(), clusters: fleetOf(), at: -1}
	flying := scene{strategy: rollout(), clusters: fleetOf(), world: simulate.Environment{Orders: toProd()}, at: 68 * time.Minute}
	for _, c := range []struct {
		scene scene
		left  time.Duration
		want  string
	}{
		{atGate, 12 * time.Minute, "ends about 12m00s after the approval"},
		{atGate, 0, "ends with the approval"},
		{atGate, -time.Minute, "ends with the approval"},
		{held, 12 * time.Minute, "ends about 12m00s after the start"},
		{flying, 12 * time.Minute, "ends about 10:20:00, in 12m00s"},
		{flying, 0, "was expected to end at 10:08:00"},
		{flying, -time.Minute, "was expected to end at 10:07:00"},
	} {
		m := c.scene.model(t)
		m.End = m.Now.Add(c.left)
		if got := watch.Frame(m, 120, 24, watch.Style{}); !strings.Contains(got, ", "+c.want) || strings.Contains(got, "in 0s, ") {
			t.Errorf("want %q\n%s", c.want, got)
		}
	}
}

// A wait is as long as people read it, and a run that removes a placement has no snapshot.
func TestWordsForPeople(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 3, 9, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		810*time.Hour + 17*time.Minute + 37747*time.Millisecond: "for=33d18h", 90 * time.Second: "for=1m30s", 1500 * time.Millisecond: "for=1.5s",
		1234567 * time.Nanosecond: "for=1ms",
	} {
		if got := watch.Line(stages.Event{Time: at, Type: stages.WaitStarted, Run: "web", Until: at.Add(d)}); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
	s := scenes()["fresh"]
	s.strategy, s.clusters = rollout(), fleetOf()
	m := s.model(t)
	m.Status.Plan.Index = -1
	if got := watch.Frame(m, 80, 24, watch.Style{}); !strings.Contains(got, "scenario, no snapshot") || strings.Contains(got, "-1") {
		t.Errorf("without a snapshot:\n%s", got)
	}
}
