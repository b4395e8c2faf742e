package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	driftcmd "github.com/slipway-dev/slipway/cmd/slipway/internal/drift"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/hubtarget"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// specOptions are the flags that describe a run, which need not exist, and select its clusters.
type specOptions struct {
	strategy string
	index    int
	clusters []string
}

func (s *specOptions) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.strategy, "strategy", "", "YAML or JSON file of the strategy, or the name of a strategy that was applied; a run on a hub takes only a name")
	_ = cmd.MarkFlagFilename("strategy", "yaml", "yml", "json")
	cmd.Flags().IntVar(&s.index, "index", -1, "index of the snapshot; default a new snapshot of the objects as they are now")
	cmd.Flags().Lookup("index").DefValue = "0" // help shows no -1
}

// at returns the index of the snapshot, nil if none is named.
func (s *specOptions) at() *int {
	if s.index < 0 {
		return nil
	}
	return &s.index
}

// spec returns the specification of a run of a placement.
func (s *specOptions) spec(c call, name string) (fleet.RunSpec, error) {
	spec := fleet.RunSpec{Placement: name, Index: s.at()}
	if s.strategy == "" {
		return spec, cli.Usagef("--strategy is not set: it names a strategy that was applied, or its file")
	}
	if _, err := os.Stat(s.strategy); err != nil && (c.Hub != nil || !strings.Contains(s.strategy, "/") && !kubefleet.IsDocument(s.strategy)) {
		spec.Strategy.Name = s.strategy
		return spec, nil
	}
	if err := cli.ReadStrategy(s.strategy, &spec); err != nil {
		return spec, fmt.Errorf("--strategy: %w", err)
	}
	return spec, nil
}

func newPreview(o *options) *cobra.Command {
	var s specOptions
	cmd := o.reading("preview PLACEMENT --strategy NAME", "Show the plan that a run would have; nothing is written",
		"slipway preview web --strategy strategy.yaml", func(ctx context.Context, c call) error {
			spec, err := s.spec(c, c.args[0])
			if err != nil {
				return err
			}
			p, err := c.Preview(ctx, spec)
			if err != nil {
				return err
			}
			return o.printPlan(p, nil)
		})
	s.flags(cmd)
	return cmd
}

// printPlan shows a plan: its digest, its stages with their gates, and its clusters in their order.
// Warnings go to standard error. The plan of a rollback has an effect, other plans have none.
func (o *options) printPlan(p *stages.Plan, effect *rollbackEffect) error {
	warnings, index, l := p.Warnings, p.Index, cli.Planned(p, nil)
	if effect != nil {
		warnings, l = append(slices.Clone(warnings), effect.says()...), cli.Planned(p, effect.goesTo)
		if !slices.ContainsFunc(p.Clusters, func(c stages.PlannedCluster) bool { return c.Revision >= 0 }) {
			index = -1
		}
	}
	for _, w := range warnings {
		o.Warn("%s", w)
	}
	l.Value = map[string]any{"plan": p, "clusters": l.Values()}
	if !o.IsTable() {
		return o.Print(l)
	}
	fields := &cli.List{Kind: "plan", Columns: []string{"Plan", "Placement", "Snapshot", "Rolls back", "Clusters", "Warnings"}}
	rollsBack := ""
	if p.Rollback != nil {
		rollsBack = p.Rollback.Run
	}
	fields.Add(p.Digest, p, p.Placement, indexCell(index), rollsBack, p.Len(), len(warnings))
	return errors.Join(o.Fields(fields), o.Section("Stages", plannedStages(p)), o.Section("Clusters", l))
}

// previewRollback shows the plan of the rollback of the run of the call.
func (o *options) previewRollback(ctx context.Context, c call) error {
	p, err := c.Run(c.run()).PreviewRollback(ctx)
	if err != nil {
		return err
	}
	effect, err := effectOf(ctx, c, c.run(), p)
	if err != nil {
		return err
	}
	return o.printPlan(p, effect)
}

