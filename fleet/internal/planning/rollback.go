package planning

import (
	"context"
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// DraftRollback plans the rollback of a run as if that run had ended now.
func (pl *Planner) DraftRollback(ctx context.Context, rec *record.Placement, base *lifecycle.Base, s *state.RunStatus) (*Draft, error) {
	if base == nil || base.UID != s.Run.UID {
		return nil, errdef.NotReversible(s.Run.Name, unknownBefore(base))
	}
	previous, err := pl.hadBefore(ctx, rec, base, s)
	if err != nil {
		return nil, err
	}
	d := &Draft{Sweeps: rec.GCGeneration}
	if d.Plan, err = step.RollBack(s.Plan, &s.Run, previous); err != nil {
		return nil, lasting(err)
	}
	switch barred, err := pl.barForbidden(ctx, rec, d.Plan, previous); {
	case err != nil:
		return nil, state.PermanentIfGone(err)
	case barred:
		if d.Plan, err = step.RollBack(s.Plan, &s.Run, previous); err != nil {
			return nil, lasting(err)
		}
	}
	if len(d.Plan.Clusters) == 0 {
		known, _ := rec.Run(s.Run.UID)
		return nil, nothingToRollBack(d.Plan.Rollback, known.RolledBackBy)
	}
	return d, pl.preflightRollback(ctx, d)
}

// NotRolledBack returns the error of a rollback that cannot be planned, in the words of a refusal.
func NotRolledBack(run string, err error) error {
	if text := "run " + run + " cannot be rolled back: "; err != nil && !strings.HasPrefix(err.Error(), text) {
		return fmt.Errorf("%s%w", text, err)
	}
	return err
}

// lasting marks an error that another attempt will not change.
func lasting(err error) error { return fmt.Errorf("%w: %w", err, backend.ErrPermanent) }

// unknownBefore returns the reason why the bindings from before a run are unknown, with the remedy.
// base is the bindings from before another run, or nil.
func unknownBefore(base *lifecycle.Base) string {
	if base == nil {
		return lifecycle.NoBase
	}
	return lifecycle.OtherBase(base.Run)
}

func (pl *Planner) preflightRollback(ctx context.Context, d *Draft) error {
	if _, ok := pl.cfg.Updater.(backend.Preflighter); !ok {
		return nil
	}
	inventory, err := pl.state.World.Inventory(ctx)
	if err != nil {
		return err
	}
	var clusters []placement.Cluster
	for i := range d.Plan.Clusters {
		if c, known := inventory[d.Plan.Clusters[i].Name]; known {
			clusters = append(clusters, c)
		}
	}
	return pl.preflight(ctx, d, clusters)
}

// nothingToRollBack returns the error for a rollback whose plan has no clusters. undone is the name
// of the run that has already rolled the run back, or "".
func nothingToRollBack(b *stages.PlannedRollback, undone string) error {
	why := "every cluster has what it had before run " + b.Run
	switch {
	case len(b.Kept) == 0 && undone != "":
		why += ", because run " + undone + " rolled it back"
	case len(b.Kept) > 0:
		var all []string
		for _, k := range b.Kept {
			all = append(all, fmt.Sprintf("%d keep their revision: %s", k.Count, k.Reason))
		}
		why = "of the clusters that run " + b.Run + " may have changed " + strings.Join(all, "; ")
	}
	return fmt.Errorf("%s: %w", why, backend.ErrPermanent)
}

// hadBefore returns the content of each cluster from before a run.
func (pl *Planner) hadBefore(ctx context.Context, rec *record.Placement, base *lifecycle.Base, s *state.RunStatus) (map[string]stages.Previous, error) {
	before, err := pl.state.Bindings(ctx, rec, base.Bindings)
	if err != nil {
		return nil, err
	}
	back, err := pl.wentBack(ctx, rec, base.UID)
	if err != nil {
		return nil, err
	}
	out := map[string]stages.Previous{}
	for pos := range s.Plan.Clusters {
		name := s.Plan.Clusters[pos].Name
		p := rec.Earlier(before.Of(name), s.Plan.IndexAt(pos))
		p.Back = back[name]
		out[name] = p
	}
	return out, nil
}

// wentBack returns the clusters that earlier rollbacks of the run with this UID have completed.
func (pl *Planner) wentBack(ctx context.Context, rec *record.Placement, uid string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, r := range rec.Runs {
		if r.RollbackOf != uid {
			continue
		}
		s, err := pl.state.Status(ctx, r.Name)
		if state.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for pos, state := range s.Run.States(s.Plan) {
			if state == stages.Completed {
				out[s.Plan.Clusters[pos].Name] = true
			}
		}
	}
	return out, nil
}
