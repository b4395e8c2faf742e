package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/timeline"
)

// drawn are the formats of pictures. A verb without a table draws text if -o is not set.
var drawn = []string{"text", "svg"}

// newTimeline draws a run.
func newTimeline(o *options) *cobra.Command {
	var width int
	cmd := o.reading("timeline RUN [-o text|svg]", "Draw a run over time, with its forecast if it has not ended",
		"slipway timeline web-v2 -o svg > web-v2.svg", func(ctx context.Context, c call) error {
			return o.drawRun(ctx, c, c.run(), fleet.Assumptions{}, width)
		}, append(drawn, cli.Table)...)
	cmd.Flags().IntVar(&width, "width", 0, "width in columns, or in pixels of an SVG")
	return cmd
}

// newForecast forecasts an existing run, or a run that does not exist yet.
func newForecast(o *options) *cobra.Command {
	var s specOptions
	var a fleet.Assumptions
	cmd := o.reading("forecast RUN | PLACEMENT --strategy NAME [-o text|svg]", "Forecast the end of a run, or of a run that does not exist yet; nothing is written",
		"slipway forecast web-v2\nslipway forecast web --strategy strategy.yaml --approve-after 30m", func(ctx context.Context, c call) (err error) {
			asPicture := slices.Contains(drawn, o.Output)
			var f fleet.Forecast
			switch {
			case s.strategy == "" && asPicture:
				return o.drawRun(ctx, c, c.run(), a, 0)
			case s.strategy == "":
				f, err = c.Run(c.run()).Forecast(ctx, a)
			default:
				var spec fleet.RunSpec
				if spec, err = s.spec(c, c.args[0]); err == nil {
					f, err = c.Forecast(ctx, spec, a)
				}
			}
			switch {
			case err != nil:
				return err
			case asPicture:
				return o.draw(timeline.Simulated(f.Plan, f.Events, timeline.Options{}), 0)
			}
			return o.printForecast(f, a)
		}, append(cli.Formats(), drawn...)...)
	s.flags(cmd)
	cmd.Flags().DurationVar(&a.Take.Duration, "take", 0, "assumed duration of a cluster without history; default 1m")
	cmd.Flags().DurationVar(&a.Approve.Duration, "approve-after", 0, "assumed time until people approve; negative is never")
	return cmd
}

// printForecast shows when the stages and the run begin and end.
func (o *options) printForecast(f fleet.Forecast, a fleet.Assumptions) error {
	l := &cli.List{Kind: "stage", Columns: []string{"Stage", "State then", "Starts", "Ends"}, Value: f}
	for _, st := range f.Stages {
		l.Add(st.Name, st, st.State, st.Starts, st.Ends)
	}
	if err := o.Print(l); err != nil || !o.IsTable() {
		return err
	}
	if f.Assumes != "" {
		o.Warn("this assumes that %s", f.Assumes)
	}
	if f.Ends.IsZero() {
		return o.Said("the run does not end: it %s", f.Why)
	}
	if !f.Ends.After(f.Now) {
		return o.Said("the run has ended %s as %s", cli.Cell(f.Ends), f.End.State)
	}
	if n, first := approvals(&f); n > 0 {
		after, when := "the approval", "at once"
		if n > 1 {
			after = fmt.Sprintf("the first of %d approvals", n)
		}
		if a.Approve.Duration > 0 {
			when = "after " + a.Approve.Duration.String()
		}
		o.Warn("the times assume that people approve %s", when)
		return o.Said("the run ends as %s, about %s after %s", f.End.State, f.Ends.Sub(first).Round(time.Second), after)
	}
	return o.Said("the run ends %s as %s, in %s", cli.Cell(f.Ends), f.End.State, f.Ends.Sub(f.Now).Round(time.Second))
}

// approvals returns how many approvals the run still needs, and when the first one is assumed.
func approvals(f *fleet.Forecast) (n int, first time.Time) {
	for i := range f.Events {
		e := &f.Events[i]
		if e.Type != stages.ApprovalAccepted || e.Back != nil || e.At.Duration < 0 {
			continue
		}
		if n++; n == 1 {
			first = f.Now.Add(e.At.Duration)
		}
	}
	return n, first
}

// drawRun draws the past of a run, and its expected future under assumptions.
func (o *options) drawRun(ctx context.Context, c call, run string, a fleet.Assumptions, width int) error {
	h, err := c.Run(run).History(ctx, 0)
	if err != nil {
		return err
	}
	s := h.Status
	var p timeline.Options
	if !s.Run.IsEnded() {
		f, err := c.Run(run).Forecast(ctx, a)
		if err != nil {
			return err
		}
		p.Now, p.Expected = f.Now, f.Events
	}
	return o.draw(timeline.New(s.Plan, h.Events, p), width)
}

func (o *options) draw(t *timeline.Timeline, width int) error {
	if o.Output == "svg" {
		return timeline.SVG(o.Out, t, timeline.SVGOptions{Width: width})
	}
	return timeline.Text(o.Out, t, timeline.TextOptions{Width: width})
}