// plannedStages returns the stages of a plan, a row for each group.
func plannedStages(p *stages.Plan) *cli.List {
	l := &cli.List{Kind: "stage", Columns: []string{"Stage", "Group", "Clusters", "Before", "After"}}
	for i := range p.Stages {
		st := &p.Stages[i]
		for j := range st.Groups {
			g := &st.Groups[j]
			l.Add(st.Name, st, g.Name, g.Len, gatesCell(approval.Before, st.Gates, g.Gates), gatesCell(approval.After, st.Gates, g.Gates))
		}
	}
	return l
}

// gatesCell lists the gates on one side of a stage and of one of its groups.
func gatesCell(when approval.When, gates ...[]stages.PlannedGate) string {
	var out []string
	for _, g := range slices.Concat(gates...) {
		if g.When != when {
			continue
		}
		text := string(g.Type)
		if g.Wait.Duration > 0 {
			text += " " + g.Wait.Duration.String()
		}
		for _, q := range g.Policy.Quorums {
			text += " " + strings.TrimSpace(fmt.Sprintf("%d %s", q.Count, q.Group)) //nolint:modernize // a gate has few quorums
		}
		if g.Policy.DistinctApprovers && len(g.Policy.Quorums) > 1 {
			text += " by different people"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// indexCell returns the index of a snapshot; empty for the removal of a placement, which has
// none.
func indexCell(index int) string {
	if index < 0 {
		return ""
	}
	return strconv.Itoa(index)
}

func newPreviewSelection(o *options) *cobra.Command {
	var file string
	cmd := o.reading("preview-selection PLACEMENT", "Show which clusters a placement picks, or would pick with another policy; nothing is written",
		"slipway preview-selection web --policy policy.yaml", func(ctx context.Context, c call) error {
			var policy *placement.Policy
			if file != "" {
				var err error
				if policy, err = cli.ReadPolicy(file); err != nil {
					return fmt.Errorf("--policy: %w", err)
				}
			}
			if err := o.checkMembers(c); c.Hub == nil && err != nil {
				return err
			}
			r, err := c.Placement(c.args[0]).PreviewResolve(ctx, policy)
			if err != nil {
				return err
			}
			l := &cli.List{Kind: "cluster", Columns: []string{"Cluster", "Picked", "Reason"}}
			for _, c := range r.Evaluations {
				l.Add(c.Cluster, c, c.Picked, c.Reason)
			}
			if r.Shortfall != "" {
				o.Warn("%s", r.Shortfall)
			}
			return o.Print(l)
		})
	cmd.Flags().StringVar(&file, "policy", "", "file of a policy to try, YAML or JSON: a ClusterResourcePlacement, or only the fields of a policy")
	return cmd
}

func newDiff(o *options) *cobra.Command {
	var s specOptions
	var files []string
	cmd := o.reading("diff [PLACEMENT] --strategy NAME | -f FILE", "Show what a run would change on the clusters, or what apply would change; nothing is written",
		"slipway diff web --strategy strategy.yaml --cluster eu-1\nslipway diff -f fleet/", func(ctx context.Context, c call) error {
			switch {
			case len(files) > 0 && (len(c.args) > 0 || s.strategy != "" || s.index >= 0 || len(s.clusters) > 0):
				return cli.Usagef("-f: leave PLACEMENT, --strategy, --index and --cluster out, because it compares documents")
			case len(files) > 0:
				return o.diffFiles(ctx, c, files)
			case len(c.args) == 0:
				return cli.Usagef("want slipway diff PLACEMENT --strategy NAME, or slipway diff -f FILE; see slipway diff --help")
			}
			spec, err := s.spec(c, c.args[0])
			if err != nil {
				return err
			}
			if err := o.checkMembers(c); err != nil {
				return err
			}
			return printDifferences(o, c.Diff(ctx, spec, s.clusters...), func(d *fleet.ClusterDiff) *drift.ClusterReport { return &d.ClusterReport })
		})
	s.flags(cmd)
	cmd.Flags().StringSliceVar(&s.clusters, "cluster", nil, "only these clusters")
	fileFlag(cmd, &files)
	return cmd
}

// newDrift compares the clusters with the objects of a placement, or two files.
func newDrift(o *options) *cobra.Command {
	var s specOptions
	cmd := o.reading("drift PLACEMENT | --hub FILE --member FILE", "Show how the clusters, or a file, differ from what they should have; nothing is written",
		"slipway drift web\nslipway drift --hub hub.yaml --member member.yaml", func(ctx context.Context, c call) error {
			if err := o.checkMembers(c); err != nil {
				return err
			}
			found := c.Placement(c.args[0]).Drift(ctx, fleet.DriftOptions{Clusters: s.clusters, Index: s.at()})
			return printDifferences(o, found, func(d *drift.ClusterReport) *drift.ClusterReport { return d })
		})
	driftcmd.AddFiles(cmd, &o.Options)
	cmd.Flags().StringSliceVar(&s.clusters, "cluster", nil, "only these clusters")
	cmd.Flags().IntVar(&s.index, "index", -1, "index of the snapshot to compare with; default the current revision of each cluster")
	cmd.Flags().Lookup("index").DefValue = "0" // help shows no -1
	return cmd
}

// checkMembers refuses to read clusters if --clusters does not say how to reach them.
func (o *options) checkMembers(c call) error {
	switch {
	case c.Hub != nil && o.target.Clusters == "":
		return cli.Usagef("%w", hubtarget.ErrNoMembers)
	case c.Unreachable():
		return cli.Usagef("--clusters is not set: it names the kubeconfig whose contexts are the clusters")
	}
	return nil
}

// printDifferences shows the differences of clusters, a row for each object, and with -o json,
// yaml and name each cluster once. The error is cli.ErrDiffers if there are differences, and
// names the clusters that could not be compared.
func printDifferences[T any](o *options, found iter.Seq2[T, error], of func(*T) *drift.ClusterReport) error {
	l := &cli.List{Kind: "cluster", Columns: []string{"Cluster", "Object", "Reason", "Paths"}}
	differ, unread, compared := false, []string(nil), 0
	for value, err := range found {
		if err != nil {
			return err
		}
		c := of(&value)
		if c.State == drift.Compared {
			compared++
		}
		differ = differ || len(c.Objects) > 0
		if len(c.Problems) > 0 {
			unread = append(unread, fmt.Sprintf("cluster %s: %s", c.Cluster, strings.Join(c.Problems, "; ")))
		}
		if !o.IsTable() {
			l.Add(c.Cluster, value)
			continue
		}
		for _, obj := range c.Objects {
			var paths []string
			for _, one := range obj.Differences {
				paths = append(paths, one.Path)
			}
			name := strings.TrimPrefix(obj.Namespace+"/"+obj.Name, "/")
			// the path of a whole object is ""
			l.Add(c.Cluster, value, obj.Kind+" "+name, obj.Reason, cmp.Or(strings.Join(paths, " "), "the whole object"))
		}
	}
	l.Sort() // they arrive in the order of comparison
	switch {
	case o.IsTable() && !differ && len(unread) == 0:
		clusters := "cluster"
		if compared != 1 {
			clusters = cli.Plural(clusters)
		}
		fmt.Fprintf(o.ErrOut, "no differences on %d %s\n", compared, clusters)
	case !o.IsTable() || l.Len() > 0:
		if err := o.Print(l); err != nil {
			return err
		}
	}
	if len(unread) > 0 {
		return fmt.Errorf("clusters that could not be compared:\n  %s", strings.Join(unread, "\n  "))
	}
	if differ {
		return cli.ErrDiffers
	}
	return nil
}
