package member

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
)

// hold decides which objects the strategy forbids to apply: objects that drifted from the version
// to be applied, and objects that existed before and must not be taken over. It uses the objects
// already read, and calls the member only for the dry runs of the strategy.
//
// Held objects block nothing else: the other objects are applied, and the ledger is closed. Only
// the removal of undesired objects is postponed until no object is held.
func (w *work) hold(ctx context.Context) {
	for _, t := range w.targets {
		w.holdBack(ctx, t)
	}
}

func (w *work) holdBack(ctx context.Context, t *target) {
	t.hold(w.holding(ctx, t))
	w.holds = w.holds || t.heldBack() != nil
}

// holding returns why an object must not be applied, or nil if it may be.
func (w *work) holding(ctx context.Context, t *target) error {
	switch {
	case t.want == nil || t.live == nil || isTerminating(t.live):
		return nil
	case w.a.Exclusive && len(otherPlacements(t.live, w.a.Placement)) > 0:
		return t.refusal(&w.a)
	case !owned(t, w.a.Placement):
		return w.keepsOut(ctx, t)
	case w.a.Strategy.WhenToApply != apply.IfNotDrifted:
		return nil
	}
	if applied, err := w.hasBeenApplied(ctx, t); !applied || err != nil {
		return err // another version of the object is applied in any case
	}
	r, err := w.compare(ctx, t)
	if err != nil || !r.Drifted() {
		return err
	}
	return fmt.Errorf("cluster %s: %s has drifted and is left alone, because whenToApply is IfNotDrifted: %s: put it back, change it at the hub, or apply Always: %w",
		w.m.name, t.id, Summary(&r), backend.ErrPermanent)
}

// hasBeenApplied reports whether the desired version of an object was applied before. If the
// object's mark was removed since, the revision that the ledger proves decides.
func (w *work) hasBeenApplied(ctx context.Context, t *target) (bool, error) {
	switch {
	case digestOn(t.live, w.a.Placement) == t.want.Digest:
		return true, nil
	case w.ledger.open() || !t.listed() || w.ledger.Revision == unknownRevision:
		return false, nil
	case w.ledger.Revision == w.a.Revision:
		return true, nil
	}
	rev, err := w.u.load(ctx, w.a.Placement, w.ledger.Revision)
	switch {
	case errors.Is(err, ErrRevisionGone):
		return false, nil
	case err != nil:
		return false, guard.Permanent(fmt.Errorf("cluster %s: %s: whether it drifted cannot be told: %w", w.m.name, t.id, err))
	}
	return slices.ContainsFunc(rev.items, func(item revisionItem) bool {
		return objectKey(item.ID) == objectKey(t.id) && item.Digest == t.want.Digest
	}), nil
}

// removalPostponed reports whether the removal of an object is postponed because some object is
// held.
func (w *work) removalPostponed(t *target) bool { return w.holds && t.want == nil && t.listed() }

// keepsOut returns why an object that existed before must not be taken over, or nil if it may be.
func (w *work) keepsOut(ctx context.Context, t *target) error {
	if w.a.keeps {
		return fmt.Errorf("cluster %s: %s is not the placement's, and only runs take objects over: %w", w.m.name, t.id, backend.ErrPermanent)
	}
	if w.a.Exclusive && !w.a.AllowCoOwnership && len(t.live.GetOwnerReferences()) > 0 {
		return fmt.Errorf("cluster %s: %s was there before and %s owns it: delete it, or allow co-ownership: %w",
			w.m.name, t.id, ownerOf(t.live), backend.ErrPermanent)
	}
	switch takesOver(&w.a.Strategy) {
	case apply.Never:
		return fmt.Errorf("cluster %s: %s was there before and is not taken over, because whenToTakeOver is Never: delete it, or let it be taken over: %w",
			w.m.name, t.id, backend.ErrPermanent)
	case apply.IfNoDiff:
		r, err := w.compare(ctx, t)
		if err != nil || !r.Drifted() {
			return err
		}
		return fmt.Errorf("cluster %s: %s was there before and differs, and whenToTakeOver is IfNoDiff: %s: make them equal, or take it over Always: %w",
			w.m.name, t.id, Summary(&r), backend.ErrPermanent)
	default:
		return nil
	}
}

// compare compares an object with its desired state. Its errors are permanent, because a comparison
// that failed fails until the object changes.
func (w *work) compare(ctx context.Context, t *target) (drift.Report, error) {
	r, err := w.comparer(ctx).of(t)
	if err != nil {
		err = guard.Permanent(fmt.Errorf("cluster %s: %w", w.m.name, err))
	}
	return r, err
}

func (w *work) comparer(ctx context.Context) *comparer {
	c := &comparer{w.manifests(), w.ledger.baselines(), nil}
	if w.a.Strategy.DryRun {
		c.dry = w.m.asking(ctx, w.a.Placement, &w.a.Strategy)
	}
	return c
}

func (w *work) manifests() *manifests {
	if w.compiled == nil {
		w.compiled = w.u.compiler.of(w.rev, w.a.Strategy, w.a.Placement, w.a.secretKey)
	}
	return w.compiled
}

// Summary names the first differences of a report, without their values.
func Summary(r *drift.Report) string {
	if len(r.Differences) == 0 {
		return string(r.State)
	}
	first := &r.Differences[0]
	text := fmt.Sprintf("%s (%s)", guard.Clip(pathOf(first)), first.Class)
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

// heldBack returns why objects are held back, for the error of an update. It returns nil for a
// repair between runs, which brings nothing new.
func (w *work) heldBack() error {
	if w.a.keeps {
		return nil
	}
	var all []error
	for _, t := range w.targets {
		if why := t.heldBack(); why != nil {
			all = append(all, why)
		}
	}
	return JoinProblems(all)
}
