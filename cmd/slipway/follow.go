package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
	"github.com/slipway-dev/slipway/watch"
)

// newHistory shows stored events, one per line.
func newHistory(o *options) *cobra.Command {
	var follow bool
	cmd := o.reading("history PLACEMENT|run/NAME", "Show the events of a placement, or of a run",
		"slipway history web --follow\nslipway history run/web-v2 -o json", func(ctx context.Context, c call) error {
			name := c.args[0]
			var of interface {
				History(ctx context.Context, after int64) (fleet.History, error)
				Follow(after string) *httpapi.Follower
			} = c.Placement(name)
			if run, is := strings.CutPrefix(name, "run/"); is {
				of, name = c.Run(run), run
			}
			if follow && c.Live {
				if run, is := strings.CutPrefix(c.args[0], "run/"); is {
					if s, err := o.awaitTaken(ctx, c, run); err != nil {
						return err
					} else if s != nil { // there are no events to print
						return cli.Unsuccessful(s.Name, s.State, s.Reason, "")
					}
				}
				s := o.NewStream()
				return o.follow(ctx, of.Follow(""), func(ev stages.Event) error { return s.Show(cli.Events(ev)) })
			}
			h, err := of.History(ctx, 0)
			if errors.Is(err, backend.ErrNotFound) && !strings.HasPrefix(c.args[0], "run/") {
				return notPlacement(ctx, c, name, err)
			}
			if missed, is := errors.AsType[*fleet.MissedError](err); is { // shows the other events
				fmt.Fprintf(o.ErrOut, "%d older events are not kept\n", missed.Events)
				err = nil
			}
			if err == nil {
				err = o.Print(cli.Events(h.Events...))
			}
			if err == nil && follow {
				err = noEngine(c)
			}
			return err
		})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "also show new events as they happen: of a run until it ends, of a placement without an end")
	return cmd
}

// notPlacement returns the error of a placement that does not exist. It may be meant as a run.
func notPlacement(ctx context.Context, c call, name string, err error) error {
	switch _, other := c.Run(name).Status(ctx); {
	case other == nil:
		return errdef.NotFound(errdef.Placement, name, name+" is a run: name it run/"+name)
	case errors.Is(other, backend.ErrNotFound):
		return errdef.NotFound(errdef.Placement, name, "there is no run of this name either; a run is named run/NAME")
	}
	return err
}

// follow passes new events to show. Reading errors are reported on standard error, and do not end
// it. If the engine ends, follow waits for the next one.
func (o *options) follow(ctx context.Context, f *httpapi.Follower, show func(stages.Event) error) error {
	var last error
	return o.persist(ctx, func() error {
		last = nil // the rest of a stream may have no event
		for ev, err := range f.Events(ctx) {
			if last != nil && !isLost(last) {
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
	})
}

// persist calls do again as long as no engine answers, and says so once.
func (o *options) persist(ctx context.Context, do func() error) error {
	for said := false; ; {
		err := do()
		if !isLost(err) || ctx.Err() != nil {
			return err
		}
		if gone, is := errors.AsType[*httpapi.UnansweredError](err); is && !said {
			said = true
			fmt.Fprintf(o.ErrOut, "%v: waiting for the next engine, which continues the runs\n", gone)
		}
		if !backoff.Sleep(ctx, readAgain) {
			return ctx.Err()
		}
	}
}

// isLost reports whether an engine has ended, or the connection to it, so that the next one may
// answer.
func isLost(err error) bool {
	_, unanswered := errors.AsType[*httpapi.UnansweredError](err)
	return unanswered || errors.Is(err, httpapi.ErrCut)
}

// newWait waits for the end of a run.
func newWait(o *options) *cobra.Command {
	return o.reading("wait RUN", "Wait until a run has ended, and its rollback if there is one; exit code 0 if the run completed (even if rolled back later), 4 if not, 5 after --timeout",
		"slipway wait web-v2 --timeout 1h", func(ctx context.Context, c call) error {
			if s, err := o.awaitTaken(ctx, c, c.run()); err != nil {
				return err
			} else if s != nil {
				return o.endUnrecorded(s)
			}
			end, err := o.awaitEnd(ctx, c, c.run())
			if err != nil {
				if ctx.Err() != nil {
					o.sayUnended(ctx, c, c.run())
				}
				return err
			}
			if err := o.Recorded("run/"+end.run.Name, "%s", strings.TrimSpace(string(end.run.State)+" "+end.run.Reason)); err != nil {
				return err
			}
			if text := cli.RollbackText(&end.back); text != "" && o.Output != cli.Name {
				fmt.Fprintf(o.ErrOut, "run/%s: %s\n", end.run.Name, text)
			}
			return end.outcome()
		})
}

// sayUnended prints the waits of a run on standard error when the command ends before the run.
func (o *options) sayUnended(ctx context.Context, c call, run string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), completing)
	defer cancel()
	s, err := c.summary(ctx, run)
	waiting, unread := c.Run(run).Waiting(ctx)
	if err != nil || unread != nil {
		return
	}
	state := fmt.Sprintf("run/%s is %s", run, s.State)
	if !isHalted(waiting) {
		state += ", and continues without this command"
	}
	texts := []string{state}
	for _, a := range waiting {
		texts = append(texts, string(a.Kind)+" "+a.Name+": "+a.Message)
	}
	fmt.Fprintln(o.ErrOut, cli.Printable(strings.Join(texts, "; ")))
}

