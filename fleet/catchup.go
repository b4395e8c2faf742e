package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// CatchUp creates a run that follows one that has ended: it takes the clusters
// that failed or were skipped, and those that the placement picks and the run
// did not know, to the same frozen target by the same strategy.
//
// It fails when the run has not ended, and when there is nothing to catch up.
func (e *Engine) CatchUp(ctx context.Context, run, name string, starter approval.Identity) (Status, error) {
	s, err := e.status(ctx, run)
	if err != nil {
		return Status{}, err
	}
	if !s.Run.IsEnded() {
		return Status{}, fmt.Errorf("run %s has not ended: it is %s; catch up when it has", run, s.Run.State)
	}
	spec := RunSpec{Name: name, Placement: s.Run.Placement, Index: &s.Plan.Index, Strategy: s.Plan.Strategy, Starter: starter}
	if err := spec.validate(); err != nil {
		return Status{}, err
	}
	created, err := e.catchUp(ctx, spec.request(), &s)
	return Status(created), err
}

// catchUp plans a run of what another one missed, and records it.
func (e *Engine) catchUp(ctx context.Context, spec runRequest, of *runStatus) (runStatus, error) {
	if err := e.nameFree(ctx, spec.Name); err != nil {
		return runStatus{}, err
	}
	var d *draft
	var rec *record.Placement
	err := e.withPlacement(ctx, spec.Placement, func(now *record.Placement) (err error) {
		rec = now
		d, err = e.draftCatchUp(ctx, now, of)
		return err
	})
	if err != nil {
		return runStatus{}, fmt.Errorf("run %s, catching up with run %s: %w", spec.Name, of.Run.Name, err)
	}
	return e.record(ctx, rec, spec, d)
}

// draftCatchUp plans a run of what another one missed.
func (e *Engine) draftCatchUp(ctx context.Context, rec *record.Placement, s *runStatus) (*draft, error) {
	if err := open(rec); err != nil {
		return nil, err
	}
	inventory, err := e.inventory(ctx)
	if err != nil {
		return nil, err
	}
	d := &draft{sweeps: rec.GCGeneration}
	r, err := e.resolve(ctx, rec, inventory)
	if err != nil {
		return nil, err
	}
	d.decision = r.Decision
	if d.frozen, err = e.load(ctx, rec, s.Plan.Index); err != nil {
		return nil, err
	}
	joined, err := d.joiners(s.Plan, inventory, e.forbidden(rec.Placement.Namespace))
	if err != nil {
		return nil, err
	}
	target, err := stages.CatchUp(s.Plan, missed(s, d.decision, inventory), joined)
	if err != nil {
		return nil, err
	}
	if len(target.Revision)+len(target.Remove) == 0 {
		return nil, errors.New("no cluster failed, was skipped or joined")
	}
	if len(joined) > 0 {
		target.Decision = d.decision.Digest
	}
	var clusters []placement.Cluster
	for name := range target.Revision {
		clusters = append(clusters, inventory[name])
	}
	if d.plan, err = stages.NewPlan(s.Plan.Strategy, target, clusters); err != nil {
		return d, err
	}
	d.warn(r.Shortfall)
	return d, e.preflight(ctx, d, clusters)
}

// missed names the clusters that a run did not bring to its revision and that
// are still picked, or are still to be cleaned.
func missed(s *runStatus, d placement.Decision, inventory map[string]placement.Cluster) []string {
	var out []string
	for pos, state := range stages.States(s.Plan, &s.Run) {
		c := &s.Plan.Clusters[pos]
		_, known := inventory[c.Name]
		_, picked := slices.BinarySearch(d.Clusters, c.Name)
		if state != stages.Completed && known && picked == (c.Revision >= 0) {
			out = append(out, c.Name)
		}
	}
	return out
}

// joiners are the clusters that are picked and that the plan does not update,
// with what each gets of the plan's snapshot.
func (d *draft) joiners(p *stages.Plan, inventory map[string]placement.Cluster, never *forbidden) (map[string]string, error) {
	out := map[string]string{}
	var clusters []placement.Cluster
	for _, name := range d.decision.Clusters {
		if pos, ok := p.Position(name); !ok || p.Clusters[pos].Revision < 0 {
			clusters = append(clusters, inventory[name])
			out[name] = d.frozen.Set
		}
	}
	t := stages.Target{Revision: map[string]string{}}
	if err := d.render(&t, clusters, never); err != nil {
		return nil, err
	}
	maps.Copy(out, t.Revision)
	return out, nil
}
