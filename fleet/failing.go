package fleet

import (
	"maps"
	"sync"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/fleet/internal/member"
)

// FailingCluster is a cluster with missing or failing objects of an update.
type FailingCluster struct {
	// Run is the run that updates the cluster, or the last run that did.
	Run string
	// Objects are the failing objects in the order of application, at most 100.
	Objects []apply.FailingObject
}

// failingOfAll limits how many objects of all clusters are remembered; beyond it only the first
// object of a cluster is.
const failingOfAll = 20_000

// failures are the failing objects, by placement and cluster. They are not a cache: they are stored
// nowhere else.
type failures struct {
	mu    sync.Mutex
	at    map[string]map[string]FailingCluster
	total int
}

// note records the outcome of an observation or an update of a cluster. An outcome that proves
// nothing and names no object changes nothing.
func (f *failures) note(a *member.Assignment, proven bool, objects []apply.FailingObject) {
	if len(objects) == 0 && !proven {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(a.Placement, a.Cluster.Name)
	if proven {
		return
	}
	if f.at == nil {
		f.at = map[string]map[string]FailingCluster{}
	}
	if f.at[a.Placement] == nil {
		f.at[a.Placement] = map[string]FailingCluster{}
	}
	if f.total+len(objects) > failingOfAll {
		objects = objects[:1]
	}
	f.at[a.Placement][a.Cluster.Name] = FailingCluster{Run: a.Run, Objects: objects}
	f.total += len(objects)
}

func (f *failures) drop(placement, cluster string) {
	f.total -= len(f.at[placement][cluster].Objects)
	delete(f.at[placement], cluster)
}

// forget drops a placement.
func (f *failures) forget(placement string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for cluster := range f.at[placement] {
		f.drop(placement, cluster)
	}
	delete(f.at, placement)
}

func (f *failures) of(placement string) map[string]FailingCluster {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.at[placement]) // the lists are not changed any more
}
