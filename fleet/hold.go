package fleet

import (
	"context"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
)

// hold decides which objects the strategy forbids to apply: those that drifted
// from the version that is to be applied, and those that were there before and
// must not be taken over. It looks at what was looked at, and asks nobody but for
// the dry runs of the strategy.
//
// They keep nothing else back: the other objects are applied, and the ledger is
// closed. Only what is to go stays until nothing is held any more.
func (w *work) hold(ctx context.Context) {
	for _, t := range w.targets {
		w.holdBack(ctx, t)
	}
}

func (w *work) holdBack(ctx context.Context, t *target) {
	t.held = w.holding(ctx, t)
	w.holds = w.holds || t.held != nil
}

// holding says why an object must not be applied, nil where it may be.
func (w *work) holding(ctx context.Context, t *target) error {
	switch {
	case t.want == nil || t.live == nil || isTerminating(t.live):
		return nil
	case !owned(t, w.a.Placement):
		return w.keepsOut(ctx, t)
	case w.a.Strategy.WhenToApply != IfNotDrifted || !w.hasBeenApplied(t):
		return nil // another version of the object is applied in any case
	}
	r, err := w.compare(ctx, t)
	if err != nil || !r.Drifted() {
		return err
	}
	return fmt.Errorf("cluster %s: %s has drifted and is left alone, because whenToApply is IfNotDrifted: %s: put it back, change it at the hub, or apply Always: %w",
		w.m.name, t.id, summaryOf(&r), backend.ErrPermanent)
}

// hasBeenApplied tells that the version of an object that is to be there was
// applied before, also where somebody took the mark of it away since.
func (w *work) hasBeenApplied(t *target) bool {
	return annotation(t.live, digestMark+w.a.Placement) == t.want.Digest ||
		!w.ledger.open() && t.listed && t.entry.Digest == t.want.Digest
}

// stays tells that an object that is to go stays, because something is held.
func (w *work) stays(t *target) bool { return w.holds && t.want == nil && t.listed }

// keepsOut says why an object that was there before must not be taken over.
func (w *work) keepsOut(ctx context.Context, t *target) error {
	if w.a.keeps {
		return fmt.Errorf("cluster %s: %s is not the placement's, and only runs take objects over: %w", w.m.name, t.id, backend.ErrPermanent)
	}
	switch w.a.Strategy.takesOver() {
	case Never:
		return fmt.Errorf("cluster %s: %s was there before and is not taken over, because whenToTakeOver is Never: delete it, or let it be taken over: %w",
			w.m.name, t.id, backend.ErrPermanent)
	case IfNoDiff:
		r, err := w.compare(ctx, t)
		if err != nil || !r.Drifted() {
			return err
		}
		return fmt.Errorf("cluster %s: %s was there before and differs, and whenToTakeOver is IfNoDiff: %s: make them equal, or take it over Always: %w",
			w.m.name, t.id, summaryOf(&r), backend.ErrPermanent)
	default:
		return nil
	}
}

// compare compares an object with what is to be there. One that cannot be
// compared stays so until somebody changes it.
func (w *work) compare(ctx context.Context, t *target) (drift.Report, error) {
	r, err := w.comparison(ctx).of(t)
	if err != nil {
		err = permanent(fmt.Errorf("cluster %s: %w", w.m.name, err))
	}
	return r, err
}

func (w *work) comparison(ctx context.Context) *comparison {
	c := &comparison{w.manifests(), w.ledger.baselines(), nil}
	if w.a.Strategy.DryRun {
		c.dry = w.m.asking(ctx, w.a.Placement)
	}
	return c
}

func (w *work) manifests() *manifests {
	if w.compiled == nil {
		w.compiled = w.u.compiler.of(w.rev, w.a.Strategy, w.a.Placement, w.a.secretKey)
	}
	return w.compiled
}

// summaryOf names the first differences of a report, without their values.
func summaryOf(r *drift.Report) string {
	if len(r.Differences) == 0 {
		return string(r.State)
	}
	first := &r.Differences[0]
	text := fmt.Sprintf("%s (%s)", clip(pathOf(first)), first.Class)
	if more := r.Total - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func pathOf(d *drift.Difference) string {
	if d.Path == "" {
		return "all of it"
	}
	return d.Path
}

// heldBack returns why objects are held back, for the error of an update. What is
// put back between runs brings nothing new, and so has nothing to complain of.
func (w *work) heldBack() error {
	if w.a.keeps {
		return nil
	}
	var all []error
	for _, t := range w.targets {
		if t.held != nil {
			all = append(all, t.held)
		}
	}
	return joinProblems(all)
}
