package azure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

func runVerbs() []verb {
	return []verb{
		{
			use: "create", short: "Plan a run", needs: "name upgrade-type", writes: true, do: createRun,
			takes: "kubernetes-version node-image-selection node-images stages update-strategy-name speed preview",
		},
		{use: "start", short: "Start a run, or go on with it", needs: "name", takes: "no-wait", do: func(ctx context.Context, s *session) error {
			return s.direct(ctx, stages.Command{Verb: stages.Start})
		}},
		{use: "retry", short: "Try again what failed, or was skipped", needs: "name", takes: "only no-wait", do: func(ctx context.Context, s *session) error {
			return s.direct(ctx, stages.Command{Verb: stages.Retry, Only: stages.Only(s.text("only"))})
		}},
		{use: "stop", short: "Stop a run; what is in flight ends", needs: "name", do: func(ctx context.Context, s *session) error {
			return s.direct(ctx, stages.Command{Verb: stages.Stop})
		}},
		{use: "skip", short: "Skip members, groups, stages or the wait after a stage", needs: "name targets", do: func(ctx context.Context, s *session) error {
			var all []stages.Command
			for _, target := range s.list("targets") {
				c, err := azure.SkipOf(target)
				if err != nil {
					return err
				}
				all = append(all, c)
			}
			return s.direct(ctx, all...)
		}},
		{use: "list", short: "List the runs", do: listRuns},
		{use: "show", short: "Show a run", needs: "name", do: func(ctx context.Context, s *session) error {
			r, err := s.find(ctx)
			if err != nil {
				return err
			}
			return s.showRun(r)
		}},
		{use: "delete", short: "Delete a run", needs: "name", do: func(ctx context.Context, s *session) error {
			r, err := s.find(ctx)
			if err == nil && isGoing(r) {
				err = fmt.Errorf("update run %s is %s: stop it first", s.name, r.Run.State)
			}
			if err != nil {
				return err
			}
			return s.DeleteRun(ctx, s.name)
		}},
	}
}

func createRun(ctx context.Context, s *session) error {
	if _, err := s.find(ctx); err == nil {
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
	if err := s.Engine.PutPlacement(ctx, fleet.Placement{Name: s.fleet, Selectors: []snapshot.Selector{upgrade.Selector(s.fleet)}}); err != nil {
		return err
	}
	spec := fleet.RunSpec{Name: s.name, Owner: strategy.Name, Placement: s.fleet, Strategy: strategy, Hold: true}
	forecast, err := s.Forecast(ctx, spec, fleet.Assumptions{Take: 4 * time.Second})
	if err != nil {
		return err
	}
	for _, w := range forecast.Plan.Warnings {
		s.Warn("%s", strings.ReplaceAll(w, "clusters", "members"))
	}
	created := fleet.Status{Plan: forecast.Plan, Owner: spec.Owner}
	if s.text("preview") == "true" {
		end, typical := forecast.End.At.Round(time.Second), forecast.Typical.Round(time.Second)
		s.note("estimate: %s %s after its start, if a member of which nothing is known takes %s", forecast.End.State, end, typical)
		created.Run = stages.NewRun(forecast.Plan, spec.Name, "preview", approval.Identity{}, true, time.Now())
		return s.showRun(run{Status: created})
	}
	if err := s.record.save(); err != nil {
		return err
	}
	spec.Plan = forecast.Plan.Digest
	if created, err = s.CreateRun(ctx, spec); err != nil {
		return err
	}
	return s.showRun(run{Status: created})
}

// updateRun returns a run as az shows it.
func (s *session) updateRun(r run) azure.UpdateRun {
	rec := azure.Record{Run: &r.Run, Plan: r.Plan, Events: r.events, Target: s.record.Targets[r.Run.Name]}
	if r.Owner != "" {
		rec.StrategyID = s.id("updateStrategies", r.Owner)
	}
	u := azure.NewUpdateRun(rec)
	u.ID, u.ResourceGroup = s.id("updateRuns", u.Name), s.group
	return u
}

func listRuns(ctx context.Context, s *session) error {
	if _, err := s.read(ctx); err != nil {
		return err
	}
	table := &cli.List{Kind: "updaterun", Columns: []string{"Name", "State", "Upgrade", "Version", "Images", "Failed"}, Narrow: 6}
	for _, r := range s.runs {
		u, target := s.updateRun(r), s.record.Targets[r.Run.Name]
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
		{use: "list", short: "List the gates that a run has come to", needs: "name", do: listGates},
		{use: "update", short: "Complete a gate: approve, or end a scheduled start before its time", needs: "name gate-name state", do: updateGate},
	}
}

func listGates(ctx context.Context, s *session) error {
	r, err := s.find(ctx)
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
	r, err := s.find(ctx)
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
	return fmt.Errorf("update run %s has no gate %s that is Pending: gate list shows which there are", s.name, name)
}
