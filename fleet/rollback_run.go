package fleet

import (
	"context"
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// continueRollback takes the planning of a rollback one step on. Any engine may call it at any time, and
// several at once: the name and UID of the run are recorded already, so at most one run is created.
func (e *Engine) continueRollback(ctx context.Context, rec *record.Placement) error {
	b := rec.Rollback
	rr, _, err := e.runAt(ctx, b.Run)
	switch {
	case err == nil && rr.Run.UID == b.UID:
		return e.admitRollback(ctx, rr)
	case err == nil || isLasting(err) && !isNotFound(err):
		return e.renameRollback(ctx, rec)
	case !isNotFound(err):
		return err
	}
	s, err := e.status(ctx, b.OfRun)
	if isNotFound(err) || err == nil && s.Run.UID != b.Of {
		err = fmt.Errorf("run %s was deleted: %w", b.OfRun, backend.ErrPermanent)
	}
	var d *draft
	if err == nil {
		d, err = e.draftRollback(ctx, rec, rec.Base, &s)
	}
	if isLasting(err) {
		return e.refuseRollback(ctx, rec, err)
	}
	if err != nil {
		return err
	}
	return e.recordRollback(ctx, rec, &s, d)
}

// recordRollback stores the run of a rollback. A record that another engine stored first is the same.
func (e *Engine) recordRollback(ctx context.Context, rec *record.Placement, of *runStatus, d *draft) error {
	b := rec.Rollback
	rr := &record.Run{
		Run: stages.NewRun(d.plan, b.Run, b.UID, b.Undo.By, false, e.now()), Owner: of.Owner, Title: of.Title, Of: rec.UID,
		Undoes: b.Of, Apply: of.Apply, GCGeneration: d.sweeps,
	}
	if err := e.storeDraft(ctx, rr, d); err != nil {
		return err
	}
	if err := e.putRun(ctx, rr); err != nil {
		return err
	}
	err := e.admit(ctx, rr, d)
	if err != nil && !guard.Transient(err) {
		err = e.withdraw(ctx, rr, err)
	}
	return err // where it was not admitted, its driver does that
}

// admitRollback admits the run of a rollback that another engine has stored and not admitted.
func (e *Engine) admitRollback(ctx context.Context, rr *record.Run) error {
	p, err := e.readPlan(ctx, rr.Run.Plan)
	if err != nil {
		return err
	}
	return e.admit(ctx, rr, &draft{plan: p, partial: true})
}

// renameRollback gives the run of a rollback a name that no run has.
func (e *Engine) renameRollback(ctx context.Context, rec *record.Placement) error {
	uid := rec.Rollback.UID
	title := ""
	of, _, err := e.runAt(ctx, rec.Rollback.OfRun)
	switch {
	case err == nil:
		title = of.Title
	case !isNotFound(err): // the rollback fails with this error soon, under any name
		return err
	}
	free, err := e.freeRollbackName(ctx, rec.Rollback.OfRun, title)
	if err != nil {
		return err
	}
	_, _, err = e.advance(ctx, rec.Placement.Name, &transition{input: on(lifecycle.RollbackRenamed{UID: uid, From: rec.Rollback.Run, To: free})})
	return err
}

// refuseRollback records why a run is not rolled back, and releases the placement.
func (e *Engine) refuseRollback(ctx context.Context, rec *record.Placement, cause error) error {
	in := lifecycle.RollbackAbandoned{UID: rec.Rollback.UID, Reason: reasonOf(cause)}
	_, _, err := e.advance(ctx, rec.Placement.Name, &transition{input: on(in)})
	return err
}

// reasonOf returns the text of an error as a reason to record: without its kind, and clipped.
func reasonOf(err error) string {
	text := strings.TrimSuffix(err.Error(), ": "+backend.ErrPermanent.Error())
	return guard.Clip(text)
}

// draftRollback plans the rollback of a run as if that run had ended now.
func (e *Engine) draftRollback(ctx context.Context, rec *record.Placement, base *lifecycle.Base, s *runStatus) (*draft, error) {
	if base == nil || base.UID != s.Run.UID {
		return nil, fmt.Errorf("what the clusters had before run %s is not known: %w", s.Run.Name, backend.ErrPermanent)
	}
	previous, err := e.hadBefore(ctx, rec, base, s)
	if err != nil {
		return nil, err
	}
	d := &draft{sweeps: rec.GCGeneration}
	if d.plan, err = stages.RollBack(s.Plan, &s.Run, previous); err != nil {
		return nil, guard.Permanent(err)
	}
	switch barred, err := e.barForbidden(ctx, rec, d.plan, previous); {
	case err != nil:
		return nil, permanentIfGone(err)
	case barred:
		if d.plan, err = stages.RollBack(s.Plan, &s.Run, previous); err != nil {
			return nil, guard.Permanent(err)
		}
	}
	if len(d.plan.Clusters) == 0 {
		known, _ := rec.Run(s.Run.UID)
		return nil, nothingToTakeBack(d.plan.Rollback, known.Undone)
	}
	return d, e.preflightRollback(ctx, d)
}

func (e *Engine) preflightRollback(ctx context.Context, d *draft) error {
	if _, ok := e.cfg.Updater.(Preflighter); !ok {
		return nil
	}
	inventory, err := e.inventory(ctx)
	if err != nil {
		return err
	}
	var clusters []placement.Cluster
	for i := range d.plan.Clusters {
		if c, known := inventory[d.plan.Clusters[i].Name]; known {
			clusters = append(clusters, c)
		}
	}
	return e.preflight(ctx, d, clusters)
}

// nothingToTakeBack returns the error of a rollback whose plan has no clusters; undone is the run that has
// rolled it back already, if any.
func nothingToTakeBack(b *stages.PlannedRollback, undone string) error {
	why := "every cluster has what it had before run " + b.Run
	switch {
	case len(b.Kept) == 0 && undone != "":
		why += ", which run " + undone + " took back"
	case len(b.Kept) > 0:
		var all []string
		for _, k := range b.Kept {
			all = append(all, fmt.Sprintf("%d stay as they are: %s", k.Count, k.Reason))
		}
		why = "of the clusters that run " + b.Run + " may have changed " + strings.Join(all, "; ")
	}
	return fmt.Errorf("%s: %w", why, backend.ErrPermanent)
}

// hadBefore returns what each cluster had before a run.
func (e *Engine) hadBefore(ctx context.Context, rec *record.Placement, base *lifecycle.Base, s *runStatus) (map[string]stages.Previous, error) {
	before, err := record.ReadBindings(ctx, e.store, rec.Placement.Name, base.Bindings)
	if err != nil {
		return nil, err
	}
	back, err := e.wentBack(ctx, rec, base.UID)
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

// wentBack returns the clusters that earlier rollbacks of a run have completed.
func (e *Engine) wentBack(ctx context.Context, rec *record.Placement, uid string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, r := range rec.Runs {
		if r.Undoes != uid {
			continue
		}
		s, err := e.status(ctx, r.Name)
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for pos, state := range stages.States(s.Plan, &s.Run) {
			if state == stages.Completed {
				out[s.Plan.Clusters[pos].Name] = true
			}
		}
	}
	return out, nil
}
