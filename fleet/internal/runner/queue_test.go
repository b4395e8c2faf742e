package runner

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// A run asks for its turn before it starts, unless it is held or was stopped, and again if it has
// failed and is retried. It does not ask while it is under way or after its end.
func TestARunAsksForItsTurn(t *testing.T) {
	entry := lifecycle.Entry{UID: "uid", Run: "r", Index: 3}
	turn, retry := lifecycle.TurnAsked{Entry: entry, Epoch: 2}, lifecycle.RetryAsked{Entry: entry, Attempt: 2, Epoch: 2}
	for name, c := range map[string]struct {
		run  step.Run
		verb stages.Verb
		want lifecycle.Input
	}{
		"new":                     {run: step.Run{State: stages.NotStarted}, want: turn},
		"waiting":                 {run: step.Run{State: stages.Pending}, want: turn},
		"held":                    {run: step.Run{State: stages.NotStarted, Hold: true}},
		"held and started":        {run: step.Run{State: stages.NotStarted, Hold: true}, verb: stages.Start, want: turn},
		"held and retried":        {run: step.Run{State: stages.NotStarted, Hold: true}, verb: stages.Retry},
		"stopped before it began": {run: step.Run{State: stages.Stopped}},
		"and started again":       {run: step.Run{State: stages.Stopped}, verb: stages.Start, want: turn},
		"running":                 {run: step.Run{State: stages.Running, Started: 1}},
		"stopped and started":     {run: step.Run{State: stages.Stopped, Started: 1}, verb: stages.Start},
		"failed":                  {run: step.Run{State: stages.Failed, Started: 1, Attempt: 1}},
		"failed and retried":      {run: step.Run{State: stages.Failed, Started: 1, Attempt: 1}, verb: stages.Retry, want: retry},
		"superseded early":        {run: step.Run{State: stages.Superseded}},
		"completed and retried":   {run: step.Run{State: stages.Completed, Started: 1}, verb: stages.Retry},
	} {
		q := &queuer{entry: entry, epoch: 2, plan: &stages.Plan{Strategy: stages.Strategy{Profile: stages.ClusterUpdate}}}
		var cs []stages.Command
		if c.verb != "" {
			cs = append(cs, stages.Command{Verb: c.verb})
		}
		if diff := cmp.Diff(c.want, q.question(&c.run, cs)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// The answer to a run is the run ahead of it or the run that supersedes it. If its turn has come
// and it was taken at an older epoch, it must be taken again.
func TestTheTurnOfARun(t *testing.T) {
	for name, c := range map[string]struct {
		turn      lifecycle.Turn
		run       step.Run
		verb      stages.Verb
		ahead, by string
		retake    bool
	}{
		"it starts":                {turn: lifecycle.Turn{Starts: true}},
		"another is ahead":         {turn: lifecycle.Turn{WaitsFor: "first"}, ahead: "first"},
		"it was superseded":        {turn: lifecycle.Turn{SupersededBy: "newer"}, ahead: "newer", by: "newer"},
		"it starts at a new epoch": {turn: lifecycle.Turn{Starts: true, Retake: true}, retake: true},
		"a superseded one is retried": {
			turn: lifecycle.Turn{SupersededBy: "newer"}, run: step.Run{State: stages.Failed}, verb: stages.Start, ahead: "newer",
		},
	} {
		q := &queuer{
			entry: lifecycle.Entry{Run: "r"}, epoch: 2, plan: &stages.Plan{Strategy: stages.Strategy{Profile: stages.ClusterUpdate}},
			advance: func(context.Context, string, *state.Transition) (*record.Placement, lifecycle.Outcome, error) {
				return &record.Placement{}, lifecycle.Outcome{Turn: c.turn}, nil
			},
		}
		ahead, by, err := q.turn(t.Context(), &c.run, []stages.Command{{Verb: c.verb}})
		if ahead != c.ahead || by != c.by || errors.Is(err, errRetake) != c.retake || c.retake != errors.Is(err, backend.ErrFenced) {
			t.Errorf("%s: %q is ahead, %q supersedes it, %v", name, ahead, by, err)
		}
	}
}

// If the record of the placement names a run as active when the run is taken, its first turn asks
// nothing. From then on it asks.
func TestTheFirstTurnOfAnActiveRunIsKnown(t *testing.T) {
	store := memory.NewStore()
	rr, plan, _, _ := started(t, store, "")
	o := options(store)
	placed, _, err := o.State.Placement(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	tenure := newTenure(rr, plan, nil)
	q := newQueuer(newEngine(o), &tenure, placed)
	asked := 0
	q.advance = func(context.Context, string, *state.Transition) (*record.Placement, lifecycle.Outcome, error) {
		asked++
		return placed, lifecycle.Outcome{}, nil
	}
	if !q.knows() {
		t.Error("the placement does not know its active run")
	}
	for turn := range 3 {
		if _, _, err := q.turn(t.Context(), &rr.Run, nil); err != nil || asked != turn {
			t.Errorf("turn %d: asked %d times, %v", turn, asked, err)
		}
	}
}
