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
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/watch"
)

// newWait waits for the end of a run.
func newWait(o *options) *cobra.Command {
	return verb(o, "wait RUN", "Wait for the end of a run; the exit code is 0 where it completed, 4 where it did not, 5 after --timeout",
		"slipway wait web-v2 --timeout 1h",
		o.reading(func(ctx context.Context, t *target.Target, args []string) error {
			s, err := t.Status(ctx, runName(args[0]))
			if err == nil && !s.Run.IsEnded() {
				if err := nothingGoesOn(t); err != nil {
					return err
				}
				if err = o.follow(ctx, t.FollowRun(s.Run.Name, ""), func(stages.Event) error { return nil }); err == nil {
					s, err = t.Status(ctx, s.Run.Name)
				}
			}
			if err != nil {
				return err
			}
			if err := o.Recorded("run/"+s.Run.Name, "%s", strings.TrimSpace(string(s.Run.State)+" "+s.Run.Reason)); err != nil {
				return err
			}
			return outcome(&s)
		}))
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
	cmd := verb(o, "watch RUN", "Show a run while it goes on, with what it waits for and when it will end", "slipway watch web-v2",
		o.reading(func(ctx context.Context, t *target.Target, args []string) error {
			if o.Output != cli.Table {
				return cli.Usagef("-o %s: watch draws or prints lines, and history run/%s --follow has other formats", o.Output, runName(args[0]))
			}
			options := watch.Options{
				Forecast: func(ctx context.Context, run string) (time.Time, error) {
					f, err := t.ForecastEnd(ctx, run, fleet.Assumptions{})
					return f.Ends, err
				},
				Decide: func(ctx context.Context, r approval.Request, v approval.Verdict) error {
					return t.Decide(ctx, r.Run, fleet.Answer{Request: r.Name, Verdict: v, Binding: r.Binding})
				},
			}
			if !t.Live {
				options.Over = func(*fleet.Status) bool { return true }
			}
			s, err := watch.Run(ctx, t, runName(args[0]), o.In, o.Out, options)
			if errors.Is(err, watch.ErrLeft) {
				return nil
			}
			if err != nil || !s.Run.IsEnded() {
				return err
			}
			return outcome(&s)
		}))
	cmd.Long = `Show a run while it goes on. On a terminal its stages and groups are drawn: what is
in flight, what failed, what waits for what, who decided, and when the run will
end. There q and Ctrl-C leave, and the run goes on; a shows what waits for an
approval, which y approves, r rejects, and n leaves open. Elsewhere every event
is a line; for objects see history run/NAME --follow -o json.

It ends with 0 when the run completed or q was pressed, and with 4 when the run
ended in another way.`
	return cmd
}
