package runner

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// errRetake ends a driver that took its run before the run's turn came. Other runs have written to
// clusters at newer epochs since, so an engine must take the run again with a newer epoch.
var errRetake = fmt.Errorf("%w: taken again", backend.ErrFenced)

// queuer asks a placement whether it is the turn of a run.
type queuer struct {
	entry     lifecycle.Entry
	placement string
	epoch     int64
	plan      *stages.Plan
	// advance applies an input to the placement.
	advance func(context.Context, string, *state.Transition) (*record.Placement, lifecycle.Outcome, error)
	// first is the placement's record from when the run was taken; nil after the first turn.
	first *record.Placement
}

// newQueuer returns the queuer of a run that has just been taken, with the placement's record from
// then.
func newQueuer(e *engine, t *tenure, first *record.Placement) *queuer {
	return &queuer{
		entry:     lifecycle.Entry{UID: t.uid, Run: t.name, Index: t.plan.Index},
		placement: t.placement, epoch: t.epoch, plan: t.plan, advance: e.State.Advance, first: first,
	}
}

// knows reports whether the placement knew the run when it was taken. It must be called before the
// first turn.
func (q *queuer) knows() bool { return q.first.HasRun(q.entry.UID) }

// turn returns the run that is ahead of this run, and the run that has superseded it before it
// started. Both are empty if the run may go on.
func (q *queuer) turn(ctx context.Context, run *step.Run, cs []stages.Command) (ahead, supersededBy string, err error) {
	first := q.first
	q.first = nil
	asked := q.question(run, cs)
	_, waits := asked.(lifecycle.TurnAsked)
	// An old record is safe here. A run keeps its place until it has ended. If the run was ended or
	// deleted since, the save of the turn fails, because it is conditional on the run's record that
	// was written with the placement's.
	if asked == nil || waits && first != nil && first.HasTurn(q.entry, first.Placement.Admission) {
		return "", "", nil
	}
	rec, out, err := q.advance(ctx, q.placement, &state.Transition{Input: state.Always(asked)})
	if err != nil {
		return "", "", err
	}
	if out.Turn.Retake {
		return "", "", fmt.Errorf("run %s: its turn has come at epoch %d, and it was taken at %d: %w", q.entry.Run, rec.Epoch, q.epoch, errRetake)
	}
	if waits {
		supersededBy = out.Turn.SupersededBy
	}
	return cmp.Or(out.Turn.WaitsFor, out.Turn.SupersededBy), supersededBy, nil
}

// question returns the question that a run has for its placement before its next step with these
// commands; nil if it has none. A run that has not started asks whether it is its turn. A failed
// run that is retried asks whether it may become the active run again.
func (q *queuer) question(run *step.Run, cs []stages.Command) lifecycle.Input {
	starting := slices.ContainsFunc(cs, func(c stages.Command) bool {
		return c.Verb == stages.Start || c.Verb == stages.Retry && run.State != stages.NotStarted
	})
	switch {
	case run.Final(q.plan):
		return nil
	case run.State == stages.Failed && starting:
		return lifecycle.RetryAsked{Entry: q.entry, Attempt: run.Attempt + 1, Epoch: q.epoch}
	case run.Started != 0 || run.Hold && !starting || run.State == stages.Stopped && !starting:
		return nil
	}
	return lifecycle.TurnAsked{Entry: q.entry, Epoch: q.epoch}
}
