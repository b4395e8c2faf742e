package main

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
	"github.com/spf13/cobra"
)

// newCreate creates runs.
func newCreate(o *options) *cobra.Command {
	var s specOptions
	var placed, title string
	run := &cobra.Command{
		Use:   "run NAME --placement PLACEMENT --strategy FILE",
		Short: "Plan a run and record it; the engine that runs on the store starts it",
		Args:  cli.Arguments(cobra.ExactArgs(1)),
		RunE: o.writing(func(ctx context.Context, e *fleet.Engine, args []string) error {
			if placed == "" {
				return cli.UsageError{Err: fmt.Errorf("--placement is not set: it names the placement that is rolled out")}
			}
			spec, err := s.spec(placed)
			if err != nil {
				return err
			}
			if spec.Starter, err = o.Identity(); err != nil {
				return err
			}
			spec.Name, spec.Title = args[0], title
			status, err := e.CreateRun(ctx, spec)
			if err != nil {
				return err
			}
			return o.created(status)
		}),
	}
	s.flags(run)
	run.Flags().StringVar(&placed, "placement", "", "placement that is rolled out")
	run.Flags().StringVar(&title, "title", "", "title, for people")
	cmd := cli.Group("create", "Create a run")
	cmd.AddCommand(run)
	return cmd
}

func newCatchUp(o *options) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "catch-up RUN --name NAME",
		Short: "Create a run for the clusters that failed, were skipped or joined since",
		Args:  cli.Arguments(cobra.ExactArgs(1)),
		RunE: o.writing(func(ctx context.Context, e *fleet.Engine, args []string) error {
			if name == "" {
				return cli.UsageError{Err: fmt.Errorf("--name is not set: it names the run that catches up")}
			}
			by, err := o.Identity()
			if err != nil {
				return err
			}
			status, err := e.CatchUp(ctx, args[0], name, by)
			if err != nil {
				return err
			}
			return o.created(status)
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the run that catches up")
	return cmd
}

// created says which run there is now, and on the other stream what its plan warns of.
func (o *options) created(s fleet.Status) error {
	for _, w := range s.Plan.Warnings {
		if _, err := fmt.Fprintf(o.ErrOut, "warning: %s\n", w); err != nil {
			return err
		}
	}
	return o.Said("run/%s: created, stages %d, clusters %d", s.Run.Name, len(s.Plan.Stages), s.Plan.Len())
}

// newExplain says what a run waits for, or what one of its clusters does.
func newExplain(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "explain RUN [CLUSTER]",
		Short: "Say what a run waits for, or what a cluster of it has come to and waits for",
		Args:  cli.Arguments(cobra.RangeArgs(1, 2)),
		RunE: o.reading(func(ctx context.Context, e *fleet.Engine, args []string) error {
			var waiting []stages.Awaited
			if len(args) == 1 {
				s, err := e.Status(ctx, args[0])
				if err != nil {
					return err
				}
				waiting = stages.Waiting(s.Plan, &s.Run)
			} else {
				why, err := e.Explain(ctx, args[0], args[1])
				if err != nil {
					return err
				}
				if o.IsValue() {
					return o.PrintValue(why)
				}
				if err := o.Said("cluster/%s: %s in stage %s: %s", why.Cluster, why.State, why.Stage, why.Reason); err != nil {
					return err
				}
				if waiting = why.Waiting; len(waiting) == 0 {
					return nil
				}
			}
			l := &cli.List{Kind: "cause", Columns: []string{"Waits for", "Name", "Until", "Why"}, Narrow: 4}
			for _, w := range waiting {
				l.Add(string(w.Kind), w, w.Name, w.Until, w.Message)
			}
			return o.Print(l)
		}),
	}
}

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
			return o.Said("slipway %s %s", version, golang)
		},
	}
}
