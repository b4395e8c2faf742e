package azure

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

func runVerbs() []verb {
	directs := func(v stages.Verb) func(context.Context, *session) error {
		return func(ctx context.Context, s *session) error { return s.direct(ctx, stages.Command{Verb: v}) }
	}
	return []verb{
		{
			use: "create", short: "Plan a run", needs: "name upgrade-type", writes: true, do: createRun,
			takes: "kubernetes-version node-image-selection node-images stages update-strategy-name speed",
		},
		{use: "start", short: "Start a run, or resume it", needs: "name", takes: "no-wait", do: directs(stages.Start)},
		{use: "stop", short: "Stop a run; clusters in flight finish", needs: "name", do: directs(stages.Stop)},
		{use: "skip", short: "Skip members, groups, stages or the wait after a stage", needs: "name targets", do: skip},
		{use: "list", short: "List the runs", do: listRuns},
		{use: "show", short: "Show a run", needs: "name", do: func(ctx context.Context, s *session) error {
			r, err := s.get(ctx, s.name)
			if err != nil {
				return err
			}
			return s.showRun(r)
		}},
		{use: "delete", short: "Delete a run", needs: "name", do: func(ctx context.Context, s *session) error {
			return s.Run(s.name).Delete(ctx, false)
		}},
	}
}

func createRun(ctx context.Context, s *session) error {
	if _, err := s.get(ctx, s.name); err == nil {
		return fmt.Errorf("update run %s is there already: delete it first, or choose another name", s.name)
	}
	strategy, err := s.stages()
	if err != nil {
		return err
	}
	if len(s.record.Members) == 0 {
		return fmt.Errorf("fleet %s has no members: begin with member create", s.fleet)
	}
	target := upgrade.Target{Type: upgrade.Type(s.text("upgrade-type")), KubernetesVersion: s.text("kubernetes-version")}
	target.NodeImages = upgrade.NodeImages{Selection: upgrade.Selection(s.text("node-image-selection")), Versions: s.list("node-images")}
	if wrong := target.Validate(nil).ToAggregate(); wrong != nil {
		return cli.UsageError{Err: errors.Join(wrong.Errors()...)}
	}
	if target, err = upgrade.ResolveFor(ctx, s.record, s.record, strategy, target); err != nil {
		return err
	}
	s.record.Targets[s.name] = target
	if err := s.record.save(); err != nil {
		return err
	}
	if err := s.Engine.PutPlacement(ctx, fleet.Placement{Name: s.fleet, Selectors: []snapshot.Selector{upgrade.Selector(s.fleet)}}); err != nil {
		return err
	}
	created, err := s.CreateRun(ctx, fleet.RunSpec{Name: s.name, Owner: strategy.Name, Placement: s.fleet, Strategy: strategy, Hold: true})
	if err != nil {
		return err
	}
	for _, w := range created.Plan.Warnings {
		s.Warn("%s", strings.ReplaceAll(w, "clusters", "members"))
	}
	return s.showRun(run{Status: created})
}

func skip(ctx context.Context, s *session) error {
	var all []stages.Command
	for _, target := range s.list("targets") {
		c, err := azure.SkipOf(target)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	return s.direct(ctx, all...)
}

// updateRun returns a run in the form of az.
func (s *session) updateRun(r run) azure.UpdateRun {
	rec := azure.Record{Run: &r.Run, Plan: r.Plan, Events: r.Events, Target: s.record.Targets[r.Run.Name]}
	if r.Owner != "" {
		rec.StrategyID = s.id("updateStrategies", r.Owner)
	}
	u := azure.NewUpdateRun(rec)
	u.ID, u.ResourceGroup = s.id("updateRuns", u.Name), s.group
	return u
}

func listRuns(ctx context.Context, s *session) error {
	runs, err := s.Placement(s.fleet).Runs(ctx)
	if err != nil && !errors.Is(err, backend.ErrNotFound) { // no run exists yet
		return err
	}
	table := &cli.List{Kind: "updaterun", Columns: []string{"Name", "State", "Upgrade", "Version", "Images", "Failed"}, Narrow: 6}
	for _, summary := range runs {
		r, err := s.get(ctx, summary.Name)
		if err != nil {
			return err
		}
		u, target := s.updateRun(r), s.record.Targets[summary.Name]
		table.Add(u.Name, u, u.Status.Status.State, target.Type, target.KubernetesVersion, target.NodeImages.Selection, u.Status.FailureCount)
	}
	return s.show(table, table.Values())
}

// showRun shows a run, with a line for itself, each stage, gate, group, member and wait.
func (s *session) showRun(r run) error {
	if s.Output == cli.Name {
		return s.Said("updaterun/%s", s.name)
	}
	u := s.updateRun(r)
	table := &cli.List{Kind: "updaterun", Columns: []string{"Stage", "Group", "Member", "State", "Why"}, Narrow: 5}
	for p := range u.Parts {
		table.Add(p.Stage, nil, p.Group, p.Member, p.Status.State, p.Reason)
	}
	return s.show(table, u)
}

func gateVerbs() []verb {
	return []verb{
		{use: "list", short: "List the gates that a run has reached", needs: "name", do: listGates},
		{use: "update", short: "Complete a gate: approve, or end a scheduled start before its time", needs: "name gate-name state", do: updateGate},
	}
}

func listGates(ctx context.Context, s *session) error {
	r, err := s.get(ctx, s.name)
	if err != nil {
		return err
	}
	table := &cli.List{Kind: "gate", Columns: []string{"Gate", "Type", "State", "Stage", "Group", "Timing"}, Narrow: 6}
	for _, g := range azure.FleetGates(s.updateRun(r)) {
		in := g.Target.Run
		table.Add(g.Name, g, g.Type, g.State, in.Stage, in.Group, in.Timing)
	}
	return s.show(table, table.Values())
}

func updateGate(ctx context.Context, s *session) error {
	r, err := s.get(ctx, s.name)
	if err != nil {
		return err
	}
	name := s.text("gate-name")
	for _, g := range azure.FleetGates(s.updateRun(r)) {
		if g.Name == name && g.State == string(stages.Pending) {
			verb := stages.Decide
			if g.Type == string(stages.ScheduledStart) {
				verb = stages.CompleteGate
			}
			return s.direct(ctx, stages.Command{Verb: verb, Name: name})
		}
	}
	return fmt.Errorf("update run %s has no gate %s that is Pending: gate list shows all gates", s.name, name)
}
