package fleet

import (
	"context"
	"errors"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// purge deletes all that is stored of a placement whose clusters are done with, and its own record last, so
// that after a crash any engine can go on.
func (e *Engine) purge(ctx context.Context, rec *record.Placement) error {
	name := rec.Placement.Name
	uid := rec.UID
	rec, _, err := e.decide(ctx, name, &transition{
		input: func(now *record.Placement) (lifecycle.Input, error) {
			return lifecycle.Emptied{UID: uid, Events: now.Journal.Kept() > 0}, nil
		},
		also: func(now *record.Placement) {
			now.Journal = record.Journal{Events: now.Journal.Events, First: now.Journal.Events}
		},
	})
	if err != nil || rec.Deleting == nil {
		return err
	}
	e.forget(ctx, name)
	if err := e.eraseRuns(ctx, rec); err != nil {
		return err
	}
	if err := e.eraseUnder(ctx, name, nil); err != nil {
		return err
	}
	if err := e.tellGone(ctx, rec); err != nil {
		return err
	}
	return e.deleteEmptied(ctx, rec)
}

// eraseRuns deletes what is stored of the runs of a placement, their plans too: no
// other placement has the same.
func (e *Engine) eraseRuns(ctx context.Context, rec *record.Placement) error {
	name := rec.Placement.Name
	all, err := e.runIntents(ctx, name)
	if err != nil {
		return err
	}
	runs := rec.Retired
	for i := range all {
		runs = append(runs, lifecycle.Run{Name: all[i].Run, UID: all[i].uid, Plan: all[i].Plan})
	}
	for _, r := range runs {
		if err := e.erase(ctx, r); err != nil {
			return err
		}
		if r.Plan == "" {
			continue
		}
		if err := e.eraseUnder(ctx, name, []string{planKey(r.Plan)}); err != nil {
			return err
		}
	}
	return nil
}

// eraseUnder deletes the keys under prefixes, by default all of a placement but its own, unless the placement
// was declared again meanwhile. A declaration after the keys were listed writes them again, which makes the
// conditional deletes fail; keys that were written by others since are listed again.
func (e *Engine) eraseUnder(ctx context.Context, name string, prefixes []string) error {
	if len(nameProblems(nil, name)) > 0 {
		return nil
	}
	if prefixes == nil {
		prefixes = []string{
			record.ContentPrefix(name), record.BindingsPrefix(name), record.DecisionPrefix(name), record.IntentPrefix(name), record.DriftKey(name, ""),
			record.JournalPrefix(record.PlacementStream(name)), record.WatchKey(name),
		}
	}
	for {
		all, err := e.allUnder(ctx, prefixes)
		if err != nil {
			return err
		}
		rec, _, err := e.placementAt(ctx, name)
		if !isNotFound(err) && (err != nil || rec.Deleting == nil) {
			return err
		}
		if err = e.eraseAll(ctx, all); !errors.Is(err, backend.ErrConflict) {
			return err
		}
	}
}

// allUnder lists what prefixes are the keys of, or begin the keys of.
func (e *Engine) allUnder(ctx context.Context, prefixes []string) (all []backend.Record, err error) {
	for _, prefix := range prefixes {
		found, err := e.revisions(ctx, prefix)
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

// eraseAll deletes records at the revisions at which they were seen. The error is
// backend.ErrConflict where some were written since.
func (e *Engine) eraseAll(ctx context.Context, all []backend.Record) (conflict error) {
	for _, r := range all {
		err := e.store.Delete(ctx, r.Key, r.Revision)
		switch {
		case errors.Is(err, backend.ErrConflict):
			conflict = err
		case err != nil && !isNotFound(err):
			return err
		}
	}
	return conflict
}

// deleteEmptied deletes the record of a placement that refers to nothing. Where it
// was written meanwhile, there is more to erase.
func (e *Engine) deleteEmptied(ctx context.Context, rec *record.Placement) error {
	now, rev, err := e.placementAt(ctx, rec.Placement.Name)
	if isNotFound(err) || err == nil && now.UID != rec.UID {
		return nil
	}
	if err != nil {
		return err
	}
	if now.GCGeneration != rec.GCGeneration || len(now.Retired) != len(rec.Retired) || !now.IsEmptied() {
		return backend.ErrConflict
	}
	err = e.store.Delete(ctx, record.PlacementKey(rec.Placement.Name), rev)
	if isNotFound(err) {
		return nil
	}
	return err
}

// abandoned forgets a run whose placement was deleted.
func (e *Engine) abandoned(ctx context.Context, rr *record.Run) error {
	name := rr.Run.Placement
	if d, _, err := e.deletedAt(ctx, name); err != nil || d.UID == "" {
		return errors.Join(err, &NotFoundError{Kind: "placement", Name: name})
	}
	if err := e.erase(ctx, lifecycle.Run{Name: rr.Run.Name, UID: rr.Run.UID}); err != nil {
		return err
	}
	if err := e.eraseUnder(ctx, name, []string{planKey(rr.Run.Plan)}); err != nil {
		return err
	}
	return e.eraseUnder(ctx, name, nil)
}
