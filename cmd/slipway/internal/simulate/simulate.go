// Package simulate has the verb of the command that simulates the scenario of a file in virtual
// time.
//
// # Output
//
// A timeline and an SVG are the picture of the run from package stages/timeline. Text has the
// events, in the form of slipway history, then the end of the run, the clusters that did not
// complete, the most clusters in flight in each stage and group, and the gates that held the run;
// and the same for its rollback run. A gate decided if no other gate of its side held the run
// longer. Warnings are on standard error.
//
// With -o json every line is one JSON object, see [scenario.Scenario.Lines].
package simulate

import (
	"bufio"
	"cmp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/formats/scenario"
	"github.com/slipway-dev/slipway/stages/simulate"
	"github.com/slipway-dev/slipway/stages/timeline"
)

// New returns the verb simulate.
func New(o *cli.Options) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "simulate FILE",
		Short: "Run the scenario of a file in virtual time, and show when the run would end",
		Long: "Carry out the scenario of a file, or of the standard input if FILE is -, in virtual time: by the rules of the\n" +
			"engine, without clusters. The fields of a scenario are documented in package formats/scenario.\n\n" +
			"The exit code is 0 if the simulation has ended, in any state of the run, and 1 if the scenario has errors.",
		Args: cli.Arguments(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			if !slices.Contains([]string{"text", cli.JSON, "timeline", "svg"}, output) {
				return cli.Usagef("-o %s: want text, json, timeline or svg", output)
			}
			in, name, err := o.Open(args[0])
			if err != nil {
				return err
			}
			defer in.Close()
			s, err := scenario.Read(in, name)
			if err != nil {
				return err
			}
			for _, w := range s.Plan.Warnings {
				o.Warn("%s", w)
			}
			out := bufio.NewWriter(o.Out) // keeps the first error
			shown := *o
			shown.Out, shown.Output = out, output
			return cmp.Or(show(&shown, &s), out.Flush())
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text; json, an object for each event; timeline or svg, the picture of the run")
	return cmd
}

// show simulates a scenario and shows it in the format of -o.
func show(o *cli.Options, s *scenario.Scenario) error {
	var events []simulate.Event
	end, err := simulate.Run(s.Plan, s.Environment, func(e simulate.Event) error {
		if e.Run = simulate.RunName; e.Back != nil {
			e.Run = simulate.BackName
		}
		events = append(events, e)
		return nil
	})
	if err != nil {
		return err
	}
	switch o.Output {
	case cli.JSON:
		for line := range s.Lines(events, &end) {
			if err := o.PrintLine(line, ""); err != nil {
				return err
			}
		}
		return nil
	case "svg":
		return timeline.SVG(o.Out, timeline.Simulated(s.Plan, events, timeline.Options{}), timeline.SVGOptions{})
	case "timeline":
		return timeline.Text(o.Out, timeline.Simulated(s.Plan, events, timeline.Options{}), timeline.TextOptions{})
	}
	o.Output = cli.Table
	printText(o, events, &end)
	return nil
}
