package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
)

// newHistory shows events as they are stored, one for each line.
func newHistory(o *options) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:               "history PLACEMENT|run/NAME",
		Short:             "Show what happened to a placement itself, or to a run",
		Args:              cli.Arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: o.completePlacements,
		RunE: o.reading(func(ctx context.Context, t *target.Target, args []string) error {
			read, events, name := t.PlacementHistory, t.Follow, args[0]
			if run, is := strings.CutPrefix(name, "run/"); is {
				read, events, name = t.History, t.FollowRun, run
			}
			if follow && t.Live {
				return o.follow(ctx, events(name, ""))
			}
			h, err := read(ctx, name, 0)
			if missed, is := errors.AsType[*fleet.MissedError](err); is { // the oldest ones are gone; those that are kept are shown
				fmt.Fprintf(o.ErrOut, "%d older events are not kept\n", missed.Events)
				err = nil
			}
			if err != nil {
				return err
			}
			l := cli.NewEvents()
			for _, ev := range h.Events {
				l.AddEvent(ev)
			}
			if err := o.Print(l); err != nil || !follow {
				return err
			}
			return nothingGoesOn(t)
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show events as they happen: to the end of a run, or those of a placement and all its runs")
	return cmd
}

// follow shows events as they come. What cannot be read is said on the other stream, and does not end it.
func (o *options) follow(ctx context.Context, f *httpapi.Follower) error {
	s := o.NewStream()
	var last error
	for ev, err := range f.Events(ctx) {
		if last != nil {
			o.Warn("%v", last)
		}
		if last = err; err != nil {
			continue
		}
		l := cli.NewEvents()
		l.AddEvent(ev)
		if err := s.Show(l); err != nil {
			return err
		}
	}
	return last
}
