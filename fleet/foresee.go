package fleet

import (
	"context"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/snapshot"
)

// foresee adds what an update would do to the objects that were looked at: first
// what is applied, in order, then what is given up, in the order of that.
func (w *work) foresee(ctx context.Context, out *ClusterDiff) {
	for _, t := range w.targets {
		if t.want != nil {
			w.foreseeApply(ctx, t, out)
		}
	}
	for i := range w.targets {
		if t := w.targets[len(w.targets)-1-i]; t.want == nil {
			w.foreseePrune(t, out)
		}
	}
}

// foreseeApply adds an object that is to be there, where it is not as it is to be.
func (w *work) foreseeApply(ctx context.Context, t *target, out *ClusterDiff) {
	r, err := w.compare(ctx, t)
	if err == nil && !r.Drifted() {
		return
	}
	for _, problem := range []error{err, w.refusal(t), t.held} {
		if problem != nil {
			out.Problems = append(out.Problems, clip(problem.Error()))
		}
	}
	if err == nil {
		out.add(ObjectDrift{Report: r, Reason: w.applyReason(t), Observed: out.Observed, FirstObserved: out.Observed})
	}
}

// applyReason is what an update would do to an object that differs, or why it
// would leave it.
func (w *work) applyReason(t *target) DriftReason {
	switch {
	case t.held != nil || w.a.Strategy.reportsOnly():
		return reasonFor(w.a.Strategy, t, w.a.Placement)
	case w.refusal(t) != nil:
		return FailedToTakeOver
	case t.live == nil:
		return ToCreate
	}
	return ToChange
}

// foreseePrune adds an object that is not to be there any more, where it is.
func (w *work) foreseePrune(t *target, out *ClusterDiff) {
	if t.live == nil || isTerminating(t.live) || t.doubted && !carries(t.live, w.a.Placement) {
		return
	}
	reason := ToRemove
	switch {
	case w.stays(t) || w.a.Strategy.reportsOnly():
		return
	case t.adopted || len(otherPlacements(t.live, w.a.Placement)) > 0:
		reason = ToRelease
	}
	out.add(ObjectDrift{Report: presenceOf(t), Reason: reason, Observed: out.Observed, FirstObserved: out.Observed})
}

// presenceOf is the report of an object of which only its being there matters.
func presenceOf(t *target) drift.Report {
	id := snapshot.IDOf(t.live)
	return drift.Report{
		Group: id.Group, Version: id.Version, Kind: id.Kind, Namespace: id.Namespace, Name: id.Name,
		State: drift.Present, Generation: t.live.GetGeneration(), Differences: []drift.Difference{},
	}
}
