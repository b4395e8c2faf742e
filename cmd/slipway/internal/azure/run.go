package azure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/placement"
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
			return s.start(ctx, stages.Command{Verb: stages.Start})
		}},
		{use: "retry", short: "Try again what failed, or was skipped", needs: "name", takes: "only no-wait", do: func(ctx context.Context, s *session) error {
			return s.start(ctx, stages.Command{Verb: stages.Retry, Only: stages.Only(s.text("only"))})
		}},
		{use: "stop", short: "Stop a run; what is in flight ends", needs: "name", do: func(ctx context.Context, s *session) error {
			return s.send(ctx, stages.Command{Verb: stages.Stop})
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
			return s.send(ctx, all...)
		}},
		{use: "list", short: "List the runs", do: listRuns},
		{use: "show", short: "Show a run", needs: "name", do: showRun},
		{use: "delete", short: "Delete a run", needs: "name", do: deleteRun},
	}
}

func createRun(ctx context.Context, s *session) error {
	strategy, err := s.stages()
	if err != nil {
		return err
	}
	target, err := s.resolve(ctx, strategy)
	if err != nil {
		return err
	}
	s.config.Source = upgrade.Source(s.fleet, target)
	e, err := fleet.New(s.config)
	if err != nil {
		return err
	}
	if err := e.PutPlacement(ctx, fleet.Placement{Name: s.fleet, Selectors: []snapshot.Selector{upgrade.Selector(s.fleet)}}); err != nil {
		return err
	}
	spec := fleet.RunSpec{Name: s.name, Owner: strategy.Name, Placement: s.fleet, Strategy: strategy, Hold: true}
	forecast, err := e.Forecast(ctx, spec, fleet.Assumptions{Take: 4 * time.Second})
	if err != nil {
		return refused(err)
	}
	for _, w := range forecast.Plan.Warnings {
		s.Warn("%s", strings.ReplaceAll(w, "clusters", "members"))
	}
	if s.text("preview") == "true" {
		basis := fmt.Sprintf("each member takes %s", forecast.Typical.Round(time.Second))
		if forecast.Known > 0 {
			basis = fmt.Sprintf("members take as long as in the run before, which is known of %d of %d", forecast.Known, forecast.Plan.Len())
		}
		s.note("estimate: %s %s after its start, if %s", forecast.End.State, forecast.End.At.Round(time.Second), basis)
		run := stages.NewRun(forecast.Plan, spec.Name, "preview", approval.Identity{}, true, time.Now())
		return s.printRun(s.updateRun(fleet.Status{Run: run, Plan: forecast.Plan, Owner: spec.Owner}, nil, target))
	}
	s.record.Targets[s.name] = target
	if err := s.clusters.save(); err != nil {
		return err
	}
	spec.Plan = forecast.Plan.Digest
	if _, err := e.CreateRun(ctx, spec); err != nil {
		return refused(err)
	}
	return showRun(ctx, s)
}

// resolve returns what the flags say that a run does, with what all members have in common that its stages pick.
func (s *session) resolve(ctx context.Context, strategy stages.Strategy) (upgrade.Target, error) {
	t := upgrade.Target{Type: upgrade.Type(s.text("upgrade-type")), KubernetesVersion: s.text("kubernetes-version")}
	t.NodeImages = upgrade.NodeImages{Selection: upgrade.Selection(s.text("node-image-selection")), Versions: s.list("node-images")}
	if wrong := t.Validate(nil).ToAggregate(); wrong != nil {
		return t, cli.UsageError{Err: errors.Join(wrong.Errors()...)}
	}
	var members []placement.Cluster
	for c := range s.clusters.Clusters(ctx) {
		members = append(members, c)
	}
	if len(members) == 0 {
		return t, fmt.Errorf("fleet %s has no members: begin with member create", s.fleet)
	}
	p, err := stages.NewPlan(strategy, stages.Target{Placement: "any", Snapshot: "any", Selection: "any", Default: "any"}, members)
	if err != nil {
		return t, err
	}
	members = slices.DeleteFunc(members, func(c placement.Cluster) bool {
		_, in := p.Position(c.Name)
		return !in
	})
	return upgrade.Resolve(ctx, s.clusters, members, t)
}

// refused says why clusters cannot be upgraded, one line each, where that is so.
func refused(err error) error {
	if r, ok := errors.AsType[*upgrade.RefusedError](err); ok {
		return fmt.Errorf("nothing was planned:\n%w", r)
	}
	return err
}

