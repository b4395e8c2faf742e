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

// applyPolicy decides whether the strategy of an update forbids to apply an object: because it
// drifted from the version to be applied, because it existed before and must not be taken over, or
// because another placement applies it, too, and the placement is exclusive.
// It uses the object as it was read, and calls the member only for the dry runs of the strategy.
type applyPolicy struct {
	session
	rev *Revision
	// compiled are the objects of rev, nil until an object is compared.
	compiled *manifests
}

// forbids returns why an object must not be applied, or nil if it may be.
func (p *applyPolicy) forbids(ctx context.Context, t *target) error {
	switch {
	case t.want == nil || t.live == nil || isTerminating(t.live):
		return nil
	case p.a.Exclusive && len(otherPlacements(t.live, p.a.Placement)) > 0:
		return t.refusal(&p.a)
	case !owned(t, p.a.Placement):
		return p.keepsOut(ctx, t)
	case p.a.Strategy.WhenToApply != apply.IfNotDrifted:
		return nil
	}
	if applied, err := p.hasBeenApplied(ctx, t); !applied || err != nil {
		return err // another version of the object is applied in any case
	}
	r, err := p.compare(ctx, t)
	if err != nil || !r.Drifted() {
		return err
	}
	return fmt.Errorf("cluster %s: %s has drifted and is left alone, because whenToApply is IfNotDrifted: %s: put it back, change it at the hub, or apply Always: %w",
		p.m.name, t.id, Summary(&r), backend.ErrPermanent)
}

// hasBeenApplied reports whether the desired version of an object was applied before. If the
// object's mark was removed since, the revision that the ledger proves decides.
func (p *applyPolicy) hasBeenApplied(ctx context.Context, t *target) (bool, error) {
	switch {
	case digestOn(t.live, p.a.Placement) == t.want.Digest:
		return true, nil
	case p.ledger.open() || !t.listed() || p.ledger.Revision == unknownRevision:
		return false, nil
	case p.ledger.Revision == p.a.Revision:
		return true, nil
	}
	rev, err := p.u.load(ctx, p.a.Placement, p.ledger.Revision)
	switch {
	case errors.Is(err, ErrRevisionGone):
		return false, nil
	case err != nil:
		return false, guard.Permanent(fmt.Errorf("cluster %s: %s: whether it drifted cannot be told: %w", p.m.name, t.id, err))
	}
	return slices.ContainsFunc(rev.items, func(item revisionItem) bool {
		return objectKey(item.ID) == objectKey(t.id) && item.Digest == t.want.Digest
	}), nil
}

// keepsOut returns why an object that existed before must not be taken over, or nil if it may be.
func (p *applyPolicy) keepsOut(ctx context.Context, t *target) error {
	if p.a.keeps {
		return fmt.Errorf("cluster %s: %s is not the placement's, and only runs take objects over: %w", p.m.name, t.id, backend.ErrPermanent)
	}
	if p.a.Exclusive && !p.a.AllowCoOwnership && len(t.live.GetOwnerReferences()) > 0 {
		return fmt.Errorf("cluster %s: %s was there before and %s owns it: delete it, or allow co-ownership: %w",
			p.m.name, t.id, ownerOf(t.live), backend.ErrPermanent)
	}
	switch takesOver(&p.a.Strategy) {
	case apply.Never:
		return fmt.Errorf("cluster %s: %s was there before and is not taken over, because whenToTakeOver is Never: delete it, or let it be taken over: %w",
			p.m.name, t.id, backend.ErrPermanent)
	case apply.IfNoDiff:
		r, err := p.compare(ctx, t)
		if err != nil || !r.Drifted() {
			return err
		}
		return fmt.Errorf("cluster %s: %s was there before and differs, and whenToTakeOver is IfNoDiff: %s: make them equal, or take it over Always: %w",
			p.m.name, t.id, Summary(&r), backend.ErrPermanent)
	default:
		return nil
	}
}

// compare compares an object with its desired state. Its errors are permanent, because a comparison
// that failed fails until the object changes.
func (p *applyPolicy) compare(ctx context.Context, t *target) (drift.Report, error) {
	r, err := p.comparer(ctx).of(t)
	if err != nil {
		err = guard.Permanent(fmt.Errorf("cluster %s: %w", p.m.name, err))
	}
	return r, err
}

func (p *applyPolicy) comparer(ctx context.Context) *comparer {
	c := &comparer{p.manifests(), p.ledger.baselines(), nil}
	if p.a.Strategy.DryRun {
		c.dry = p.m.asking(ctx, p.a.Placement, &p.a.Strategy)
	}
	return c
}

func (p *applyPolicy) manifests() *manifests {
	if p.compiled == nil {
		p.compiled = p.u.compiler.of(p.rev, p.a.Strategy, p.a.Placement, p.a.secretKey)
	}
	return p.compiled
}
