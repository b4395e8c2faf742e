package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
	"github.com/spf13/cobra"
)

// runCommands are the verbs that a run is asked by.
func runCommands(o *options) []*cobra.Command {
	var skip, retry, message string
	command := func(use, short string, verb stages.Verb, also func(*stages.Command) error) *cobra.Command {
		cmd := &cobra.Command{Use: use + " RUN", Short: short, Args: cli.Arguments(cobra.ExactArgs(1))}
		cmd.Flags().StringVar(&message, "message", "", "reason, which is recorded")
		cmd.RunE = o.writing(func(ctx context.Context, e *fleet.Engine, args []string) error {
			by, err := o.Identity()
			if err != nil {
				return err
			}
			c := stages.Command{Verb: verb, By: by, Message: message, At: time.Now()}
			if err := also(&c); err != nil {
				return cli.UsageError{Err: err}
			}
			if err := e.Command(ctx, args[0], c); err != nil {
				return err
			}
			return o.Said("run/%s: %s is recorded, for the engine that runs on this store", args[0], strings.ToLower(string(verb)))
		})
		return cmd
	}
	nothing := func(*stages.Command) error { return nil }
	skipping := command("skip", "Skip a cluster, a group, a stage or the wait after a stage", stages.Skip, func(c *stages.Command) error {
		scope, name, _ := strings.Cut(skip, "/")
		scopes := map[string]stages.SkipScope{
			"cluster": stages.SkipCluster, "group": stages.SkipGroup, "stage": stages.SkipStage, "wait": stages.SkipAfterWait,
		}
		if scopes[scope] == "" || name == "" {
			return fmt.Errorf("--what %q: want cluster/NAME, group/NAME, stage/NAME or wait/STAGE", skip)
		}
		c.Scope, c.Name = scopes[scope], name
		return nil
	})
	skipping.Flags().StringVar(&skip, "what", "", "cluster/NAME, group/NAME, stage/NAME or wait/STAGE")
	retrying := command("retry", "Try again what failed or was skipped in the current stage", stages.Retry, func(c *stages.Command) error {
		only, known := map[string]stages.Only{"": "", "failed": stages.OnlyFailed, "skipped": stages.OnlySkipped}[retry]
		if !known {
			return fmt.Errorf("--only %q: want failed or skipped", retry)
		}
		c.Only = only
		return nil
	})
	retrying.Flags().StringVar(&retry, "only", "", "failed or skipped; both where it is not set")
	return []*cobra.Command{
		command("start", "Start a run, resume one that is stopped, or start a failed one again", stages.Start, nothing),
		command("stop", "Stop a run, so that it can be resumed", stages.Stop, nothing),
		command("abort", "End a run for good", stages.Abort, nothing),
		skipping, retrying,
	}
}

func newDecision(o *options, use string, verdict approval.Verdict) *cobra.Command {
	var comment string
	cmd := &cobra.Command{
		Use:   use + " RUN REQUEST",
		Short: strings.ToUpper(use[:1]) + use[1:] + " an open request of a run",
		Args:  cli.Arguments(cobra.ExactArgs(2)),
		RunE: o.writing(func(ctx context.Context, e *fleet.Engine, args []string) error {
			by, err := o.Identity()
			if err != nil {
				return err
			}
			if err := e.Decide(ctx, args[0], fleet.Answer{Request: args[1], Verdict: verdict, By: by, Comment: comment}); err != nil {
				return err
			}
			return o.Said("approval/%s: %s by %s is recorded, for the engine that runs on this store", args[1], strings.ToLower(string(verdict)), by.Name)
		}),
	}
	cmd.Flags().StringVar(&comment, "comment", "", "comment, which is recorded")
	return cmd
}

