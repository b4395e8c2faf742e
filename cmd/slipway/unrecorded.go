package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/stages"
)

// unrecorded returns the summary of a run that a hub refused, has not taken yet, or has forgotten.
// It returns err unless err says that the run has no record, and backend.ErrConflict if the hub has
// recorded the run since.
func (c call) unrecorded(ctx context.Context, run string, err error) (*fleet.RunSummary, error) {
	if c.Hub == nil || !errors.Is(err, backend.ErrNotFound) {
		return nil, err
	}
	switch s, none := c.Hub.Unrecorded(ctx, run); {
	case none == nil:
		return &s, nil
	case errors.Is(none, backend.ErrConflict):
		return nil, none
	default:
		return nil, err
	}
}

// stateText returns the state of a run with its reason. A hub may not know the state.
func stateText(state stages.State, reason string) string {
	return strings.TrimPrefix(strings.TrimSuffix(string(state)+": "+reason, ": "), ": ")
}

// readAgain is the interval at which the command reads a run of a hub again.
const readAgain = 500 * time.Millisecond

// awaitTaken waits until the hub has taken a run, and says on standard error why it has not. It
// returns the summary of a run that the hub has refused or forgotten, and otherwise nil.
func (o *options) awaitTaken(ctx context.Context, c call, run string) (*fleet.RunSummary, error) {
	for said := ""; ; {
		_, err := c.Run(run).Status(ctx)
		s, err := c.unrecorded(ctx, run, err)
		switch {
		case errors.Is(err, backend.ErrConflict): // it was taken in this moment
		case s == nil || s.State != stages.NotStarted:
			return s, err
		default:
			if text := stateText(s.State, s.Reason); text != said {
				said = text
				fmt.Fprintf(o.ErrOut, "run/%s: %s\n", run, said)
			}
		}
		if !backoff.Sleep(ctx, readAgain) {
			return nil, ctx.Err()
		}
	}
}

// endUnrecorded reports the end of a run without a record.
func (o *options) endUnrecorded(s *fleet.RunSummary) error {
	if err := o.Recorded("run/"+s.Name, "%s", stateText(s.State, s.Reason)); err != nil || s.State == stages.Completed {
		return err
	}
	return cli.Unsuccessful(s.Name, s.State, s.Reason, "")
}

// shownWithin limits how long the command waits until a hub shows the end of a run in its object.
// A hub that was just killed may show it later.
const shownWithin = 10 * time.Second

// awaitShown waits until the objects of a hub show the end of a run and of its rollback, so that
// the next get runs agrees with wait.
func awaitShown(ctx context.Context, c call, e *end) error {
	if c.Hub == nil {
		return nil
	}
	want := map[string]stages.State{e.run.Name: e.run.State}
	if e.back.By != "" && e.back.State != "" {
		want[e.back.By] = e.back.State
	}
	for deadline := time.Now().Add(shownWithin); time.Now().Before(deadline); {
		all, err := c.Runs(ctx)
		shown := err == nil // an error changes nothing about the end
		for i := range all {
			state, is := want[all[i].Name]
			shown = shown && (!is || all[i].State == state)
		}
		if shown {
			return nil
		}
		if !backoff.Sleep(ctx, readAgain) {
			return ctx.Err()
		}
	}
	return nil
}

// served returns an error unless it says that an older engine has no such route.
func served(err error) error {
	if answer, is := errors.AsType[*httpapi.Error](err); is && answer.Reason == "NoRoute" {
		return nil
	}
	return err
}

// sayHalted says on standard error that a run does nothing until a person starts it.
func (o *options) sayHalted(run string, state stages.State) {
	fmt.Fprintf(o.ErrOut, "run/%s: %s: it waits until it is started: %s start %s\n", run, state, o.Name, run)
}

// isHalted reports whether a run waits for a start.
func (c call) isHalted(ctx context.Context, run string) bool {
	waiting, _ := c.Run(run).Waiting(ctx) // only a hint depends on it
	return isHalted(waiting)
}

// isHalted reports whether a run with these waits waits for a start.
func isHalted(waiting []stages.Awaited) bool {
	return slices.ContainsFunc(waiting, func(a stages.Awaited) bool { return a.Kind == stages.AwaitStart })
}