// updateRun returns a run as az shows it.
func (s *session) updateRun(st fleet.Status, events []stages.Event, target upgrade.Target) azure.UpdateRun {
	rec := azure.Record{Run: &st.Run, Plan: st.Plan, Events: events, Target: target, ResourceIDs: map[string]string{}}
	if st.Owner != "" {
		rec.StrategyID = s.id("updateStrategies", st.Owner)
	}
	for _, c := range st.Plan.Clusters {
		rec.ResourceIDs[c.Name] = c.UID
	}
	u := azure.NewUpdateRun(rec)
	u.ID, u.ResourceGroup = s.id("updateRuns", u.Name), s.group
	return u
}

// get reads a run, and returns it as az shows it too.
func (s *session) get(ctx context.Context, name string) (st fleet.Status, u azure.UpdateRun, err error) {
	err = s.again(ctx, func() error {
		var history fleet.History
		st, history, err = s.Progress(ctx, name, 0)
		if err == nil {
			u = s.updateRun(st, history.Events, s.record.Targets[name])
		}
		return err
	})
	if errors.Is(err, backend.ErrNotFound) {
		err = missing("update run", name)
	}
	return st, u, err
}

func showRun(ctx context.Context, s *session) error {
	_, u, err := s.get(ctx, s.name)
	if err != nil {
		return err
	}
	return s.printRun(u)
}

// all returns the runs of the fleet in the order in which they were made.
func (s *session) all(ctx context.Context) ([]fleet.RunSummary, error) {
	runs, err := s.RunSummaries(ctx, s.fleet)
	if errors.Is(err, backend.ErrNotFound) {
		return nil, nil // no run was ever made
	}
	return runs, err
}

func listRuns(ctx context.Context, s *session) error {
	all, err := s.all(ctx)
	if err != nil {
		return err
	}
	table := &cli.List{Kind: "updaterun", Columns: []string{"Name", "State", "Upgrade", "Version", "Images", "Failed"}, Narrow: 6}
	var runs []azure.UpdateRun
	for _, r := range all {
		_, u, err := s.get(ctx, r.Name)
		if err != nil {
			return err
		}
		target := s.record.Targets[r.Name]
		runs = append(runs, u)
		table.Add(u.Name, u, u.Status.Status.State, target.Type, target.KubernetesVersion, target.NodeImages.Selection, u.Status.FailureCount)
	}
	return show(s, runs, table)
}

func deleteRun(ctx context.Context, s *session) error {
	_, u, err := s.get(ctx, s.name)
	if err != nil {
		return err
	}
	switch state := stages.State(u.Status.Status.State); state {
	case stages.Running, stages.Pending, stages.Stopping:
		return fmt.Errorf("update run %s is %s: stop it first", s.name, state)
	default:
		return s.DeleteRun(ctx, s.name)
	}
}

// printRun shows a run, with a line for itself, each stage, gate, group, member and wait.
func (s *session) printRun(u azure.UpdateRun) error {
	table := &cli.List{Kind: "updaterun", Columns: []string{"Stage", "Group", "Member", "State", "Why"}, Narrow: 5}
	for p := range u.Parts {
		table.Add(p.Stage, nil, p.Group, p.Member, p.Status.State, p.Reason)
	}
	return show(s, []azure.UpdateRun{u}, table)
}

func gateVerbs() []verb {
	return []verb{
		{use: "list", short: "List the gates that a run has come to", needs: "name", do: listGates},
		{use: "update", short: "Complete a gate: approve, or end a scheduled start before its time", needs: "name gate-name state", do: updateGate},
	}
}

func listGates(ctx context.Context, s *session) error {
	_, u, err := s.get(ctx, s.name)
	if err != nil {
		return err
	}
	table := &cli.List{Kind: "gate", Columns: []string{"Gate", "Type", "State", "Stage", "Group", "Timing"}, Narrow: 6}
	gates := azure.FleetGates(u)
	for _, g := range gates {
		in := g.Target.Run
		table.Add(g.Name, nil, g.Type, g.State, in.Stage, text(in.Group), in.Timing)
	}
	return show(s, gates, table)
}

func updateGate(ctx context.Context, s *session) error {
	_, u, err := s.get(ctx, s.name)
	if err != nil {
		return err
	}
	name := s.text("gate-name")
	for _, g := range azure.FleetGates(u) {
		switch {
		case g.Name != name || g.State != string(stages.Pending):
		case g.Type == string(stages.ScheduledStart):
			return s.send(ctx, stages.Command{Verb: stages.CompleteGate, Name: name})
		default:
			return s.send(ctx, stages.Command{Verb: stages.Decide, Name: name})
		}
	}
	return fmt.Errorf("update run %s has no gate %s that is Pending: gate list shows which there are", s.name, name)
}
