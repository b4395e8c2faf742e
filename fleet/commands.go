package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages"
)

// commandRecord is a command on its way to the engine that drives the run.
type commandRecord struct {
	Format  int            `json:"format"`
	Command stages.Command `json:"command"`
}

// Command asks something of a run. It returns once the command is stored; the
// engine that drives the run carries it out, or refuses it with a
// CommandRefused event. A command with the ID of one that was given before
// changes nothing; an empty ID is replaced by a new one. At is overwritten.
//
// A decision is given with [Engine.Decide], not here.
func (e *Engine) Command(ctx context.Context, run string, c stages.Command) error {
	switch c.Verb {
	case stages.Start, stages.Stop, stages.Abort, stages.Skip:
	default:
		return fmt.Errorf("run %s: command %q is not one of Start, Stop, Abort and Skip", run, c.Verb)
	}
	rr, _, err := e.runAt(ctx, run)
	if err != nil {
		return err
	}
	c.Decision = nil
	return e.send(ctx, rr.Run.UID, c)
}

// Answer is what somebody answers to an approval request.
type Answer struct {
	// Request is the name of the request, as in example-run-canary.
	Request string
	Verdict approval.Verdict
	// By is who answers, as the host authenticated them.
	By      approval.Identity
	Comment string
	// Binding, where not zero, is what the answer was given for; it is refused
	// if the request is about anything else by now.
	Binding approval.Binding
	// ID makes the answer idempotent; empty for a new one.
	ID string
}

// Decide answers an open approval request of a run. The decision is bound to
// the run's UID, the stage, the attempt and the plan as they are now. It
// returns once the answer is stored, an error matching backend.ErrNotFound
// when there is no such request now, and an *approval.RefusedError when the
// policy does not let this person answer.
func (e *Engine) Decide(ctx context.Context, run string, a Answer) error {
	s, err := e.Status(ctx, run)
	if err != nil {
		return err
	}
	open := stages.Requests(s.Plan, &s.Run)
	i := slices.IndexFunc(open, func(r approval.Request) bool { return r.Name == a.Request })
	if i < 0 {
		return &NotFoundError{Kind: "request", Name: a.Request, Hint: openRequests(run, open)}
	}
	if a.Binding == (approval.Binding{}) {
		a.Binding = open[i].Binding
	}
	d := approval.Decision{Verdict: a.Verdict, By: a.By, At: e.now(), Comment: a.Comment, Binding: a.Binding}
	if _, _, err := approval.Evaluate(open[i], d, e.now()); err != nil {
		return err
	}
	return e.send(ctx, s.Run.UID, stages.Command{ID: a.ID, Verb: stages.Decide, By: a.By, Decision: &d})
}

func openRequests(run string, open []approval.Request) string {
	if len(open) == 0 {
		return "run " + run + " has no open request; one is made when the run reaches its gate"
	}
	var names []string
	for _, r := range open {
		names = append(names, r.Name)
	}
	return "run " + run + " has open " + strings.Join(names, ", ")
}

func (e *Engine) send(ctx context.Context, uid string, c stages.Command) error {
	if c.ID == "" {
		c.ID = newUID()
	}
	c.At = e.now()
	return e.putCommand(ctx, uid, c)
}

// putCommand stores a command; one of the same ID that is stored already is
// left as it is.
func (e *Engine) putCommand(ctx context.Context, uid string, c stages.Command) error {
	rec := commandRecord{Format: recordFormat, Command: c}
	_, err := e.store.Put(ctx, commandKey(uid, c.ID), encodeRecord(rec), "")
	if errors.Is(err, backend.ErrConflict) {
		return nil
	}
	return err
}

// commands returns what is asked of a run, in the order in which it was asked,
// and the records. A record that cannot be read has no id.
func (e *Engine) commands(ctx context.Context, uid string) ([]stages.Command, []takenCommand, error) {
	var cs []stages.Command
	var taken []takenCommand
	for rec, err := range e.store.List(ctx, commandKey(uid, "")) {
		if err != nil {
			return nil, nil, err
		}
		var c commandRecord
		if err := decodeRecord(rec, &c); err != nil {
			e.log.Error("a command was dropped", "error", err)
			taken = append(taken, takenCommand{Record: rec})
			continue
		}
		taken = append(taken, takenCommand{Record: rec, id: c.Command.ID})
		cs = append(cs, c.Command)
	}
	slices.SortStableFunc(cs, func(a, b stages.Command) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID, b.ID))
	})
	return cs, taken, nil
}
