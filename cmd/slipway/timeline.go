package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages/timeline"
)

// picture is how a run is drawn over time.
type picture struct {
	format string // text or svg
	width  int
	timeline.Options
}

func (p *picture) isDrawn() bool { return p.format == "text" || p.format == "svg" }

// newTimeline draws a run.
func newTimeline(o *options) *cobra.Command {
	var p picture
	cmd := verb(o, "timeline RUN [-o text|svg]", "Draw a run over time, and what is still to come of one that goes on",
		"slipway timeline web-v2 -o svg > web-v2.svg", nil)
	draw := o.reading(func(ctx context.Context, t *target.Target, args []string) error {
		return o.drawRun(ctx, t, runName(args[0]), fleet.Assumptions{}, p)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !p.isDrawn() {
			return cli.Usagef("-o %s: want text or svg", p.format)
		}
		return draw(cmd, args)
	}
	cmd.Flags().StringVarP(&p.format, "output", "o", "text", "text or svg")
	cmd.Flags().IntVar(&p.width, "width", 0, "width in columns, or in pixels of an SVG")
	cmd.Flags().IntVar(&p.Lanes, "lanes", 0, "how many clusters have a lane each; where there are more, groups have")
	return cmd
}

// newForecast forecasts a run, or one that there is not yet.
func newForecast(o *options) *cobra.Command {
	var s specOptions
	var a fleet.Assumptions
	var p picture
	cmd := verb(o, "forecast RUN | PLACEMENT --strategy FILE", "Forecast when a run ends, or when one would that there is not yet; nothing is written",
		"slipway forecast web-v2\nslipway forecast web --strategy strategy.yaml --approve-after 30m -o text", nil)
	forecast := o.reading(func(ctx context.Context, t *target.Target, args []string) (err error) {
		var f fleet.Forecast
		if s.strategy == "" {
			if p.isDrawn() {
				return o.drawRun(ctx, t, runName(args[0]), a, p)
			}
			f, err = t.ForecastRun(ctx, runName(args[0]), a)
		} else {
			var spec fleet.RunSpec
			if spec, err = s.spec(t, args[0]); err == nil {
				f, err = t.Forecast(ctx, spec, a)
			}
		}
		if err != nil {
			return err
		}
		if p.isDrawn() {
			return o.draw(timeline.Simulated(f.Plan, f.Events, p.Options), p)
		}
		return o.printForecast(f)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !p.isDrawn() {
			o.Output = p.format
		}
		return forecast(cmd, args)
	}
	s.flags(cmd)
	cmd.Flags().StringVarP(&p.format, "output", "o", cli.Table, "table, wide, json, yaml or name; text or svg for a picture")
	cmd.Flags().DurationVar(&a.Take, "take", 0, "how long a cluster needs of which nothing is known; 1m where it is not set")
	cmd.Flags().DurationVar(&a.Approve, "approve-after", 0, "how long people take to approve; a negative time is never")
	return cmd
}

// printForecast shows when the stages begin and end, and when the run does.
func (o *options) printForecast(f fleet.Forecast) error {
	if o.IsValue() {
		return o.PrintValue(f)
	}
	l := &cli.List{Kind: "stage", Columns: []string{"Stage", "Comes to", "Starts", "Ends"}, Narrow: 4}
	for _, st := range f.Stages {
		l.Add(st.Name, st, st.State, st.Starts, st.Ends)
	}
	if err := o.Print(l); err != nil || o.Output == cli.Name {
		return err
	}
	if f.Assumes != "" {
		o.Warn("this assumes that %s", f.Assumes)
	}
	if f.Ends.IsZero() {
		return o.Said("the run does not end: it %s", f.Why)
	}
	return o.Said("the run ends %s as %s, %s from %s on", cli.Cell(f.Ends), f.End.State, f.Ends.Sub(f.Now).Round(time.Second), cli.Cell(f.Now))
}

// drawRun draws what happened to a run, and what is to come as far as is assumed.
func (o *options) drawRun(ctx context.Context, t *target.Target, run string, a fleet.Assumptions, p picture) error {
	s, h, err := t.Progress(ctx, run, 0)
	if err != nil {
		return err
	}
	if !s.Run.IsEnded() {
		f, err := t.ForecastRun(ctx, run, a)
		if err != nil {
			return err
		}
		p.Now, p.Expected = f.Now, f.Events
	}
	return o.draw(timeline.New(s.Plan, h.Events, p.Options), p)
}

func (o *options) draw(t *timeline.Timeline, p picture) error {
	if p.format == "svg" {
		return timeline.SVG(o.Out, t, timeline.SVGOptions{Width: p.width})
	}
	return timeline.Text(o.Out, t, timeline.TextOptions{Width: p.width})
}