// awaitEnd waits for the end of a run and of its rollback. It says on standard error if one of them
// waits for a start.
func (o *options) awaitEnd(ctx context.Context, c call, run string) (end, error) {
	s, err := c.Run(run).Status(ctx)
	if err != nil {
		return end{}, err
	}
	out, err := endOf(ctx, c, run)
	if err != nil || out.isOver() {
		return out, errors.Join(err, awaitShown(ctx, c, &out))
	}
	if c.isHalted(ctx, s.Run.Name) {
		o.sayHalted(s.Run.Name, s.Run.State)
	}
	if err := noEngine(c); err != nil {
		return out, err
	}
	err = o.follow(ctx, c.Run(s.Run.Name).Follow(""), func(e stages.Event) error {
		if e.Type == stages.RunStopped && !e.Time.Before(s.Run.Now.Time()) {
			o.sayHalted(e.Run, stages.Stopped)
		}
		return nil
	})
	if err == nil {
		err = o.persist(ctx, func() error { out, err = endOf(ctx, c, s.Run.Name); return err })
	}
	if err == nil {
		err = awaitShown(ctx, c, &out)
	}
	return out, err
}

// end is the end of a run and of its rollback, if there is one.
type end struct {
	run  step.Run
	back fleet.Rollback
}

// endOf reads the end of a run and of its rollback, if they have ended.
func endOf(ctx context.Context, c call, run string) (end, error) {
	s, err := c.Run(run).Status(ctx)
	out := end{run: s.Run}
	if err == nil && s.Run.IsEnded() {
		if out.back, err = c.Run(run).RollbackStatus(ctx); errors.Is(err, backend.ErrNotFound) { // deleted
			err = nil
		}
	}
	return out, err
}

func (e *end) isOver() bool {
	by := step.Run{State: e.back.State}
	return e.run.IsEnded() && !e.back.Pending && (e.back.State == "" || by.IsEnded())
}

// outcome returns an error if the run, which has ended, did not complete.
func (e *end) outcome() error {
	if e.run.State == stages.Completed {
		return nil
	}
	return cli.Unsuccessful(e.run.Name, e.run.State, e.run.Reason, cli.RollbackText(&e.back))
}

// newWatch shows a run until it and its rollback have ended. In a file that no program holds
// nothing happens, so the stored state is shown once.
func newWatch(o *options) *cobra.Command {
	return o.reading("watch RUN", "Follow a run, and its rollback if there is one, to the end: as a tree on a terminal, elsewhere as a line for each event",
		"slipway watch web-v2", func(ctx context.Context, c call) error {
			options := watch.Options{
				Forecast: func(ctx context.Context, run string) (time.Time, error) {
					f, err := c.Run(run).ForecastEnd(ctx, fleet.Assumptions{})
					return f.Ends, err
				},
				Decide: func(ctx context.Context, r approval.Request, v approval.Verdict) error {
					return c.Run(r.Run).Command(ctx, stages.Command{Verb: stages.Decide, Name: r.Name, Decision: &approval.Decision{Verdict: v, Binding: r.Binding}})
				},
			}
			if c.Hub != nil {
				options.Shown = c.Hub.Shown
			}
			if !c.Live {
				options.Over = func(*fleet.Status) bool { return true }
			}
			if s, err := o.awaitTaken(ctx, c, c.run()); err != nil {
				return err
			} else if s != nil {
				return o.endUnrecorded(s)
			}
			s, err := watch.Run(ctx, c, c.run(), o.In, o.Out, options)
			if errors.Is(err, watch.ErrLeft) {
				return context.Canceled
			}
			if err != nil {
				return err
			}
			var end end
			err = o.persist(ctx, func() error { end, err = endOf(ctx, c, s.Run.Name); return err })
			switch {
			case err != nil:
				return err
			case !end.isOver():
				return noEngine(c)
			}
			return end.outcome()
		}, cli.Table, cli.Wide)
}
