package fleet

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
)

// PutStrategy declares a strategy under its name, or changes it. The engine keeps it for programs
// and people that create runs by the name of a strategy, see [Engine.Strategies]; a run needs no
// declared strategy. Runs and their plans have a copy, so a change or a deletion affects no run.
// The name is a DNS subdomain of at most 63 characters. Declaring an unchanged strategy writes
// nothing.
func (e *Engine) PutStrategy(ctx context.Context, s stages.Strategy) error {
	if err := ValidateStrategy(s); err != nil {
		return err
	}
	for {
		old, rev, err := e.strategy(ctx, s.Name)
		if err != nil && !errdef.IsMissing(err, errdef.Strategy) {
			return err
		}
		if err := e.writeStrategy(ctx, old, rev, s); !errors.Is(err, backend.ErrConflict) {
			return err
		}
	}
}

// ReplaceStrategy is PutStrategy with the condition that the declared strategy still equals was, or
// does not exist if was is nil. Otherwise the error matches errdef.ErrChanged.
func (e *Engine) ReplaceStrategy(ctx context.Context, was *stages.Strategy, s stages.Strategy) error {
	if err := ValidateStrategy(s); err != nil {
		return err
	}
	old, rev, err := e.strategy(ctx, s.Name)
	if err != nil && !errdef.IsMissing(err, errdef.Strategy) {
		return err
	}
	if !same(was, old) {
		return errdef.Changed(errdef.Strategy, s.Name)
	}
	if err = e.writeStrategy(ctx, old, rev, s); errors.Is(err, backend.ErrConflict) {
		return errdef.Changed(errdef.Strategy, s.Name)
	}
	return err
}

// ValidateStrategy returns the error with which [Engine.PutStrategy] refuses a strategy, with
// every problem.
func ValidateStrategy(s stages.Strategy) error {
	errs := problems.Name(field.NewPath("name"), s.Name)
	return problems.About("strategy "+s.Name, append(errs, problems.Nested(nil, s.Validate())...))
}

// same reports whether two declarations are equal, or both missing.
func same[T any](a, b *T) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return bytes.Equal(record.Encode(a), record.Encode(b))
}

// writeStrategy writes a strategy in place of old, whose record has the revision rev.
func (e *Engine) writeStrategy(ctx context.Context, old *stages.Strategy, rev backend.Revision, s stages.Strategy) error {
	if same(old, &s) {
		return nil
	}
	_, err := e.store.Put(ctx, record.StrategyKey(s.Name), record.Encode(&record.Strategy{Format: record.Format, Strategy: s}), rev)
	return err
}

// strategy returns a declared strategy and the revision of its record.
func (e *Engine) strategy(ctx context.Context, name string) (*stages.Strategy, backend.Revision, error) {
	rec, err := e.store.Get(ctx, record.StrategyKey(name))
	if state.IsNotFound(err) {
		return nil, "", errdef.NotFound(errdef.Strategy, name, "declare it first")
	}
	if err != nil {
		return nil, "", err
	}
	s, err := decodeStrategy(rec)
	return &s, rec.Revision, err
}

func decodeStrategy(rec backend.Record) (stages.Strategy, error) {
	var r record.Strategy
	if err := record.Decode(rec, &r); err != nil {
		return stages.Strategy{}, err
	}
	if err := r.Strategy.Validate(); err != nil {
		return stages.Strategy{}, record.Damaged(rec.Key, err)
	}
	return r.Strategy, record.CheckName(rec.Key, strings.TrimPrefix(rec.Key, record.StrategyKey("")), r.Strategy.Name)
}

// Strategy returns a declared strategy. The error matches errdef.ErrNotFound if there is none.
func (e *Engine) Strategy(ctx context.Context, name string) (stages.Strategy, error) {
	s, _, err := e.strategy(ctx, name)
	if err != nil {
		return stages.Strategy{}, err
	}
	return *s, nil
}

// Strategies returns the declared strategies, ascending by name.
func (e *Engine) Strategies(ctx context.Context) (out []stages.Strategy, err error) {
	for rec, err := range e.store.List(ctx, record.StrategyKey("")) {
		if err != nil {
			return nil, err
		}
		s, err := decodeStrategy(rec)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// DeleteStrategy deletes a declared strategy.
func (e *Engine) DeleteStrategy(ctx context.Context, name string) error {
	for {
		rec, err := e.store.Get(ctx, record.StrategyKey(name)) // also one that cannot be read
		if state.IsNotFound(err) {
			return errdef.NotFound(errdef.Strategy, name, "")
		}
		if err != nil {
			return err
		}
		if err = e.store.Delete(ctx, record.StrategyKey(name), rec.Revision); !errors.Is(err, backend.ErrConflict) {
			return err
		}
	}
}

// namesStrategy reports whether the strategy of spec consists of its name.
func (s *RunSpec) namesStrategy() bool {
	return s.Strategy.Name != "" && same(&stages.Strategy{Name: s.Strategy.Name}, &s.Strategy)
}

// withStrategy replaces a strategy of spec that consists of its name by the declared strategy.
func (e *Engine) withStrategy(ctx context.Context, spec *RunSpec) error {
	if !spec.namesStrategy() {
		return nil
	}
	s, err := e.Strategy(ctx, spec.Strategy.Name)
	if err == nil {
		spec.Strategy = s
	}
	return err
}
