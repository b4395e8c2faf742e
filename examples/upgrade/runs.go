package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// operator is who gives commands. A real host names whom it has authenticated.
const operator = "operator"

func by() approval.Identity { return approval.Identity{Name: operator} }

// engine makes the engine of the fleet. Runs that are made take their target from
// source; without one none is made.
func (s *session) engine(ctx context.Context, source snapshot.Source) (*fleet.Engine, *simulator, error) {
	sim, err := newSimulator(ctx, s.store)
	if err != nil {
		return nil, nil, err
	}
	e, err := fleet.New(fleet.Config{
		Name: "upgrade", Store: s.store, Inventory: inventory{s.store}, Updater: upgrade.NewUpdater(sim), Source: source,
	})
	return e, sim, err
}

func createRun(ctx context.Context, s *session) error {
	strategy, err := s.stagesOfRun(ctx)
	if err != nil {
		return err
	}
	target, err := s.target(ctx, strategy)
	if err != nil {
		return err
	}
	e, _, err := s.engine(ctx, upgrade.Source(s.fleet(), target))
	if err != nil {
		return err
	}
	p := fleet.Placement{Name: s.fleet(), Selectors: []snapshot.Selector{upgrade.Selector(s.fleet())}}
	if err := e.PutPlacement(ctx, p); err != nil {
		return err
	}
	spec := fleet.RunSpec{
		Name: s.name(), Owner: s.one("update-strategy-name"), Placement: s.fleet(), Strategy: strategy, Hold: true, Starter: by(),
	}
	if s.given("preview") {
		return s.preview(ctx, e, spec, target)
	}
	made, err := e.CreateRun(ctx, spec)
	if err != nil {
		return refused(err)
	}
	s.warn(made.Plan.Warnings)
	return s.showRun(ctx, e, s.name())
}

// target returns what the flags say, with the images that are Consistent for the
// members of the run.
func (s *session) target(ctx context.Context, strategy stages.Strategy) (upgrade.Target, error) {
	t := upgrade.Target{Type: upgrade.Type(s.one("upgrade-type")), KubernetesVersion: s.one("kubernetes-version")}
	t.NodeImages = upgrade.NodeImages{Selection: upgrade.Selection(s.one("node-image-selection")), Versions: s.values["node-images"]}
	members, err := each[member](ctx, s.store, memberKeys)
	if err == nil && len(members) == 0 {
		err = fmt.Errorf("fleet %s has no members: begin with member create", s.fleet())
	}
	if err != nil {
		return t, err
	}
	clusters, err := concerned(strategy, members)
	if err != nil {
		return t, err
	}
	sim, err := newSimulator(ctx, s.store)
	if err != nil {
		return t, err
	}
	return upgrade.Resolve(ctx, sim, clusters, t)
}

// concerned returns the members that the stages of a run pick.
func concerned(strategy stages.Strategy, members []member) ([]placement.Cluster, error) {
	var all []placement.Cluster
	for i := range members {
		all = append(all, members[i].cluster())
	}
	p, err := stages.NewPlan(strategy, stages.Target{Placement: "any", Snapshot: "any", Selection: "any", Default: "any"}, all)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(c placement.Cluster) bool {
		_, in := p.Position(c.Name)
		return !in
	}), nil
}

// preview shows the plan of a run that is not made, and when the run would end.
func (s *session) preview(ctx context.Context, e *fleet.Engine, spec fleet.RunSpec, target upgrade.Target) error {
	f, err := e.Forecast(ctx, spec, fleet.Assumptions{Take: 2 * stepTakes})
	if err != nil {
		return refused(err)
	}
	s.warn(f.Plan.Warnings)
	s.estimate(f)
	run := stages.NewRun(f.Plan, spec.Name, "preview", spec.Starter, true, time.Now())
	return s.printRun(ctx, azure.Record{Run: &run, Plan: f.Plan, Target: target, StrategyID: s.strategyOf(spec.Owner)})
}

// stepTakes is how long a step of an upgrade of a simulated member lasts where
// nothing else is said: the control plane is one, the nodes are the other.
const stepTakes = 2 * time.Second

// refused tells why clusters cannot be upgraded, one line each, where that is so.
func refused(err error) error {
	if r, ok := errors.AsType[*upgrade.RefusedError](err); ok {
		return fmt.Errorf("nothing was planned:\n%w", r)
	}
	return err
}

