package placements

import (
	"context"
	"sync"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
)

// Drifts reads the recorded drift of placements for their statuses. A placement that had none is
// not read again before Recorded, because its status is written far more often than its drift
// changes, and an API server lets a list of Secrets wait for up to 100 ms. The zero value is ready
// to use, concurrently.
type Drifts struct {
	// none holds the engine names of the placements that had no recorded drift.
	none sync.Map
}

// Recorded must be called if the recorded drift of a placement has changed.
func (d *Drifts) Recorded(name string) { d.none.Delete(name) }

// shown returns the drift that read returns for a placement.
func (d *Drifts) shown(ctx context.Context, name string, read driftReader) (map[string]*drift.ClusterReport, error) {
	// The name is stored first, so that Recorded removes it if a drift is recorded meanwhile.
	if _, known := d.none.LoadOrStore(name, true); known {
		return nil, nil
	}
	out, err := read(ctx, name)
	if err != nil || len(out) > 0 {
		d.none.Delete(name)
	}
	return out, err
}

// driftReader returns the last recorded drift report of each cluster of a placement.
type driftReader func(ctx context.Context, name string) (map[string]*drift.ClusterReport, error)

// driftIn returns the reader of an engine's records.
func driftIn(e *fleet.Engine) driftReader {
	return func(ctx context.Context, name string) (map[string]*drift.ClusterReport, error) {
		out := map[string]*drift.ClusterReport{}
		for c, err := range e.Placement(name).Drift(ctx, fleet.DriftOptions{Recorded: true}) {
			if err != nil {
				return nil, err
			}
			out[c.Cluster] = &c
		}
		return out, nil
	}
}
