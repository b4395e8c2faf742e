package planning

import (
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
)

// checkReversal returns an error if a run of the snapshot with this index would roll clusters back
// past an irreversible snapshot.
func checkReversal(rec *record.Placement, held lifecycle.Bindings, index int, clusters []placement.Cluster) error {
	var names []string
	past := lifecycle.None
	for _, c := range clusters {
		h := held.Of(c.Name)
		if k, ok := rec.Bars(max(h.ProvenIndex, h.Attempted), index); ok {
			names, past = append(names, c.Name), max(past, k)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("placement %s: snapshot %d would take %d clusters, the first %s, back past snapshot %d, which is irreversible: roll out a snapshot that is not older, or take the mark away with SetIrreversible: %w",
		rec.Placement.Name, index, len(names), slices.Min(names), past, backend.ErrPermanent)
}