// record reads all about a run.
func (s *session) record(ctx context.Context, e *fleet.Engine, name string) (azure.Record, error) {
	status, history, err := e.Progress(ctx, name, 0)
	if errors.Is(err, backend.ErrNotFound) {
		err = fmt.Errorf("there is no update run %s: updaterun list shows which there are", name)
	}
	if err != nil {
		return azure.Record{}, err
	}
	view, err := e.View(ctx, s.fleet())
	if err != nil {
		return azure.Record{}, err
	}
	set, err := view.Content(ctx, status.Plan.Index)
	if err != nil {
		return azure.Record{}, err
	}
	target, err := upgrade.TargetOf(set)
	return azure.Record{Run: &status.Run, Plan: status.Plan, Events: history.Events, Target: target, StrategyID: s.strategyOf(status.Owner)}, err
}

func (s *session) strategyOf(owner string) string {
	if owner == "" {
		return ""
	}
	return s.strategyID(owner)
}

func showRun(ctx context.Context, s *session) error {
	e, _, err := s.engine(ctx, nil)
	if err != nil {
		return err
	}
	return s.showRun(ctx, e, s.name())
}

func (s *session) showRun(ctx context.Context, e *fleet.Engine, name string) error {
	rec, err := s.record(ctx, e, name)
	if err != nil {
		return err
	}
	return s.printRun(ctx, rec)
}

func (s *session) printRun(ctx context.Context, rec azure.Record) error {
	u, err := s.updateRun(ctx, rec)
	if err != nil {
		return err
	}
	return s.print(u, func() { s.runTable(u) })
}

// updateRun returns a run as Azure shows it.
func (s *session) updateRun(ctx context.Context, rec azure.Record) (azure.UpdateRun, error) {
	members, err := each[member](ctx, s.store, memberKeys)
	if err != nil {
		return azure.UpdateRun{}, err
	}
	rec.ResourceIDs = map[string]string{}
	for _, m := range members {
		rec.ResourceIDs[m.Name] = m.ID
	}
	u := azure.NewUpdateRun(rec)
	u.ID, u.ResourceGroup = s.id("updateRuns", u.Name), s.one("resource-group")
	return u, nil
}

// names returns the names of the runs of the fleet, in the order in which they were
// made.
func (s *session) names(ctx context.Context, e *fleet.Engine) ([]string, error) {
	names, err := e.Runs(ctx, s.fleet())
	if errors.Is(err, backend.ErrNotFound) {
		return nil, nil // no run was ever made
	}
	return names, err
}

func listRuns(ctx context.Context, s *session) error {
	e, _, err := s.engine(ctx, nil)
	if err != nil {
		return err
	}
	names, err := s.names(ctx, e)
	if err != nil {
		return err
	}
	runs := []azure.UpdateRun{}
	for _, name := range names {
		rec, err := s.record(ctx, e, name)
		if err != nil {
			return err
		}
		u, err := s.updateRun(ctx, rec)
		if err != nil {
			return err
		}
		runs = append(runs, u)
	}
	return s.print(runs, func() { s.runsTable(runs) })
}

func deleteRun(ctx context.Context, s *session) error {
	e, _, err := s.engine(ctx, nil)
	if err != nil {
		return err
	}
	rec, err := s.record(ctx, e, s.name())
	if err != nil {
		return err
	}
	switch state := stages.Derive(rec.Plan, rec.Run).Run; state {
	case stages.Running, stages.Pending, stages.Stopping:
		return fmt.Errorf("update run %s is %s: stop it first", s.name(), state)
	default:
		return e.DeleteRun(ctx, s.name())
	}
}

// warn says what is allowed and probably not meant.
// estimate says when a run would end, if nothing fails and gates are approved as
// soon as they are reached.
func (p printer) estimate(f fleet.Forecast) {
	basis := fmt.Sprintf("each member takes %s", f.Typical.Round(time.Second))
	if f.Known > 0 {
		basis = fmt.Sprintf("members take as long as in the run before, which is known of %d of %d", f.Known, f.Plan.Len())
	}
	fmt.Fprintf(p.err, "estimate: %s %s after its start, if %s\n", f.End.State, f.End.At.Round(time.Second), basis)
}

func (p printer) warn(warnings []string) {
	for _, w := range warnings {
		fmt.Fprintln(p.err, "warning:", printable(strings.ReplaceAll(w, "clusters", "members")))
	}
}
