package runner

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/commands"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/step"
)

// A calendar may arrive between a save with an unknown outcome and the read that resolves the
// outcome. It is still new after that, because the saved step did not have it.
func TestCalendarArrivingDuringAnUnknownSaveStaysNew(t *testing.T) {
	in, run := newInput(), &step.Run{}
	in.setCalendar(closed{"not known"})
	began := in.mark()
	in.setCalendar(closed{"another one"})
	in.consumed(began, run)
	if !in.NewCalendar || in.Calendar != (closed{"another one"}) {
		t.Errorf("the calendar is %v, new: %v, want the other one, which no step has used", in.Calendar, in.NewCalendar)
	}
	in.consumed(in.mark(), run)
	if in.NewCalendar {
		t.Error("the calendar is new after a step that had it was saved")
	}
}

// Observations and measurements that arrive while a save is unsure stay in the input, because the
// saved step did not have them.
func TestObservationsArrivingDuringAnUnknownSaveStay(t *testing.T) {
	observed := func(clusters ...string) (out []stages.Observation) {
		for _, c := range clusters {
			out = append(out, stages.Observation{Cluster: c})
		}
		return out
	}
	in := newInput()
	in.Observations, in.Measured = observed("a", "b"), []check.Measured{{Query: "x"}}
	began := in.mark()
	in.Observations, in.Measured = append(in.Observations, observed("c")...), append(in.Measured, check.Measured{Query: "y"})
	in.consumed(began, &step.Run{})
	if diff := cmp.Diff(observed("c"), in.Observations); diff != "" {
		t.Errorf("observations: %s", diff)
	}
	if len(in.Measured) != 1 || in.Measured[0].Query != "y" {
		t.Errorf("measurements: %+v", in.Measured)
	}
	if in.Unwatched {
		t.Error("the clusters count as unwatched after the first step")
	}
}

// stored returns commands with these IDs, and their records. A record without an ID cannot be read.
func stored(ids ...string) (cs []stages.Command, all []commands.Stored) {
	for i, id := range ids {
		all = append(all, commands.Stored{ID: id, Record: backend.Record{Key: fmt.Sprintf("command/uid/%d", i), Revision: backend.Revision(fmt.Sprint(i))}})
		if id != "" {
			cs = append(cs, stages.Command{ID: id})
		}
	}
	return cs, all
}

// A command stays in the input, and in the store, until a saved run has processed it. A command
// that cannot be read is deleted.
func TestACommandStaysUntilItIsProcessed(t *testing.T) {
	in, run := newInput(), &step.Run{}
	run.Form(runstate.Key{}).Seen = []string{"old"}
	cs, all := stored("old", "a", "", "b")
	if more := in.setCommands(cs, all, run); more || len(in.Commands) != 2 || !in.commanded {
		t.Fatalf("commands %+v, more: %t", in.Commands, more)
	}
	run.Form(runstate.Key{}).Seen = []string{"old", "a"}
	var dropped []string
	for _, w := range in.drops(run) {
		dropped = append(dropped, w.Key)
	}
	if diff := cmp.Diff([]string{"command/uid/0", "command/uid/1", "command/uid/2"}, dropped); diff != "" {
		t.Errorf("deletions: %s", diff)
	}
	in.consumed(in.mark(), run)
	if len(in.Commands) != 1 || in.Commands[0].ID != "b" || len(in.stored) != 1 || len(in.drops(run)) != 0 {
		t.Errorf("after the save: commands %+v, records %+v", in.Commands, in.stored)
	}
}

// A step has at most sixteen commands; the others stay stored for the next step.
func TestAStepHasSixteenCommands(t *testing.T) {
	var ids []string
	for i := range 17 {
		ids = append(ids, fmt.Sprint(i))
	}
	cs, all := stored(ids...)
	in := newInput()
	if more := in.setCommands(cs, all, &step.Run{}); !more || len(in.Commands) != 16 {
		t.Errorf("%d commands, more: %t", len(in.Commands), more)
	}
}
