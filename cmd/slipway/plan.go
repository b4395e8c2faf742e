package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/drift"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/timeline"
)

// specOptions are the flags that name a run which there need not be.
type specOptions struct {
	strategy string
	index    int
	clusters []string
}

func (s *specOptions) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.strategy, "strategy", "", "file of the strategy, YAML or JSON; on a hub also the name of a strategy that is there")
	cmd.Flags().IntVar(&s.index, "index", -1, "index of the snapshot; without it what the source holds now")
	_ = cmd.MarkFlagFilename("strategy", "yaml", "yml", "json")
}

// spec is what a run of a placement is asked for by.
func (s *specOptions) spec(t *target.Target, name string) (fleet.RunSpec, error) {
	spec := fleet.RunSpec{Placement: name}
	if s.index >= 0 {
		spec.Index = &s.index
	}
	if s.strategy == "" {
		return spec, cli.UsageError{Err: fmt.Errorf("--strategy is not set: it names the file of the strategy")}
	}
	if _, err := os.Stat(s.strategy); err != nil && t.Hub {
		spec.Strategy.Name = s.strategy
		return spec, nil
	}
	return spec, readFile(s.strategy, &spec.Strategy)
}

// readFile decodes a document. A field that is not known is an error.
func readFile(path string, into any) error {
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.UnmarshalStrict(text, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func newPreview(o *options) *cobra.Command {
	var s specOptions
	cmd := &cobra.Command{
		Use:               "preview PLACEMENT",
		Short:             "Show the plan that a run would have; nothing is written",
		Args:              cli.Arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: o.completePlacements,
		RunE: o.reading(func(ctx context.Context, t *target.Target, args []string) error {
			spec, err := s.spec(t, args[0])
			if err != nil {
				return err
			}
			plan, err := t.Preview(ctx, spec)
			if err != nil {
				return err
			}
			return o.printPlan(plan)
		}),
	}
	s.flags(cmd)
	return cmd
}

// plannedCluster is a cluster of a plan.
type plannedCluster struct {
	Cluster  string `json:"cluster"`
	Stage    string `json:"stage"`
	Group    string `json:"group,omitempty"`
	Revision string `json:"revision,omitempty"`
}

// printPlan shows a plan: its clusters in their order, and its warnings on the other stream.
func (o *options) printPlan(p *stages.Plan) error {
	l := &cli.List{Kind: "cluster", Columns: []string{"Cluster", "Stage", "Group", "Gets"}, Narrow: 3}
	clusters := []plannedCluster{}
	for i := range p.Stages {
		for _, g := range p.Stages[i].Groups {
			for _, c := range p.Clusters[g.First : g.First+g.Len] {
				one := plannedCluster{Cluster: c.Name, Stage: p.Stages[i].Name, Group: g.Name}
				if c.Revision >= 0 {
					one.Revision = p.Revisions[c.Revision]
				}
				clusters = append(clusters, one)
				l.Add(one.Cluster, one, one.Stage, one.Group, one.Revision)
			}
		}
	}
	for _, w := range p.Warnings {
		o.Warn("%s", w)
	}
	if o.IsValue() {
		return o.PrintValue(struct {
			Plan     *stages.Plan     `json:"plan"`
			Clusters []plannedCluster `json:"clusters"`
		}{p, clusters})
	}
	return o.Print(l)
}

func newPreviewSelection(o *options) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:               "preview-selection PLACEMENT",
		Short:             "Show which clusters a placement picks, or would with another policy; nothing is written",
		Args:              cli.Arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: o.completePlacements,
		RunE: o.reading(func(ctx context.Context, t *target.Target, args []string) error {
			var policy *placement.Policy
			if file != "" {
				policy = &placement.Policy{}
				if err := readFile(file, policy); err != nil {
					return err
				}
			}
			r, err := t.PreviewSelection(ctx, args[0], policy)
			if err != nil {
				return err
			}
			l := &cli.List{Kind: "cluster", Columns: []string{"Cluster", "Picked", "Reason"}, Narrow: 3}
			for _, c := range r.Evaluations {
				l.Add(c.Cluster, c, c.Picked, c.Reason)
			}
			if r.Shortfall != "" {
				o.Warn("%s", r.Shortfall)
			}
			return o.Print(l)
		}),
	}
	cmd.Flags().StringVar(&file, "policy", "", "file of a policy to try, YAML or JSON")
	return cmd
}

