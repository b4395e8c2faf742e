package admission

import (
	"context"
	"errors"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
)

// purge deletes all stored data of a placement whose clusters are clean or released. It deletes the
// placement's record last, so that any engine can continue after a crash.
func (ad *Admitter) purge(ctx context.Context, rec *record.Placement) error {
	name := rec.Placement.Name
	uid := rec.UID
	rec, _, err := ad.state.Decide(ctx, name, &state.Transition{
		Input: func(now *record.Placement) (lifecycle.Input, error) {
			return lifecycle.Emptied{UID: uid, Events: now.Journal.Kept() > 0}, nil
		},
		Also: func(now *record.Placement) {
			now.Journal = record.Journal{Events: now.Journal.Events, First: now.Journal.Events}
		},
	})
	if err != nil || rec.Deleting == nil {
		return err
	}
	ad.forget(ctx, name)
	if err := ad.eraseRuns(ctx, rec); err != nil {
		return err
	}
	if err := ad.eraseUnder(ctx, name, nil); err != nil {
		return err
	}
	if err := ad.tellGone(ctx, rec); err != nil {
		return err
	}
	return ad.deleteEmptied(ctx, rec)
}

// Sweep deletes what a request stored for a placement before the placement refused the request
// because it is deleted, and returns the cause of the refusal. It deletes nothing while the
// clusters are being cleaned, because purge lists the stored data after that.
func (ad *Admitter) Sweep(ctx context.Context, name string, cause error) error {
	if !state.IsNotFound(cause) && !errors.Is(cause, errdef.ErrDeleting) {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ad.cfg.CallTimeout)
	defer cancel()
	rec, _, err := ad.state.Placement(ctx, name)
	switch {
	case err == nil && (rec.Deleting == nil || !rec.IsEmptied()):
		return cause
	case err != nil && !state.IsNotFound(err):
		return errors.Join(cause, err)
	}
	if d, _, err := ad.state.DeletedAt(ctx, name); err != nil || d.UID == "" {
		return errors.Join(cause, err)
	}
	return errors.Join(cause, ad.eraseUnder(ctx, name, nil))
}

// eraseRuns deletes the stored data of the runs of a placement, including their plans, because no
// two placements share a plan.
func (ad *Admitter) eraseRuns(ctx context.Context, rec *record.Placement) error {
	name := rec.Placement.Name
	all, err := ad.state.RunIntents(ctx, name)
	if err != nil {
		return err
	}
	runs := rec.Retired
	for i := range all {
		runs = append(runs, lifecycle.Run{Name: all[i].Run, UID: all[i].UID, Plan: all[i].Plan})
	}
	for _, r := range runs {
		if err := ad.state.Erase(ctx, r); err != nil {
			return err
		}
		if r.Plan == "" {
			continue
		}
		if err := ad.eraseUnder(ctx, name, []string{state.PlanKey(r.Plan)}); err != nil {
			return err
		}
	}
	return nil
}

// eraseUnder deletes the keys under prefixes, by default all keys of a placement except its record.
// It stops if the placement is declared again. A declaration after the keys were listed writes them
// again, so the conditional deletes fail with a conflict; after a conflict, eraseUnder lists the
// keys again.
func (ad *Admitter) eraseUnder(ctx context.Context, name string, prefixes []string) error {
	if len(problems.Name(nil, name)) > 0 {
		return nil
	}
	if prefixes == nil {
		prefixes = []string{
			record.ContentPrefix(name), record.BindingsPrefix(name), record.SelectionPrefix(name), record.IntentPrefix(name), record.DriftKey(name, ""),
			record.JournalPrefix(record.PlacementStream(name)), record.WatchKey(name),
		}
	}
	for {
		all, err := ad.allUnder(ctx, prefixes)
		if err != nil {
			return err
		}
		rec, _, err := ad.state.Placement(ctx, name)
		if !state.IsNotFound(err) && (err != nil || rec.Deleting == nil) {
			return err
		}
		if err = ad.eraseAll(ctx, all); !errors.Is(err, backend.ErrConflict) {
			return err
		}
	}
}

// allUnder returns the records whose key equals one of prefixes or is below it: the key continues
// after a slash.
func (ad *Admitter) allUnder(ctx context.Context, prefixes []string) (all []backend.Record, err error) {
	for _, prefix := range prefixes {
		found, err := ad.state.Revisions(ctx, prefix)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			if strings.HasSuffix(prefix, "/") || r.Key == prefix || strings.HasPrefix(r.Key, prefix+"/") {
				all = append(all, r)
			}
		}
	}
	return all, nil
}

// eraseAll deletes records at the given revisions. The error is backend.ErrConflict if some were
// written since.
func (ad *Admitter) eraseAll(ctx context.Context, all []backend.Record) (conflict error) {
	for _, r := range all {
		err := ad.store.Delete(ctx, r.Key, r.Revision)
		switch {
		case errors.Is(err, backend.ErrConflict):
			conflict = err
		case err != nil && !state.IsNotFound(err):
			return err
		}
	}
	return conflict
}

// deleteEmptied deletes the record of a placement that refers to nothing. It returns
// backend.ErrConflict if the record has changed so that there is more to erase.
func (ad *Admitter) deleteEmptied(ctx context.Context, rec *record.Placement) error {
	now, rev, err := ad.state.Placement(ctx, rec.Placement.Name)
	if state.IsNotFound(err) || err == nil && now.UID != rec.UID {
		return nil
	}
	if err != nil {
		return err
	}
	if now.GCGeneration != rec.GCGeneration || len(now.Retired) != len(rec.Retired) || !now.IsEmptied() {
		return backend.ErrConflict
	}
	err = ad.store.Delete(ctx, record.PlacementKey(rec.Placement.Name), rev)
	if state.IsNotFound(err) {
		return nil
	}
	return err
}

// Abandoned deletes the stored data of a run whose placement was deleted.
func (ad *Admitter) Abandoned(ctx context.Context, rr *record.Run) error {
	name := rr.Run.Placement
	if d, _, err := ad.state.DeletedAt(ctx, name); err != nil || d.UID == "" {
		return errors.Join(err, errdef.NotFound(errdef.Placement, name, ""))
	}
	if err := ad.state.Erase(ctx, lifecycle.Run{Name: rr.Run.Name, UID: rr.Run.UID}); err != nil {
		return err
	}
	if err := ad.eraseUnder(ctx, name, []string{state.PlanKey(rr.Run.Plan)}); err != nil {
		return err
	}
	return ad.eraseUnder(ctx, name, nil)
}
