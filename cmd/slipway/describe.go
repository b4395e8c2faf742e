package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/stages"
)

func newDescribe(o *options) *cobra.Command {
	var g getter
	cmd := &cobra.Command{
		Use:               "describe KIND NAME",
		Short:             "Show all of a placement, a run, a cluster, an approval, a snapshot, a cap or a lease",
		Args:              cli.Arguments(cobra.ExactArgs(2)),
		ValidArgsFunction: o.completeKinds,
		RunE: o.reading(func(ctx context.Context, t *target.Target, args []string) error {
			g.Target = t
			switch kind, name := strings.TrimSuffix(args[0], "s"), args[1]; kind {
			case "run":
				return o.describeRun(ctx, &g, runName(name))
			case "placement":
				return o.describePlacement(ctx, &g, strings.TrimPrefix(name, "placement/"))
			case "approval":
				return o.describeApproval(ctx, &g, strings.TrimPrefix(name, "approval/"))
			default:
				l, err := g.list(ctx, args[0], args[1:])
				if err != nil {
					return err
				}
				return o.Fields(l)
			}
		}),
	}
	g.flags(cmd)
	return cmd
}

// sections shows lists below their titles.
func (o *options) sections(titles []string, lists ...*cli.List) error {
	for i, l := range lists {
		if err := o.Section(titles[i], l); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) describePlacement(ctx context.Context, g *getter, name string) error {
	l, err := g.list(ctx, "placement", []string{name})
	if err != nil {
		return err
	}
	of := &getter{Target: g.Target, placement: name}
	runs, err := getRuns(ctx, of)
	if err != nil {
		return err
	}
	snapshots, err := getSnapshots(ctx, of)
	if o.isUnreadable(err) {
		return errors.Join(o.Fields(l), o.sections([]string{"Runs"}, runs))
	}
	if err != nil {
		return err
	}
	clusters, err := getClusters(ctx, of)
	if err != nil {
		return err
	}
	if err := o.Fields(l); err != nil {
		return err
	}
	return o.sections([]string{"Snapshots", "Runs", "Clusters"}, snapshots, runs, clusters)
}

// isUnreadable reports whether the records of a hub may not be read, and warns of that: what its objects show is shown
// without them.
func (o *options) isUnreadable(err error) bool {
	refusal, is := errors.AsType[*httpapi.Error](err)
	if !is || refusal.Reason != "Forbidden" {
		return false
	}
	o.Warn("only what objects show is shown: %v", err)
	return true
}

// lastEvents is how many events a description has.
const lastEvents = 10

func (o *options) describeRun(ctx context.Context, g *getter, name string) error {
	s, err := g.Status(ctx, name)
	if o.isUnreadable(err) {
		return o.describeRunObject(ctx, g, name)
	}
	if err != nil {
		return err
	}
	if o.IsValue() {
		return o.PrintValue(s)
	}
	h, err := g.History(ctx, name, 0)
	if err != nil {
		return err
	}
	r := &s.Run
	fields := &cli.List{Kind: "run", Columns: []string{"Name", "Title", "Placement", "State", "Reason", "Snapshot", "Plan", "Clusters", "Starter", "Created", "Started", "Ended", "Engine"}}
	fields.Add(name, s, s.Title, r.Placement, r.State, r.Reason, s.Plan.Index, s.Plan.Digest, s.Plan.Len(), r.Starter.Name,
		r.Created.Time(), r.Started.Time(), r.Ended.Time(), s.Holder)
	if err := o.Fields(fields); err != nil {
		return err
	}
	events := cli.NewEvents()
	for _, ev := range h.Events[max(0, len(h.Events)-lastEvents):] {
		events.AddEvent(ev)
	}
	return o.sections([]string{"Stages", "Waits for", "Events"}, stagesOf(&s), cli.NewAwaited(stages.Waiting(s.Plan, r)), events)
}

// describeRunObject shows of a run of a hub what its object and those of its requests show.
func (o *options) describeRunObject(ctx context.Context, g *getter, name string) error {
	l, err := g.list(ctx, "run", []string{name})
	if err != nil {
		return err
	}
	approvals, err := getApprovals(ctx, &getter{Target: g.Target, run: name})
	if err != nil {
		return err
	}
	return errors.Join(o.Fields(l), o.sections([]string{"Approvals"}, approvals))
}

// stagesOf are the stages of a run, a row for each group.
func stagesOf(s *fleet.Status) *cli.List {
	l := &cli.List{Kind: "stage", Columns: []string{"Stage", "Group", "State", "Done", "Failed", "Skipped", "In flight", "Gates"}, Narrow: 8}
	for _, st := range stages.Derive(s.Plan, &s.Run).Stages {
		for _, g := range st.Groups {
			var gates []string
			for _, gate := range append(st.Gates, g.Gates...) {
				gates = append(gates, fmt.Sprintf("%s %s %s", strings.ToLower(string(gate.When)), gate.Type, gate.State))
			}
			l.Add(st.Name, st, g.Name, g.State, fmt.Sprintf("%d/%d", g.Completed, g.Clusters), g.Failed, g.Skipped, g.InFlight, strings.Join(gates, ", "))
		}
	}
	return l
}

func (o *options) describeApproval(ctx context.Context, g *getter, name string) error {
	l, err := g.list(ctx, "approval", []string{name})
	if err != nil || o.IsValue() || o.Output == cli.Name {
		if err == nil {
			err = o.Print(l)
		}
		return err
	}
	open, err := g.AllRequests(ctx, g.placement)
	if err != nil {
		return err
	}
	for _, r := range open {
		if r.Name == name && (g.run == "" || r.Run == runName(g.run)) {
			if err := o.showRequest(ctx, g.Target, o.Out, r); err != nil {
				return err
			}
			if err := o.sections([]string{"Decisions"}, decisions(r)); err != nil {
				return err
			}
		}
	}
	return nil
}

func decisions(r approval.Request) *cli.List {
	l := &cli.List{Kind: "decision", Columns: []string{"By", "Verdict", "At", "Comment"}, Narrow: 4}
	for _, d := range r.Decisions {
		l.Add(d.By.Name, d, d.Verdict, d.At, d.Comment)
	}
	return l
}
