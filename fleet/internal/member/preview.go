package member

import (
	"cmp"
	"context"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/snapshot"
)

// Preview adds to out the changes that an update would make to a cluster, and only reads. load
// returns the revision of the assignment, which need not be stored yet. Preview returns the
// revision that the cluster proves; "" if there is none, or while an intent is open.
func (u *Applier) Preview(ctx context.Context, a Assignment, load func(context.Context) (*Revision, error), out *drift.ClusterReport) (has string, err error) {
	m, err := u.conns.get(ctx, a.Cluster)
	if err != nil {
		return "", err
	}
	w := u.newWork(m, a)
	if w.ledger, err = readLedger(ctx, m, a.Placement, a.secretKey); err != nil {
		return "", err
	}
	if !w.ledger.open() && w.ledger.Revision != unknownRevision {
		has = w.ledger.Revision
	}
	if a.Revision != "" {
		if w.rev, err = load(ctx); err != nil {
			return has, err
		}
	}
	w.targets = targetsOf(w.rev, w.ledger.ledger)
	if err := cmp.Or(w.readAll(ctx, w.targets), unread(w.targets)); err != nil {
		return has, err
	}
	if !a.Strategy.ReportsOnly() {
		w.hold(ctx)
	}
	p := preview{w, out}
	p.add(ctx)
	return has, nil
}

// preview adds the changes of an update to a report.
type preview struct {
	*work
	out *drift.ClusterReport
}

// add adds the changes to the objects that were read: first the objects to apply in their order,
// then the objects to delete or release in the reverse order.
func (p *preview) add(ctx context.Context) {
	for _, problem := range p.rev.unplacedProblems() {
		p.out.Problems = append(p.out.Problems, guard.Clip(problem.Error()))
	}
	for _, t := range p.targets {
		if t.want != nil {
			p.addApplied(ctx, t)
		}
	}
	for i := range p.targets {
		if t := p.targets[len(p.targets)-1-i]; t.want == nil {
			p.addPruned(ctx, t)
		}
	}
}

// addApplied adds a desired object that the update would create or change.
func (p *preview) addApplied(ctx context.Context, t *target) {
	if t.ended != "" {
		return
	}
	r, err := p.compare(ctx, t)
	if err == nil && !r.Drifted() {
		return
	}
	for _, problem := range []error{err, t.refusal(&p.a), t.heldBack()} {
		if problem != nil {
			p.out.Problems = append(p.out.Problems, guard.Clip(problem.Error()))
		}
	}
	if err == nil {
		add(p.out, drift.ObjectReport{Report: r, Reason: p.applyReason(t), Observed: p.out.Observed, FirstObserved: p.out.Observed})
	}
}

// applyReason returns the effect of an update on an object that differs, or why the update would
// not change it.
func (p *preview) applyReason(t *target) drift.Reason {
	switch {
	case t.heldBack() != nil || p.a.Strategy.ReportsOnly():
		return reasonFor(p.a.Strategy, t, p.a.Placement)
	case t.refusal(&p.a) != nil:
		return drift.FailedToTakeOver
	case t.live == nil:
		return drift.ToCreate
	}
	return drift.ToChange
}

// addPruned adds an undesired object that exists.
func (p *preview) addPruned(ctx context.Context, t *target) {
	if t.live == nil || isTerminating(t.live) || t.isSuspect() && !carries(t.live, p.a.Placement) {
		return
	}
	if p.removalPostponed(t) || p.a.Strategy.ReportsOnly() {
		return
	}
	reason := drift.ToRemove
	switch releaseReason, err := p.releaseReason(ctx, t); {
	case err != nil:
		p.out.Problems = append(p.out.Problems, guard.Clip(err.Error()))
	case releaseReason != "":
		reason = drift.ToRelease
	}
	add(p.out, drift.ObjectReport{Report: presenceOf(t), Reason: reason, Observed: p.out.Observed, FirstObserved: p.out.Observed})
}

// presenceOf returns a report that an object exists, without differences.
func presenceOf(t *target) drift.Report {
	id := snapshot.IDOf(t.live)
	return drift.Report{
		Group: id.Group, Version: id.Version, Kind: id.Kind, Namespace: id.Namespace, Name: id.Name,
		State: drift.Present, Generation: t.live.GetGeneration(), Differences: []drift.Difference{},
	}
}
