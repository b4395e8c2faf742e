package main

import (
	"cmp"
	"context"
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
	run := verb(o, "run NAME --placement PLACEMENT --strategy FILE", "Plan a run and record it; the engine that runs on the store starts it",
		"slipway create run web-v2 --placement web --strategy strategy.yaml",
		o.writing(func(ctx context.Context, t *target.Target, args []string) error {
			if placed == "" {
				return cli.Usagef("--placement is not set: it names the placement that is rolled out")
			}
			spec, err := s.spec(t, placed)
			if err != nil {
				return err
			}
			spec.Name, spec.Title = runName(args[0]), title
			status, err := t.CreateRun(ctx, spec)
			return o.created(t, status, err)
		}))
	run.ValidArgsFunction = cobra.NoFileCompletions // it is a new name
	s.flags(run)
	run.Flags().StringVar(&placed, "placement", "", "placement that is rolled out")
	run.Flags().StringVar(&title, "title", "", "title, for people")
	return cli.Group("create", "Create a run", run)
}

func newCatchUp(o *options) *cobra.Command {
	var name string
	cmd := verb(o, "catch-up RUN --name NAME", "Create a run for the clusters that failed, were skipped or joined since",
		"slipway catch-up web-v2 --name web-v2-rest",
		o.writing(func(ctx context.Context, t *target.Target, args []string) error {
			if name == "" {
				return cli.Usagef("--name is not set: it names the run that catches up")
			}
			status, err := t.CatchUp(ctx, runName(args[0]), name)
			return o.created(t, status, err)
		}))
	cmd.Flags().StringVar(&name, "name", "", "name of the run that catches up")
	return cmd
}

// created reports which run there is now if there is one, and on the other stream what its plan warns of.
func (o *options) created(t *target.Target, s fleet.Status, err error) error {
	if err != nil {
		return err
	}
	if s.Plan == nil { // the hub makes it
		return o.Recorded("run/"+s.Run.Name, "created")
	}
	for _, w := range s.Plan.Warnings {
		o.Warn("%s", w)
	}
	return o.recorded(t, "run/"+s.Run.Name, "created, stages %d, clusters %d", len(s.Plan.Stages), s.Plan.Len())
}

// runVerbs are the verbs that pass a command to a run. Where one has a flag, read completes the command by its value,
// which is one of what usage says.
var runVerbs = []struct {
	verb                        stages.Verb
	short, example, flag, usage string
	read                        func(value string, c *stages.Command) (known bool)
}{
	{verb: stages.Start, short: "Start a run, resume one that is stopped, or start a failed one again"},
	{verb: stages.Stop, short: "Stop a run, so that it can be resumed", example: `slipway stop web-v2 --message "errors on eu-1"`},
	{verb: stages.Abort, short: "End a run for good"},
	{
		verb: stages.Skip, short: "Skip a cluster, a group, a stage or the wait after a stage", example: "slipway skip web-v2 --what cluster/eu-1",
		flag: "what", usage: "cluster/NAME, group/NAME, stage/NAME or wait/STAGE",
		read: func(value string, c *stages.Command) bool {
			scope, name, _ := strings.Cut(value, "/")
			c.Name, c.Scope = name, map[string]stages.SkipScope{
				"cluster": stages.SkipCluster, "group": stages.SkipGroup, "stage": stages.SkipStage, "wait": stages.SkipAfterWait,
			}[scope]
			return c.Scope != "" && name != ""
		},
	},
	{
		verb: stages.Retry, short: "Try again what failed or was skipped in the current stage", example: "slipway retry web-v2 --only failed",
		flag: "only", usage: "failed or skipped; both where it is not set",
		read: func(value string, c *stages.Command) (known bool) {
			c.Only, known = map[string]stages.Only{"": "", "failed": stages.OnlyFailed, "skipped": stages.OnlySkipped}[value]
			return known
		},
	},
}

