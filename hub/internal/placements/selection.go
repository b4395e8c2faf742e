package placements

import (
	"slices"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/status"
	"github.com/slipway-dev/slipway/placement"
)

// selectionOf converts a resolution for the status. A cluster that a PickN policy keeps is shown
// with the evaluation that picked it, so these evaluations are kept in memory. The other policies
// yield the same evaluations each time, so none are kept for them.
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