func newRollback(o *options) *cobra.Command {
	var preview bool
	var opts fleet.RollbackOptions
	cmd := &cobra.Command{
		Use:   "rollback RUN",
		Short: "Roll back what a run brought to the clusters",
		Args:  cli.Arguments(cobra.ExactArgs(1)),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return o.withEngine(func(e *fleet.Engine) error {
			if preview {
				plan, err := e.PreviewRollback(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return o.printPlan(plan)
			}
			by, err := o.Identity()
			if err != nil {
				return err
			}
			opts.By = by
			name, err := e.Rollback(cmd.Context(), args[0], opts)
			if err != nil {
				return err
			}
			return o.Said("run/%s: it rolls back %s, and is driven by the engine that runs on this store", name, args[0])
		}, preview)
	}
	cmd.Flags().BoolVar(&preview, "preview", false, "show the plan of the rollback; nothing is written")
	cmd.Flags().StringVar(&opts.Name, "name", "", "name of the run that rolls back")
	cmd.Flags().StringVar(&opts.Reason, "reason", "", "reason, which is recorded")
	return cmd
}

func newSet(o *options) *cobra.Command {
	cmd := cli.Group("set", "Set how many clusters may be in flight together")
	cmd.AddCommand(&cobra.Command{
		Use:   "cap NAME LIMIT",
		Short: "Declare a cap, or change its limit; 0 lets nothing more start",
		Args:  cli.Arguments(cobra.ExactArgs(2)),
		RunE: o.writing(func(ctx context.Context, e *fleet.Engine, args []string) error {
			limit, err := strconv.Atoi(args[1])
			if err != nil {
				return cli.UsageError{Err: fmt.Errorf("LIMIT %q: want a number of clusters", args[1])}
			}
			if err := e.SetCap(ctx, args[0], limit); err != nil {
				return err
			}
			return o.Said("cap/%s: at most %d clusters in flight", args[0], limit)
		}),
	})
	return cmd
}

func newDelete(o *options) *cobra.Command {
	cmd := cli.Group("delete", "Delete a cap, a run that has ended, or the record of a deletion")
	kind := func(kind, short string, do func(*fleet.Engine, context.Context, string) error) {
		cmd.AddCommand(&cobra.Command{
			Use: kind + " NAME", Short: short, Args: cli.Arguments(cobra.ExactArgs(1)),
			RunE: o.writing(func(ctx context.Context, e *fleet.Engine, args []string) error {
				if err := do(e, ctx, args[0]); err != nil {
					return err
				}
				return o.Said("%s/%s: deleted", kind, args[0])
			}),
		})
	}
	kind("cap", "Delete a cap that no run holds or waits for", (*fleet.Engine).DeleteCap)
	kind("run", "Delete a run that has ended, with its events", (*fleet.Engine).DeleteRun)
	kind("deletion", "Forget how the deletion of a placement ended", (*fleet.Engine).ForgetDeletion)
	return cmd
}

// newHistory shows events as they are stored, one for each line.
func newHistory(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "history PLACEMENT|run/NAME",
		Short: "Show what happened to a placement itself, or to a run",
		Args:  cli.Arguments(cobra.ExactArgs(1)),
		RunE: o.reading(func(ctx context.Context, e *fleet.Engine, args []string) error {
			read, name := e.PlacementHistory, args[0]
			if run, is := strings.CutPrefix(name, "run/"); is {
				read, name = e.History, run
			}
			h, err := read(ctx, name, 0)
			if missed, is := errors.AsType[*fleet.MissedError](err); is { // the oldest ones are gone; those that are kept are shown
				fmt.Fprintf(o.ErrOut, "%d older events are not kept\n", missed.Events)
				err = nil
			}
			if err != nil {
				return err
			}
			l := &cli.List{Kind: "event", Columns: []string{"Time", "Type", "Run", "Stage", "Cluster", "By", "Message"}, Narrow: 7}
			for _, ev := range h.Events {
				l.Add(cli.Cell(ev.Time), ev, ev.Type, ev.Run, ev.Stage, ev.Cluster, ev.By, ev.Message)
			}
			return o.Print(l)
		}),
	}
}
