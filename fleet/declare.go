package fleet

import (
	"cmp"
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// PutPlacement declares a placement, or changes it. Frozen snapshots and plans do not change. It
// reports every problem at once, including violations of Config.Restrictions, Config.Rules and
// Config.NamespaceRules, and health rules that Config.Prober does not evaluate. Declaring an
// unchanged placement writes nothing. A placement keeps its Owner: another owner is an error that
// matches backend.ErrConflict, until the placement is deleted.
func (e *Engine) PutPlacement(ctx context.Context, p Placement) error {
	return e.putPlacement(ctx, p, func(*Placement) error { return nil })
}

// ReplacePlacement is PutPlacement with the condition that the declaration still equals was, or
// does not exist if was is nil. Otherwise the error matches errdef.ErrChanged.
func (e *Engine) ReplacePlacement(ctx context.Context, was *Placement, p Placement) error {
	return e.putPlacement(ctx, p, func(now *Placement) error {
		if !same(was, now) {
			return errdef.Changed(errdef.Placement, p.Name)
		}
		return nil
	})
}

// CheckPlacement returns the error with which PutPlacement would refuse a placement. It does not
// check the owner. It reads nothing.
func (e *Engine) CheckPlacement(p Placement) error {
	errs, overrides, never := p.problems(e.cfg.Rules), field.NewPath("overrides"), e.planner.Bans(p.Namespace)
	errs = append(errs, placement.Forbidden(p.Overrides, e.cfg.Restrictions, overrides)...)
	errs = append(errs, member.ValidateRules(e.cfg.Prober, p.ApplyStrategy.Health, field.NewPath("applyStrategy", "health"))...)
	errs = append(errs, never.InSelectors(p.Selectors, field.NewPath("selectors"))...)
	errs = append(errs, never.InOverrides(p.Overrides, overrides)...)
	return problems.About("placement "+p.Name, errs)
}

// putPlacement declares a placement unless check refuses to replace the declaration that is there,
// nil if there is none.
func (e *Engine) putPlacement(ctx context.Context, p Placement, check func(now *Placement) error) error {
	if err := e.CheckPlacement(p); err != nil {
		return err
	}
	absent := check(nil)
	if absent == nil {
		if err := declare(ctx, e.store, e.state, p); !errors.Is(err, backend.ErrConflict) {
			return err
		}
	}
	err := e.state.UpdatePlacement(ctx, p.Name, func(rec *record.Placement) ([]stages.Event, error) {
		if err := state.Open(rec); err != nil {
			return nil, err
		}
		now := Placement(rec.Placement)
		if err := cmp.Or(checkOwner(p.Name, now.Owner, p.Owner), check(&now)); err != nil {
			return nil, err
		}
		if same(&now, &p) {
			return nil, state.ErrUnchanged
		}
		rec.Placement = record.Declaration(p)
		return nil, nil
	})
	if absent != nil && state.IsNotFound(err) {
		return absent
	}
	return err
}

// declare records a new placement; the error matches backend.ErrConflict if the name is in use. If
// a placement of this name was deleted, its epochs continue. The record of the deleted placement is
// read while there is no placement, and deleted after the new one is stored.
func declare(ctx context.Context, store backend.Store, st *state.State, p Placement) error {
	_, err := store.Get(ctx, record.PlacementKey(p.Name))
	if !state.IsNotFound(err) {
		return cmp.Or(err, backend.ErrConflict)
	}
	old, rev, err := st.DeletedAt(ctx, p.Name)
	if err != nil {
		return err
	}
	fresh := record.Placement{Format: record.Format, Placement: record.Declaration(p), Key: record.NewKey(), State: lifecycle.State{UID: record.NewUID(), Epoch: old.Epoch}}
	_, err = store.Put(ctx, record.PlacementKey(p.Name), record.Encode(&fresh), "")
	if err == nil && rev != "" {
		record.Discard(ctx, store, []backend.Write{record.Delete(record.DeletedKey(p.Name), rev)})
	}
	return err
}

// Get returns the declaration of the placement.
func (h PlacementHandle) Get(ctx context.Context) (Placement, error) {
	rec, _, err := h.e.state.Placement(ctx, h.name)
	if err != nil {
		return Placement{}, err
	}
	return Placement(rec.Placement), nil
}

// checkOwner returns an error if a placement has another owner than want.
func checkOwner(placement, have, want string) error {
	if have == want {
		return nil
	}
	return errdef.OtherOwner(placement, have, want)
}
