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
	"github.com/slipway-dev/slipway/stages"
)

// newHistory shows events as they are stored, one for each line.
func newHistory(o *options) *cobra.Command {
	var follow bool
	cmd := verb(o, "history PLACEMENT|run/NAME", "Show what happened to a placement itself, or to a run",
		"slipway history web --follow\nslipway history run/web-v2 -o json",
		o.reading(func(ctx context.Context, t *target.Target, args []string) error {
			read, follower, name := t.PlacementHistory, t.Follow, args[0]
			if run, is := strings.CutPrefix(name, "run/"); is {
				read, follower, name = t.History, t.FollowRun, run
			}
			if follow && t.Live {
				s := o.NewStream()
				return o.follow(ctx, follower(name, ""), func(ev stages.Event) error { return s.Show(cli.Events(ev)) })
			}
			h, err := read(ctx, name, 0)
			if missed, is := errors.AsType[*fleet.MissedError](err); is { // the oldest ones are gone; those that are kept are shown
				fmt.Fprintf(o.ErrOut, "%d older events are not kept\n", missed.Events)
				err = nil
			}
			if err != nil {
				return err
			}
			if err := o.Print(cli.Events(h.Events...)); err != nil || !follow {
				return err
			}
			return nothingGoesOn(t)
		}))
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show events as they happen: to the end of a run, or those of a placement and all its runs")
	return cmd
}

// follow passes events to show as they come. What cannot be read is reported on the other stream, and does not end it.
func (o *options) follow(ctx context.Context, f *httpapi.Follower, show func(stages.Event) error) error {
	var last error
	for ev, err := range f.Events(ctx) {
		if last != nil {
			o.Warn("%v", last)
		}
		if last = err; err != nil {
			continue
		}
		if err := show(ev); err != nil {
			return err
		}
	}
	return last
}

// newExplain explains what a run waits for, or what one of its clusters does.
func newExplain(o *options) *cobra.Command {
	return verb(o, "explain RUN [CLUSTER]", "Explain what a run waits for, or what a cluster of it has come to and waits for",
		"slipway explain web-v2\nslipway explain web-v2 eu-1",
		o.reading(func(ctx context.Context, t *target.Target, args []string) error {
			run := runName(args[0])
			if len(args) == 1 {
				waiting, err := t.Waiting(ctx, run)
				if err != nil {
					return err
				}
				if len(waiting) == 0 && o.IsTable() {
					return o.Said("run/%s: waits for nothing, it has ended", run)
				}
				return o.Print(cli.Awaited(waiting))
			}
			why, err := t.Explain(ctx, run, strings.TrimPrefix(args[1], "cluster/"))
			if err != nil {
				return err
			}
			if o.IsValue() {
				return o.PrintValue(why)
			}
			err = o.Recorded("cluster/"+why.Cluster, "%s in stage %s: %s", why.State, why.Stage, why.Reason)
			if err != nil || len(why.Waiting) == 0 || o.Output == cli.Name {
				return err
			}
			return o.Print(cli.Awaited(why.Waiting))
		}))
}
