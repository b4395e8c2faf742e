package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// newCreate creates runs.
func newCreate(o *options) *cobra.Command {
	var s specOptions
	var placed, title string
	run := &cobra.Command{
		Use:   "run NAME --placement PLACEMENT --strategy FILE",
		Short: "Plan a run and record it; the engine that runs on the store starts it",
		Args:  cli.Arguments(cobra.ExactArgs(1)),
		RunE: o.writing(func(ctx context.Context, t *target.Target, args []string) error {
			if placed == "" {
				return cli.Usagef("--placement is not set: it names the placement that is rolled out")
			}
			spec, err := s.spec(t, placed)
			if err != nil {
				return err
			}
			spec.Name, spec.Title = runName(args[0]), title
			status, err := t.CreateRun(ctx, spec)
			if err != nil {
				return err
			}
			return o.created(t, status)
		}),
	}
	s.flags(run)
	run.Flags().StringVar(&placed, "placement", "", "placement that is rolled out")
	run.Flags().StringVar(&title, "title", "", "title, for people")
	return cli.Group("create", "Create a run", run)
}

func newCatchUp(o *options) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:               "catch-up RUN --name NAME",
		Short:             "Create a run for the clusters that failed, were skipped or joined since",
		Args:              cli.Arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: o.completeRuns,
		RunE: o.writing(func(ctx context.Context, t *target.Target, args []string) error {
			if name == "" {
				return cli.Usagef("--name is not set: it names the run that catches up")
			}
			status, err := t.CatchUp(ctx, runName(args[0]), name)
			if err != nil {
				return err
			}
			return o.created(t, status)
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the run that catches up")
	return cmd
}

// created says which run there is now, and on the other stream what its plan warns of.
func (o *options) created(t *target.Target, s fleet.Status) error {
	if s.Plan == nil { // the hub makes it
		return o.Said("run/%s: created", s.Run.Name)
	}
	for _, w := range s.Plan.Warnings {
		o.Warn("%s", w)
	}
	return o.recorded(t, "run/%s: created, stages %d, clusters %d", s.Run.Name, len(s.Plan.Stages), s.Plan.Len())
}

// runCommands are the verbs that a run is asked by.
func runCommands(o *options) []*cobra.Command {
	var skip, retry, message string
	command := func(use, short string, verb stages.Verb, also func(*stages.Command) error) *cobra.Command {
		cmd := &cobra.Command{Use: use + " RUN", Short: short, Args: cli.Arguments(cobra.ExactArgs(1)), ValidArgsFunction: o.completeRuns}
		cmd.Flags().StringVar(&message, "message", "", "reason, which is recorded")
		cmd.RunE = o.writing(func(ctx context.Context, t *target.Target, args []string) error {
			c := stages.Command{Verb: verb, Message: message, At: time.Now()}
			if err := also(&c); err != nil {
				return cli.UsageError{Err: err}
			}
			if err := t.Command(ctx, runName(args[0]), c); err != nil {
				return err
			}
			return o.recorded(t, "run/%s: %s is recorded", runName(args[0]), strings.ToLower(string(verb)))
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

func newRollback(o *options) *cobra.Command {
	var preview bool
	var opts fleet.RollbackOptions
	cmd := &cobra.Command{
		Use:               "rollback RUN",
		Short:             "Roll back what a run brought to the clusters",
		Args:              cli.Arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: o.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.reach(cmd, args, func(ctx context.Context, t *target.Target, args []string) error {
				run := runName(args[0])
				if preview {
					plan, err := t.PreviewRollback(ctx, run)
					if err != nil {
						return err
					}
					return o.printPlan(plan)
				}
				name, err := t.Rollback(ctx, run, opts)
				if err != nil {
					return err
				}
				return o.recorded(t, "run/%s: it rolls back %s", name, run)
			}, preview)
		},
	}
	cmd.Flags().BoolVar(&preview, "preview", false, "show the plan of the rollback; nothing is written")
	cmd.Flags().StringVar(&opts.Name, "name", "", "name of the run that rolls back")
	cmd.Flags().StringVar(&opts.Reason, "reason", "", "reason, which is recorded")
	return cmd
}

// newWait waits for the end of a run.
func newWait(o *options) *cobra.Command {
	return &cobra.Command{
		Use:               "wait RUN",
		Short:             "Wait for the end of a run; the exit code is 0 where it completed, 4 where it did not, 5 after --timeout",
		Args:              cli.Arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: o.completeRuns,
		RunE: o.reading(func(ctx context.Context, t *target.Target, args []string) error {
			s, err := t.Status(ctx, runName(args[0]))
			if err == nil && !s.Run.IsEnded() {
				if err := nothingGoesOn(t); err != nil {
					return err
				}
				for _, failed := range t.FollowRun(s.Run.Name, "").Events(ctx) {
					err = failed
				}
				if err == nil {
					s, err = t.Status(ctx, s.Run.Name)
				}
			}
			if err != nil {
				return err
			}
			if err := o.Said("run/%s: %s", s.Run.Name, strings.Join(strings.Fields(string(s.Run.State)+" "+s.Run.Reason), " ")); err != nil {
				return err
			}
			if s.Run.State != stages.Completed {
				return fmt.Errorf("run %s: %w", s.Run.Name, cli.ErrUnsuccessful)
			}
			return nil
		}),
	}
}

// newExplain says what a run waits for, or what one of its clusters does.
func newExplain(o *options) *cobra.Command {
	return &cobra.Command{
		Use:               "explain RUN [CLUSTER]",
		Short:             "Say what a run waits for, or what a cluster of it has come to and waits for",
		Args:              cli.Arguments(cobra.RangeArgs(1, 2)),
		ValidArgsFunction: o.completeRuns,
		RunE: o.reading(func(ctx context.Context, t *target.Target, args []string) error {
			run := runName(args[0])
			if len(args) == 1 {
				waiting, err := t.Waiting(ctx, run)
				if err != nil {
					return err
				}
				return o.Print(cli.NewAwaited(waiting))
			}
			why, err := t.Explain(ctx, run, strings.TrimPrefix(args[1], "cluster/"))
			if err != nil {
				return err
			}
			if o.IsValue() {
				return o.PrintValue(why)
			}
			if err := o.Said("cluster/%s: %s in stage %s: %s", why.Cluster, why.State, why.Stage, why.Reason); err != nil || len(why.Waiting) == 0 {
				return err
			}
			return o.Print(cli.NewAwaited(why.Waiting))
		}),
	}
}

func newSet(o *options) *cobra.Command {
	return cli.Group("set", "Set how many clusters may be in flight together", &cobra.Command{
		Use:   "cap NAME LIMIT",
		Short: "Declare a cap, or change its limit; 0 lets nothing more start",
		Args:  cli.Arguments(cobra.ExactArgs(2)),
		RunE: o.writing(func(ctx context.Context, t *target.Target, args []string) error {
			limit, err := strconv.Atoi(args[1])
			if err != nil {
				return cli.Usagef("LIMIT %q: want a number of clusters", args[1])
			}
			if err := t.SetCap(ctx, args[0], limit); err != nil {
				return err
			}
			return o.Said("cap/%s: at most %d clusters in flight", args[0], limit)
		}),
	})
}

func newDelete(o *options) *cobra.Command {
	kind := func(kind, short string, do func(*target.Target, context.Context, string) error) *cobra.Command {
		return &cobra.Command{
			Use: kind + " NAME", Short: short, Args: cli.Arguments(cobra.ExactArgs(1)),
			RunE: o.writing(func(ctx context.Context, t *target.Target, args []string) error {
				name := strings.TrimPrefix(args[0], kind+"/")
				if err := do(t, ctx, name); err != nil {
					return err
				}
				return o.Said("%s/%s: deleted", kind, name)
			}),
		}
	}
	return cli.Group("delete", "Delete a cap, a run that has ended, or the record of a deletion",
		kind("cap", "Delete a cap that no run holds or waits for", (*target.Target).DeleteCap),
		kind("run", "Delete a run, with its events", (*target.Target).DeleteRun),
		kind("deletion", "Forget how the deletion of a placement ended", (*target.Target).ForgetDeletion))
}

// release is the version that a release is built with.
var release string

func newVersion(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which version this is, and of which Go",
		Args:  cli.Arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			version, golang := "(devel)", ""
			if info, known := debug.ReadBuildInfo(); known {
				golang = info.GoVersion
				if info.Main.Version != "" {
					version = info.Main.Version
				}
			}
			return o.Said("slipway %s %s", cmp.Or(release, version), golang)
		},
	}
}
