// Package queues has the work queues of the hub's reconcilers, and how often a status is written.
package queues

import (
	"sync"
	"time"

	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/reconcile"
)

// Queues are those of all kinds. Who changes something that concerns an object adds its key.
type Queues struct {
	Placements, Runs, Members, Overrides, Evictions *reconcile.Queue[api.Key]
	// Bindings are placements of which the objects that show bindings are written.
	Bindings *reconcile.Queue[api.Key]
	// Statuses are placements whose objects report their status to the objects of the hub.
	Statuses *reconcile.Queue[api.Key]
	// Orphans are runs of the engine whose names were cut and that have no object.
	Orphans *reconcile.Queue[api.Key]
	// Applications and ManagedClusters are nil if the hub does not serve applications.
	Applications, ManagedClusters *reconcile.Queue[api.Key]

	// sizes are how many clusters runs have and placements list, by sized.
	sizes sync.Map
}

// All are the queues of all kinds.
func (q *Queues) All() []*reconcile.Queue[api.Key] {
	all := []*reconcile.Queue[api.Key]{q.Placements, q.Runs, q.Members, q.Overrides, q.Evictions, q.Bindings, q.Statuses, q.Orphans}
	if q.Applications != nil {
		all = append(all, q.Applications, q.ManagedClusters)
	}
	return all
}

// statusPace is how often a status is written at most for what the engine tells:
// at once, and then once in this time. For each cluster of a run, and each that a
// placement lists, clusterPace is added, since a status grows with them, up to
// slowestPace.
const (
	StatusPace  = 200 * time.Millisecond
	clusterPace = 10 * time.Millisecond
	slowestPace = 2 * time.Second
)

// sized names a run or a placement, as the engine calls it.
type sized struct{ kind, name string }

// Resize keeps how many clusters the status of a run or a placement tells of; 0 is of one that is gone.
func (q *Queues) Resize(kind, name string, clusters int) {
	if clusters == 0 {
		q.sizes.Delete(sized{kind, name})
		return
	}
	q.sizes.Store(sized{kind, name}, clusters)
}

// PaceOf is how often the status of a run or a placement is written.
func (q *Queues) PaceOf(kind, name string) time.Duration {
	clusters, _ := q.sizes.Load(sized{kind, name})
	n, _ := clusters.(int)
	return min(StatusPace+time.Duration(n)*clusterPace, slowestPace)
}

// PaceOfProgress is how often the status of a placement is written for what becomes of
// a run.
func (q *Queues) PaceOfProgress(run, placement string) time.Duration {
	return max(2*q.PaceOf(api.RunKind, run), q.PaceOf(api.PlacementKind, placement))
}