func newRunVerbs(o *options) (all []*cobra.Command) {
	for _, v := range runVerbs {
		var message, value string
		name := strings.ToLower(string(v.verb))
		cmd := verb(o, name+" RUN", v.short, v.example, o.writing(func(ctx context.Context, t *target.Target, args []string) error {
			c := stages.Command{Verb: v.verb, Message: message, At: time.Now()}
			if v.read != nil && !v.read(value, &c) {
				return cli.Usagef("--%s %q: want %s", v.flag, value, v.usage)
			}
			run := runName(args[0])
			if err := t.Command(ctx, run, c); err != nil {
				return err
			}
			return o.recorded(t, "run/"+run, "%s is recorded", name)
		}))
		cmd.Flags().StringVar(&message, "message", "", "reason, which is recorded")
		if v.flag != "" {
			cmd.Flags().StringVar(&value, v.flag, "", v.usage)
		}
		all = append(all, cmd)
	}
	return all
}

func newRollback(o *options) *cobra.Command {
	var preview bool
	var opts fleet.RollbackOptions
	cmd := verb(o, "rollback RUN", "Roll back what a run brought to the clusters",
		"slipway rollback web-v2 --preview\nslipway rollback web-v2 --name web-v2-back --reason \"errors on eu-1\"", nil)
	do := func(ctx context.Context, t *target.Target, args []string) error {
		run := runName(args[0])
		if preview {
			return o.printPlan(t.PreviewRollback(ctx, run))
		}
		name, err := t.Rollback(ctx, run, opts)
		if err != nil {
			return err
		}
		return o.recorded(t, "run/"+name, "it rolls back %s", run)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.reach(cmd, args, do, preview) }
	cmd.Flags().BoolVar(&preview, "preview", false, "show the plan of the rollback; nothing is written")
	cmd.Flags().StringVar(&opts.Name, "name", "", "name of the run that rolls back")
	cmd.Flags().StringVar(&opts.Reason, "reason", "", "reason, which is recorded")
	return cmd
}

func newSet(o *options) *cobra.Command {
	return cli.Group("set", "Set how many clusters may be in flight together",
		verb(o, "cap NAME LIMIT", "Declare a cap, or change its limit; 0 lets nothing more start", "slipway set cap production 10",
			o.writing(func(ctx context.Context, t *target.Target, args []string) error {
				limit, err := strconv.Atoi(args[1])
				if err != nil {
					return cli.Usagef("LIMIT %q: want a number of clusters", args[1])
				}
				if err := t.SetCap(ctx, args[0], limit); err != nil {
					return err
				}
				return o.Recorded("cap/"+args[0], "at most %d clusters in flight", limit)
			})))
}

func newDelete(o *options) *cobra.Command {
	kind := func(kind, short string, do func(*target.Target, context.Context, string) error) *cobra.Command {
		return verb(o, kind+" NAME", short, "", o.writing(func(ctx context.Context, t *target.Target, args []string) error {
			name := strings.TrimPrefix(args[0], kind+"/")
			if err := do(t, ctx, name); err != nil {
				return err
			}
			return o.Recorded(kind+"/"+name, "deleted")
		}))
	}
	return cli.Group("delete", "Delete a cap, a run that has ended, or the record of a deletion",
		kind("cap", "Delete a cap that no run holds or waits for", (*target.Target).DeleteCap),
		kind("run", "Delete a run that has ended, with its events", (*target.Target).DeleteRun),
		kind("deletion", "Forget how the deletion of a placement ended", (*target.Target).ForgetDeletion))
}

// release is the version that a release is built with.
var release string

func newVersion(o *options) *cobra.Command {
	return verb(o, "version", "Show which version this is, and of which Go", "", func(*cobra.Command, []string) error {
		version, golang := "(devel)", ""
		if info, known := debug.ReadBuildInfo(); known {
			version, golang = cmp.Or(info.Main.Version, version), info.GoVersion
		}
		return o.Said("slipway %s %s", cmp.Or(release, version), golang)
	})
}
