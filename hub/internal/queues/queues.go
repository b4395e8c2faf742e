// Package queues has the work queues of the hub's reconcilers, and the minimum time between two
// writes of a status.
package queues

import (
	"sync"
	"time"

	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/reconcile"
)

// Queues holds the queues of all kinds. Code that changes something an object depends on adds the
// object's key.
type Queues struct {
	Placements, Runs, Members, Overrides, Evictions *reconcile.Queue[api.Key]
	// Bindings holds placements whose binding objects must be written.
	Bindings *reconcile.Queue[api.Key]
	// Statuses holds placements whose objects report their status to the objects of the hub.
	Statuses *reconcile.Queue[api.Key]
	// Orphans holds runs of the engine whose names were cut and that have no object.
	Orphans *reconcile.Queue[api.Key]
	// Applications and ManagedClusters are nil if the hub does not serve applications.
	Applications, ManagedClusters *reconcile.Queue[api.Key]

	// sizes are the numbers of clusters that runs have and placements list, by sized.
	sizes sync.Map
}

// All returns the queues of all kinds.
func (q *Queues) All() []*reconcile.Queue[api.Key] {
	all := []*reconcile.Queue[api.Key]{q.Placements, q.Runs, q.Members, q.Overrides, q.Evictions, q.Bindings, q.Statuses, q.Orphans}
	if q.Applications != nil {
		all = append(all, q.Applications, q.ManagedClusters)
	}
	return all
}

// StatusPace is the shortest time between two writes of a status for reports of the engine; the
// first write is immediate. For each cluster of a run, and each that a placement lists,
// clusterPace is added, because a status grows with them, up to slowestPace.
const (
	StatusPace  = 200 * time.Millisecond
	clusterPace = 10 * time.Millisecond
	slowestPace = 2 * time.Second
)

// sized identifies a run or a placement by its name in the engine.
type sized struct{ kind, name string }

// Resize records the number of clusters in the status of a run or a placement; 0 forgets the run
// or placement.
func (q *Queues) Resize(kind, name string, clusters int) {
	if clusters == 0 {
		q.sizes.Delete(sized{kind, name})
		return
	}
	q.sizes.Store(sized{kind, name}, clusters)
}

// PaceOf returns the shortest time between two writes of the status of a run or a placement.
func (q *Queues) PaceOf(kind, name string) time.Duration {
	clusters, _ := q.sizes.Load(sized{kind, name})
	n, _ := clusters.(int)
	return min(StatusPace+time.Duration(n)*clusterPace, slowestPace)
}

// PaceOfProgress returns the shortest time between two writes of the status of a placement for
// the progress of a run.
func (q *Queues) PaceOfProgress(run, placement string) time.Duration {
	return max(2*q.PaceOf(api.RunKind, run), q.PaceOf(api.PlacementKind, placement))
}
