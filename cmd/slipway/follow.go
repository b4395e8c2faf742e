package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/watch"
)

// newHistory shows events as they are stored, one for each line.
func newHistory(o *options) *cobra.Command {
	var follow bool
	cmd := o.reading("history PLACEMENT|run/NAME", "Show what happened to a placement itself, or to a run",
		"slipway history web --follow\nslipway history run/web-v2 -o json", func(ctx context.Context, c call) error {
			read, follower, name := c.PlacementHistory, c.Follow, c.args[0]
			if run, is := strings.CutPrefix(name, "run/"); is {
				read, follower, name = c.History, c.FollowRun, run
			}
			if follow && c.Live {
				s := o.NewStream()
				return o.follow(ctx, follower(name, ""), func(ev stages.Event) error { return s.Show(cli.Events(ev)) })
			}
			h, err := read(ctx, name, 0)
			if missed, is := errors.AsType[*fleet.MissedError](err); is { // the oldest ones are gone; those that are kept are shown
				fmt.Fprintf(o.ErrOut, "%d older events are not kept\n", missed.Events)
				err = nil
			}
			if err == nil {
				err = o.Print(cli.Events(h.Events...))
			}
			if err == nil && follow {
				err = nothingGoesOn(c)
			}
			return err
		})
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

// newWait waits for the end of a run.
func newWait(o *options) *cobra.Command {
	return o.reading("wait RUN", "Wait for the end of a run; the exit code is 0 where it completed, 4 where it did not, 5 after --timeout",
		"slipway wait web-v2 --timeout 1h", func(ctx context.Context, c call) error {
			s, err := c.Status(ctx, c.run())
			if err == nil && !s.Run.IsEnded() {
				if err := nothingGoesOn(c); err != nil {
					return err
				}
				if err = o.follow(ctx, c.FollowRun(s.Run.Name, ""), func(stages.Event) error { return nil }); err == nil {
					s, err = c.Status(ctx, s.Run.Name)
				}
			}
			if err == nil {
				err = o.Recorded("run/"+s.Run.Name, "%s", strings.TrimSpace(string(s.Run.State)+" "+s.Run.Reason))
			}
			if err == nil {
				err = outcome(&s)
			}
			return err
		})
}

// outcome is an error for a run that was followed to its end and did not complete.
func outcome(s *fleet.Status) error {
	if s.Run.State == stages.Completed {
		return nil
	}
	return fmt.Errorf("run %s is %s: %w", s.Run.Name, s.Run.State, cli.ErrUnsuccessful)
}

// newWatch shows a run until it has ended. On a file that no program holds nothing goes on: it is shown as it is.
func newWatch(o *options) *cobra.Command {
	return o.reading("watch RUN", "Show a run while it goes on: on a terminal as a tree, elsewhere a line for each event",
		"slipway watch web-v2", func(ctx context.Context, c call) error {
			options := watch.Options{
				Forecast: func(ctx context.Context, run string) (time.Time, error) {
					f, err := c.ForecastEnd(ctx, run, fleet.Assumptions{})
					return f.Ends, err
				},
				Decide: func(ctx context.Context, r approval.Request, v approval.Verdict) error {
					return c.Decide(ctx, r.Run, fleet.Answer{Request: r.Name, Verdict: v, Binding: r.Binding})
				},
				Over: func(s *fleet.Status) bool { return !c.Live || s.Run.IsEnded() },
			}
			s, err := watch.Run(ctx, c, c.run(), o.In, o.Out, options)
			if errors.Is(err, watch.ErrLeft) {
				return nil
			}
			if err != nil || !s.Run.IsEnded() {
				return err
			}
			return outcome(&s)
		}, cli.Table, cli.Wide)
}
