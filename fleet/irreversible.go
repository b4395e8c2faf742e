package fleet

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// MarkIrreversible marks a snapshot as one that nothing is rolled back past: what it brings cannot be undone,
// as a change of a database. No cluster that has it or a newer snapshot, or may have parts of one, goes to an
// older one, or to nothing because it had nothing before: neither where a run is rolled back nor in a run of
// an older index, which is an error then. by is recorded in the event. That it is marked already is no error.
func (e *Engine) MarkIrreversible(ctx context.Context, placement string, index int, by string) error {
	return e.markSnapshot(ctx, placement, index, by, true)
}

// UnmarkIrreversible takes the mark of [Engine.MarkIrreversible] away. That there is
// none is no error.
func (e *Engine) UnmarkIrreversible(ctx context.Context, placement string, index int, by string) error {
	return e.markSnapshot(ctx, placement, index, by, false)
}

func (e *Engine) markSnapshot(ctx context.Context, name string, index int, by string, irreversible bool) error {
	if len(by) > mostName {
		return about("mark of placement "+name, field.ErrorList{field.TooLong(field.NewPath("by"), "", mostName)})
	}
	_, _, err := e.advance(ctx, name, &transition{input: func(rec *record.Placement) (lifecycle.Input, error) {
		in := lifecycle.IrreversibleMarked{Index: index, Reversible: !irreversible, By: by}
		if !irreversible || rec.Deleting != nil || slices.Contains(rec.Irreversible, index) {
			return in, nil
		}
		_, err := snapshotAt(rec, index)
		return in, err
	}})
	return err
}

// checkReversal returns an error where a run of an index would take clusters back
// past an irreversible snapshot.
func checkReversal(rec *record.Placement, held lifecycle.Bindings, index int, clusters []placement.Cluster) error {
	var names []string
	past := lifecycle.None
	for _, c := range clusters {
		h := held.Of(c.Name)
		if k, ok := rec.Bars(max(h.Applied, h.Attempted), index); ok {
			names, past = append(names, c.Name), max(past, k)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("placement %s: snapshot %d would take %d clusters, the first %s, back past snapshot %d, which is irreversible: roll out a snapshot that is not older, or take the mark away with UnmarkIrreversible: %w",
		rec.Placement.Name, index, len(names), slices.Min(names), past, backend.ErrPermanent)
}
