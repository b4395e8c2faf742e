package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages/timeline"
)

// newTimeline draws a run.
func newTimeline(o *options) *cobra.Command {
	var width int
	var format string
	var opts timeline.Options
	cmd := &cobra.Command{
		Use:               "timeline RUN [-o text|svg]",
		Short:             "Draw a run over time, and what is still to come of one that goes on",
		Args:              cli.Arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: o.completeRuns,
	}
	draw := o.reading(func(ctx context.Context, t *target.Target, args []string) error {
		return o.drawRun(ctx, t, runName(args[0]), format, opts, width)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !isPicture(format) {
			return cli.Usagef("-o %s: want text or svg", format)
		}
		return draw(cmd, args)
	}
	cmd.Flags().StringVarP(&format, "output", "o", "text", "text or svg")
	cmd.Flags().IntVar(&width, "width", 0, "width in columns, or in pixels of an SVG")
	cmd.Flags().IntVar(&opts.Lanes, "lanes", 0, "how many clusters have a lane each; where there are more, groups have")
	return cmd
}

func isPicture(format string) bool { return format == "text" || format == "svg" }

// drawRun draws what happened to a run, and what is to come.
func (o *options) drawRun(ctx context.Context, t *target.Target, run, format string, opts timeline.Options, width int) error {
	s, h, err := t.Progress(ctx, run, 0)
	if err != nil {
		return err
	}
	if !s.Run.IsEnded() {
		f, err := t.ForecastRun(ctx, run, fleet.Assumptions{})
		if err != nil {
			return err
		}
		opts.Now, opts.Expected = f.Now, f.Events
	}
	return o.draw(timeline.New(s.Plan, h.Events, opts), format, width)
}

func (o *options) draw(picture *timeline.Timeline, format string, width int) error {
	if format == "svg" {
		return timeline.SVG(o.Out, picture, timeline.SVGOptions{Width: width})
	}
	return timeline.Text(o.Out, picture, timeline.TextOptions{Width: width})
}
