package azure

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
	"github.com/slipway-dev/slipway/watch"
)

// run is an update run with all of its events.
type run struct {
	fleet.Status
	fleet.History
}

// get reads a run. If the process that drove it is gone, get opens the store in its place, or
// reaches the next one.
func (s *session) get(ctx context.Context, name string) (r run, err error) {
	r.History, err = s.Run(name).History(ctx, 0)
	r.Status = r.History.Status
	answered, is := errors.AsType[*httpapi.Error](err)
	switch {
	case errors.Is(err, backend.ErrNotFound):
		err = missing("update run", name)
	case err != nil && s.Live && ctx.Err() == nil && (!is || answered.Code >= http.StatusInternalServerError):
		if err = errors.Join(s.Close(), s.open(ctx)); err == nil {
			return s.get(ctx, name)
		}
	}
	return r, err
}

// isGoing reports whether a run was started and has neither ended nor stopped.
func isGoing(state stages.State) bool {
	return slices.Contains([]stages.State{stages.Running, stages.Pending, stages.Stopping}, state)
}

// interval is the interval of readings of runs.
const interval = 100 * time.Millisecond

// direct sends commands to the run, and shows their results and the run. The driving process
// carries them out. If there is none, start drives the run, unless --no-wait is set, and commands
// that start nothing are carried out directly.
func (s *session) direct(ctx context.Context, commands ...stages.Command) error {
	before, err := s.get(ctx, s.name)
	if err != nil {
		return err
	}
	verb := commands[0].Verb
	drives := !s.Live && verb == stages.Start && s.text("no-wait") != "true"
	if drives && isGoing(before.Run.State) {
		commands = nil // it was started before
	}
	ids, err := s.ask(ctx, &before, commands)
	switch {
	case err != nil:
		return err
	case drives:
		return s.drive(ctx, before.Next)
	}
	now, became := before, "is recorded: it counts when updaterun start goes on with the run"
	carryOut := func(ctx context.Context) error {
		live := s.Live
		return wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (done bool, err error) {
			if now, err = s.get(ctx, s.name); err != nil {
				return false, err
			}
			isOpen := func(id string) bool { return !slices.Contains(now.Run.Form(runstate.Key{}).Seen, id) }
			if done = !slices.ContainsFunc(ids, isOpen); done && (live || verb == stages.Stop) {
				became = "is carried out"
			}
			return done && (live || !isGoing(now.Run.State)) || live && !s.Live, nil
		})
	}
	switch {
	case s.Live:
		err = carryOut(ctx)
	case verb == stages.Stop || verb == stages.Skip && !isGoing(before.Run.State):
		err = target.Drive(ctx, s.Engine, s.path, carryOut)
	}
	for _, e := range now.Events[len(before.Events):] {
		if e.Type == stages.CommandRefused {
			err = errors.Join(err, fmt.Errorf("update run %s: %s is refused: %s", s.name, e.Command, e.Message))
		}
	}
	if err != nil {
		return err
	}
	for _, c := range commands {
		what := strings.TrimPrefix(string(c.Scope)+":"+c.Name, ":")
		s.note("updaterun/%s: %s %s", s.name, strings.TrimSpace(strings.ToLower(string(verb))+" "+what), became)
	}
	return s.showRun(now)
}

// ask sends commands to the run, either all or, if one is not allowed, none, and returns their
// ids.
func (s *session) ask(ctx context.Context, r *run, commands []stages.Command) (ids []string, err error) {
	in := stages.Input{Now: time.Now()}
	if in.Commands, err = s.Run(s.name).Recorded(ctx); err != nil {
		return nil, err
	}
	for _, c := range commands {
		if c.Verb == stages.Decide {
			continue // the engine knows the open requests
		}
		if refused := step.AllowedNext(r.Plan, &r.Run, in, c); refused != nil {
			err = errors.Join(err, fmt.Errorf("update run %s: %w", s.name, refused))
		}
		in.Commands = append(in.Commands, c)
	}
	for _, c := range commands {
		if err != nil {
			return nil, err
		}
		c.ID = strings.ToLower(rand.Text())
		if ids = append(ids, c.ID); c.Verb == stages.Decide {
			c.Decision = &approval.Decision{Verdict: approval.Approve}
		}
		err = s.Run(s.name).Command(ctx, c)
	}
	return ids, err
}

// drive drives the runs of the fleet until all of them wait for a person or have ended. It shows
// the named run, from an event number on, and its result; with -o json only the result.
func (s *session) drive(ctx context.Context, after int64) error {
	out, rested := s.Out, false
	if !s.IsTable() {
		out = io.Discard
	}
	err := target.Drive(ctx, s.Engine, s.path, func(ctx context.Context) error {
		_, err := watch.Run(ctx, s.Engine, s.name, s.In, out, watch.Options{
			Interval: interval, After: after, Hint: hint,
			Over: func(*fleet.Status) bool {
				before := rested // later readings are final
				rested = s.rests(ctx)
				return before && rested
			},
		})
		return err
	})
	if errors.Is(err, context.Canceled) || errors.Is(err, watch.ErrLeft) {
		s.note("interrupted; everything is kept, and updaterun start goes on")
		return context.Canceled
	}
	if err != nil {
		return err
	}
	r, err := s.get(ctx, s.name)
	if err != nil {
		return err
	}
	state := s.updateRun(r).Status.Status.State
	switch failed := state == string(stages.Failed); {
	case !s.IsTable():
		err = s.showRun(r)
	case !failed:
		err = s.Said("updaterun/%s: %s", s.name, state)
	}
	if err == nil && state == string(stages.Failed) {
		err = fmt.Errorf("updaterun/%s: %s: %s: %w", s.name, state, r.Run.Reason, cli.ErrUnsuccessful)
	}
	return err
}

// rests reports whether no run of the fleet proceeds without a person.
func (s *session) rests(ctx context.Context) bool {
	runs, err := s.Engine.Placement(s.fleet).RunNames(ctx)
	for _, name := range runs {
		if moves, err := s.Engine.Run(name).Moves(ctx); moves || err != nil {
			return false
		}
	}
	return err == nil
}

// hint returns the command that ends a reason for waiting.
func hint(a stages.Awaited) string {
	switch {
	case a.Kind == stages.AwaitDecision || a.Message == stages.ScheduledStartMessage:
		return "gate update --gate-name " + a.Name + " --state Completed completes it"
	case a.Kind == stages.AwaitTime:
		return "updaterun skip --targets AfterStageWait:" + a.Name + " ends it"
	}
	return ""
}
