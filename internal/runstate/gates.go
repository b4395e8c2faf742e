package runstate

import (
	"slices"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// Counts returns how many clusters of the stage completed and failed.
func (r *StageRun) Counts() (completed, failed int) {
	for i := range r.Groups {
		completed += r.Groups[i].Completed
		failed += r.Groups[i].Failed
	}
	return completed, failed
}

// Admits reports whether the gates before the group have passed, so that its
// clusters may start.
func (gr *GroupRun) Admits(g *stages.PlannedGroup, run *StageRun) bool {
	if gr.SkipGates || run.SkipGates {
		return true
	}
	return (gr.Reached != 0 || len(g.After) == 0) && GatesPassed(g.Gates, gr.Gates, approval.Before)
}

// WaitsAfter reports whether the group has gates after it that have not passed.
func WaitsAfter(g *stages.PlannedGroup, gr *GroupRun) bool {
	return slices.ContainsFunc(g.Gates, func(pg stages.PlannedGate) bool {
		gate := GateOf(gr.Gates, &pg)
		return pg.When == approval.After && (gate == nil || gate.State == stages.Pending || gate.State == stages.Failed)
	})
}

// PausePassed reports whether the gates of a pause have passed.
func (gr *GroupRun) PausePassed(g *stages.PlannedGroup, run *StageRun) bool {
	return !g.Pause || gr.Admits(g, run)
}

// GatesPassed reports whether every gate on a side has passed.
func GatesPassed(planned []stages.PlannedGate, gates []Gate, when approval.When) bool {
	for i := range planned {
		if planned[i].When != when {
			continue
		}
		if g := GateOf(gates, &planned[i]); g == nil || g.State != stages.Completed && g.State != stages.Skipped {
			return false
		}
	}
	return true
}

// IsNext reports whether all groups before the group have ended.
func IsNext(g *stages.PlannedGroup, run *StageRun) bool {
	return !slices.ContainsFunc(g.After, func(i int) bool { return run.Groups[i].Ended == 0 })
}

// GateOf returns the state of a planned gate, or nil if the run has not reached it.
func GateOf(gates []Gate, pg *stages.PlannedGate) *Gate {
	i := slices.IndexFunc(gates, func(g Gate) bool { return g.When == pg.When && g.Type == pg.Type })
	if i < 0 {
		return nil
	}
	return &gates[i]
}

// EndEvent returns the event of a wait that ended, by time or because a person ended it.
func (g *Gate) EndEvent(by string) stages.Event {
	e := stages.Event{Type: stages.WaitEnded, By: by}
	if g.Type == stages.ScheduledStart {
		e.Message = stages.ScheduledStartMessage
	}
	return e
}
