package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// nothingLeft is what is said when no run was created.
const nothingLeft = "no run was created"

// left says what state the current run was left in. The engine need not run
// for that: it only reads the store.
func (t *tutorial) left() string {
	if t.current == "" {
		return nothingLeft
	}
	s, err := t.engine.Status(context.Background(), t.current)
	if err != nil {
		return err.Error()
	}
	return "run " + s.Run.Name + " was left " + whereabouts(s)
}

// standing says where a run goes on, or that it does not.
func standing(s fleet.Status) string {
	if isOver(s) {
		return fmt.Sprintf("run %s is over: %s", s.Run.Name, whereabouts(s))
	}
	return fmt.Sprintf("run %s goes on: %s", s.Run.Name, whereabouts(s))
}

// isOver reports whether the tutorial does not wait for a run any more. A run that
// was stopped could be started again, but not here.
func isOver(s fleet.Status) bool { return s.Run.IsEnded() || s.Run.State == stages.Stopped }

// whereabouts says how far a run has come.
func whereabouts(s fleet.Status) string {
	out := string(s.Run.State)
	if s.Run.Stage < len(s.Plan.Stages) {
		out += " in stage " + s.Plan.Stages[s.Run.Stage].Name
	}
	done := 0
	for _, state := range stages.States(s.Plan, &s.Run) {
		if state == stages.Completed {
			done++
		}
	}
	out += fmt.Sprintf(", %d of %d clusters done", done, s.Plan.Len())
	if waits := awaited(stages.Waiting(s.Plan, &s.Run)); waits != "" {
		out += ", waiting for " + waits
	}
	return out
}

// awaited names what a run waits for.
func awaited(list []stages.Awaited) string {
	var out []string
	for _, a := range list {
		switch a.Kind {
		case stages.AwaitTime:
			out = append(out, fmt.Sprintf("%s (%s, until %s)", a.Name, a.Message, clock(a.Until)))
		case stages.AwaitDecision:
			out = append(out, "approval "+a.Name)
		default:
			out = append(out, a.Name)
		}
	}
	return strings.Join(out, ", ")
}
