package fleet

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/commands"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
)

// id draws an unused ID.
func (a *attacked) id() string {
	a.drawn++
	return fmt.Sprintf("attack-%06d", a.drawn)
}

// volley gives several answers before any is carried out. Some are given twice, or with the ID of
// the previous answer.
func (a *attacked) volley() {
	a.saw("volley", 1)
	id, d := a.id(), a.decision()
	for range 2 + a.rnd.IntN(2) {
		a.give(id, d)
		switch a.rnd.IntN(4) {
		case 0:
		case 1:
			d = a.decision()
		default:
			id, d = a.id(), a.decision()
		}
	}
}

// sameID gives an answer the ID of a command that was carried out, in this run or in an earlier
// one.
func (a *attacked) sameID() {
	if len(a.spent) == 0 {
		return
	}
	c := a.spent[a.rnd.IntN(len(a.spent))].command
	if strings.HasPrefix(c.ID, record.OwnID) {
		return // no other client can use this ID
	}
	if c.Decision != nil && a.rnd.IntN(2) == 0 {
		d := *c.Decision
		d.At = commands.Later(a.e.state.Now(), a.model.now)
		a.give(c.ID, d)
		return
	}
	a.answer(c.ID)
}

// command stops, starts, aborts or supersedes the run.
func (a *attacked) command() {
	switch n := a.rnd.IntN(8); n {
	case 0:
		a.steer(stages.Abort)
	case 1:
		by := a.id()
		a.must(a.e.state.CarryOut(a.t.Context(), new(record.Placement), []lifecycle.Effect{lifecycle.Supersede{Run: lifecycle.Entry{UID: a.rec.Run.UID}, By: lifecycle.Entry{UID: by, Run: "next"}}}))
		a.sent = append(a.sent, stages.Command{ID: record.OwnID + "supersede-" + by, Verb: stages.Supersede, At: a.e.state.Now(), Message: "next"})

	case 2, 3, 4:
		a.steer(stages.Start)
	default:
		a.steer(stages.Stop)
	}
	if a.rnd.IntN(2) == 0 {
		time.Sleep(time.Second) // the answer comes after the command, and before it is carried out
		a.answer(a.id())
	}
}

func (a *attacked) steer(verb stages.Verb) {
	c := stages.Command{ID: a.id(), Verb: verb, At: a.e.state.Now(), By: approval.Identity{Name: "op"}}
	a.must(LateCommand(a.t.Context(), a.e, a.store, "r", c))
	a.sent = append(a.sent, c)
}

// forge writes a command past the engine, with times and names that no engine would write.
func (a *attacked) forge() {
	d := a.decision()
	c := stages.Command{ID: a.id(), Verb: stages.Decide, By: d.By, At: a.e.state.Now(), Decision: &d}
	switch a.rnd.IntN(12) {
	case 0, 1, 2:
		d.At = a.model.opened.Add(-time.Minute)
	case 3:
		d.At = time.Time{}
	case 4:
		c.At = a.model.opened.Add(-time.Hour)
	case 5:
		c.By = approval.Identity{Name: "eve"}
	case 6:
		c.Decision = nil
	}
	a.smuggle(c.ID, c, record.Encode(record.Command{Format: record.Format, Command: c}))
}

// smuggle writes a command to the store, unless its key exists.
func (a *attacked) smuggle(key string, c stages.Command, value []byte) {
	_, err := a.store.Put(a.t.Context(), record.CommandKey(a.rec.Run.UID, key), value, "")
	if errors.Is(err, backend.ErrConflict) {
		return
	}
	a.must(err)
	a.sent = append(a.sent, c)
}

// replay writes the bytes of an old command again, from this run or an earlier one, for the current
// run.
func (a *attacked) replay() {
	if len(a.spent) == 0 {
		return
	}
	old := a.spent[a.rnd.IntN(len(a.spent))]
	key := old.command.ID
	if a.rnd.IntN(2) == 0 {
		key = a.id()
	}
	a.saw("replayed", 1)
	a.smuggle(key, old.command, old.value)
}
