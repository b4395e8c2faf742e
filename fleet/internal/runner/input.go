package runner

import (
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/commands"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// commandsAtOnce is the maximum number of commands in one step. It is well below the number of
// commands that a run remembers.
const commandsAtOnce = 16

// input collects the facts that no saved step of a run has had yet.
type input struct {
	stages.Input
	// stored are the records of the commands.
	stored []commands.Stored
	// commanded reports whether the run has received a command since it was taken.
	commanded bool
	// calendars is the number of calendars that the input has had.
	calendars int
}

// mark is the part of an input that one step has: the numbers of observations, measurements and
// calendars.
type mark struct{ observations, measured, calendars int }

// newInput returns the input of the first step of a driver.
func newInput() *input { return &input{Input: stages.Input{Unwatched: true}} }

// mark marks all that the input has now.
func (in *input) mark() mark {
	return mark{observations: len(in.Observations), measured: len(in.Measured), calendars: in.calendars}
}

// setCalendar replaces the calendar.
func (in *input) setCalendar(c stages.Calendar) {
	in.Calendar, in.NewCalendar = c, true
	in.calendars++
}

// setCommands replaces the commands by the stored commands that the run has not processed. It
// reports whether there are too many for one step.
func (in *input) setCommands(cs []stages.Command, stored []commands.Stored, run *step.Run) (more bool) {
	cs = slices.DeleteFunc(cs, func(c stages.Command) bool { return slices.Contains(run.Form(runstate.Key{}).Seen, c.ID) })
	if more = len(cs) > commandsAtOnce; more {
		cs = cs[:commandsAtOnce]
	}
	in.Commands, in.stored, in.commanded = cs, stored, in.commanded || len(stored) > 0
	return more
}

// addCommands adds stored commands that the run has neither processed nor had before. There must be
// room for them in one step.
func (in *input) addCommands(cs []stages.Command, stored []commands.Stored, run *step.Run) {
	cs = slices.DeleteFunc(cs, func(c stages.Command) bool {
		return slices.ContainsFunc(in.stored, func(s commands.Stored) bool { return s.ID == c.ID })
	})
	stored = slices.DeleteFunc(stored, func(s commands.Stored) bool {
		return slices.ContainsFunc(in.stored, func(had commands.Stored) bool { return s.Key == had.Key })
	})
	in.setCommands(slices.Concat(in.Commands, cs), slices.Concat(in.stored, stored), run)
}

// drops returns the deletions of the commands that a run has processed. If a deletion fails, the
// run recognizes the command by its ID when it is read again.
func (in *input) drops(run *step.Run) (out []backend.Write) {
	for _, s := range in.stored {
		if hasProcessed(run, s.ID) {
			out = append(out, record.Delete(s.Key, s.Revision))
		}
	}
	return out
}

// consumed removes the input of a saved step: the marked observations and measurements, and the
// commands that the run has processed. Later input stays, such as a newer calendar.
func (in *input) consumed(m mark, run *step.Run) {
	in.Observations = slices.Clone(in.Observations[m.observations:])
	in.Measured = slices.Clone(in.Measured[m.measured:])
	in.Unwatched, in.NewCalendar = false, in.NewCalendar && m.calendars != in.calendars
	in.Commands = slices.DeleteFunc(in.Commands, func(c stages.Command) bool { return hasProcessed(run, c.ID) })
	in.stored = slices.DeleteFunc(in.stored, func(s commands.Stored) bool { return hasProcessed(run, s.ID) })
}

// hasProcessed reports whether a run has processed the command with this ID. An unreadable command
// has no ID and counts as processed.
func hasProcessed(r *step.Run, id string) bool {
	return id == "" || slices.Contains(r.Form(runstate.Key{}).Seen, id)
}