func newForecast(o *options) *cobra.Command {
	var s specOptions
	var a fleet.Assumptions
	var format string
	cmd := &cobra.Command{
		Use:               "forecast RUN | PLACEMENT --strategy FILE",
		Short:             "Say when a run ends, or when one would that there is not yet; nothing is written",
		Args:              cli.Arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: o.completeRuns,
	}
	forecast := o.reading(func(ctx context.Context, t *target.Target, args []string) error {
		if s.strategy == "" {
			if isPicture(format) {
				return o.drawRun(ctx, t, runName(args[0]), format, timeline.Options{}, 0)
			}
			f, err := t.ForecastRun(ctx, runName(args[0]), a)
			if err != nil {
				return err
			}
			return o.printForecast(f)
		}
		spec, err := s.spec(t, args[0])
		if err != nil {
			return err
		}
		f, err := t.Forecast(ctx, spec, a)
		if err != nil {
			return err
		}
		if isPicture(format) {
			return o.draw(timeline.Simulated(f.Plan, f.Events, timeline.Options{}), format, 0)
		}
		return o.printForecast(f)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !isPicture(format) {
			o.Output = format
		}
		return forecast(cmd, args)
	}
	s.flags(cmd)
	cmd.Flags().StringVarP(&format, "output", "o", cli.Table, "table, wide, json, yaml or name; text or svg for a picture")
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

// differences are those of clusters, a row for each object.
type differences struct {
	cli.List
	found bool
	// unread are the clusters with problems.
	unread []string
}

func newDifferences() *differences {
	return &differences{List: cli.List{Kind: "cluster", Columns: []string{"Cluster", "Object", "Reason", "Paths"}, Narrow: 4}}
}

// take adds what differs on a cluster; value is what -o json shows.
func (d *differences) take(c *fleet.ClusterDrift, value any) {
	d.found = d.found || len(c.Objects) > 0
	if len(c.Problems) > 0 {
		d.unread = append(d.unread, fmt.Sprintf("cluster %s: %s", c.Cluster, strings.Join(c.Problems, "; ")))
	}
	for i := range c.Objects {
		obj := &c.Objects[i]
		var paths []string
		for _, one := range obj.Differences {
			paths = append(paths, one.Path)
		}
		name := obj.Kind + " " + obj.Name
		if obj.Namespace != "" {
			name = obj.Kind + " " + obj.Namespace + "/" + obj.Name
		}
		d.Add(c.Cluster, value, name, obj.Reason, strings.Join(paths, " "))
	}
}

// printDifferences shows them. With -o json and -o yaml a cluster is shown once, with all its objects.
func (o *options) printDifferences(d *differences, whole *cli.List) error {
	l := &d.List
	if o.Output != cli.Table && o.Output != cli.Wide {
		l = whole
	}
	var err error
	if l.Len() > 0 || l == whole {
		err = o.Print(l)
	}
	switch {
	case err != nil:
		return err
	case len(d.unread) > 0:
		return fmt.Errorf("clusters that could not be compared:\n  %s", strings.Join(d.unread, "\n  "))
	case d.found:
		return cli.ErrDiffers
	}
	return nil
}

func newDiff(o *options) *cobra.Command {
	var s specOptions
	cmd := &cobra.Command{
		Use:               "diff PLACEMENT",
		Short:             "Show what a run would change on the clusters; nothing is written",
		Args:              cli.Arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: o.completePlacements,
		RunE: o.reading(func(ctx context.Context, t *target.Target, args []string) error {
			spec, err := s.spec(t, args[0])
			if err != nil {
				return err
			}
			d, whole := newDifferences(), &cli.List{Kind: "cluster"}
			for c, err := range t.Diff(ctx, spec, s.clusters...) {
				if err != nil {
					return err
				}
				d.take(&c.ClusterDrift, c)
				whole.Add(c.Cluster, c)
			}
			return o.printDifferences(d, whole)
		}),
	}
	s.flags(cmd)
	cmd.Flags().StringSliceVar(&s.clusters, "cluster", nil, "only these clusters")
	return cmd
}

// newDrift compares what a placement has brought to clusters, or two files.
func newDrift(o *options) *cobra.Command {
	var clusters []string
	var index int
	cmd := &cobra.Command{
		Use:               "drift PLACEMENT | --hub FILE --member FILE",
		Short:             "Show how the clusters, or a file, differ from what they should have; nothing is written",
		Args:              cli.Arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: o.completePlacements,
		RunE: o.reading(func(ctx context.Context, t *target.Target, args []string) error {
			opts := fleet.DriftOptions{Clusters: clusters}
			if index >= 0 {
				opts.Index = &index
			}
			d, whole := newDifferences(), &cli.List{Kind: "cluster"}
			for c, err := range t.Drift(ctx, args[0], opts) {
				if err != nil {
					return err
				}
				d.take(&c, c)
				whole.Add(c.Cluster, c)
			}
			return o.printDifferences(d, whole)
		}),
	}
	cmd.Flags().StringSliceVar(&clusters, "cluster", nil, "only these clusters")
	drift.AddFiles(cmd, &o.Options)
	cmd.Flags().IntVar(&index, "index", -1, "compare with this snapshot instead of what each cluster was brought to")
	return cmd
}
