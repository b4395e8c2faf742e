package placements

import (
	"slices"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/status"
	"github.com/slipway-dev/slipway/placement"
)

// selectionOf makes a decision one that is shown. Only what PickN policies picked is
// kept for the next time, in memory: the others say the same again.
func (r *Reconciler) selectionOf(k api.Key, p placement.Policy, now fleet.Resolution) status.Selection {
	switch {
	case now.Digest == "": // nothing was decided
		return status.Selection{Resolution: now, Type: p.Type}
	case p.Type != placement.PickN:
		r.evaluations.Delete(k)
		return status.Selection{Resolution: now, Type: p.Type}
	}
	if before, ok := r.evaluations.Load(k); ok {
		now.Evaluations = status.Lasting(before.([]placement.Evaluation), now.Evaluations)
	}
	picked := slices.DeleteFunc(slices.Clone(now.Evaluations), func(v placement.Evaluation) bool { return !v.Picked })
	r.evaluations.Store(k, picked[:min(len(picked), status.ShownTargets)])
	return status.Selection{Resolution: now, Type: p.Type}
}
