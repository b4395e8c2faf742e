package fleet

import (
	"maps"
	"sync"

	"github.com/slipway-dev/slipway/snapshot"
)

// FailingReason says what is wrong with an object.
type FailingReason string

const (
	// NotApplied is one that could not be applied, or is not there as it was.
	NotApplied FailingReason = "NotApplied"
	// NotHealthy is one that was applied, and is not healthy, or not yet.
	NotHealthy FailingReason = "NotHealthy"
	// HeldDrifted is one that drifted, which the strategy leaves alone then.
	HeldDrifted FailingReason = "HeldDrifted"
	// HeldForeign is one that was there before, which the strategy does not take over.
	HeldForeign FailingReason = "HeldForeign"
)

// FailingObject is an object that a cluster does not have as an update wants it.
type FailingObject struct {
	snapshot.ID
	Reason FailingReason
	// Message says what is wrong, for people. It may quote the status of the object, never
	// another part of it, and is cut at 256 characters.
	Message string
}

// FailingCluster is a cluster that does not have everything as an update wants it.
type FailingCluster struct {
	// Run is the run that updates it, or did last.
	Run string
	// Objects are in the order of application, at most 100.
	Objects []FailingObject
}

// Failing returns the clusters of a placement that were last seen without something that
// an update brings, with what that is, by name. It is the engine's memory of its own updates,
// for show: it does not outlast the process, begins anew with the next look at a cluster,
// and of a cluster that nobody updates any more it is what the last update left.
func (e *Engine) Failing(placement string) map[string]FailingCluster { return e.failing.of(placement) }

// What is remembered of a cluster, and how many objects of all clusters; beyond that
// the first one of a cluster is.
const (
	failingOfCluster = 100
	failingOfAll     = 20_000
)

// failures are the objects that are failing, by placement and cluster.
type failures struct {
	mu    sync.Mutex
	at    map[string]map[string]FailingCluster
	total int
}

// note takes down what a look at a cluster or an update of it came to. One that proves nothing
// and names no object says nothing.
func (f *failures) note(a *Assignment, proven bool, objects []FailingObject) {
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
	f.at[a.Placement][a.Cluster.Name] = FailingCluster{a.Run, objects}
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

// note tells which objects are failing, where everything has been applied or not; proven is that
// nothing is.
func (w *work) note(applied, proven bool) {
	if w.a.keeps {
		return // nobody's run: what differs is told as drift
	}
	var objects []FailingObject
	if !proven {
		objects = w.failing(applied)
	}
	w.u.noted(&w.a, proven, objects)
}

// failing are the objects that the cluster does not have as they are to be. What is only not
// there yet is among them where everything has been applied.
func (w *work) failing(applied bool) []FailingObject {
	var all []FailingObject
	for _, t := range w.targets {
		if t.want == nil {
			continue
		}
		if o, bad := w.failure(t, applied); bad {
			all = append(all, o)
		}
		if len(all) == failingOfCluster {
			break
		}
	}
	return all
}

func (w *work) failure(t *target, applied bool) (FailingObject, bool) {
	bad := func(reason FailingReason, message string) (FailingObject, bool) {
		return FailingObject{ID: t.id, Reason: reason, Message: clip(message)}, true
	}
	switch {
	case t.problem != nil:
		return bad(NotApplied, t.problem.Error())
	case t.held != nil && owned(t, w.a.Placement):
		return bad(HeldDrifted, t.held.Error())
	case t.held != nil:
		return bad(HeldForeign, t.held.Error())
	}
	if err := w.refusal(t); err != nil {
		return bad(NotApplied, err.Error())
	}
	if !applied {
		return FailingObject{}, false
	}
	if stale := w.stale(t); stale != "" {
		return bad(NotApplied, stale)
	}
	return FailingObject{ID: t.id, Reason: NotHealthy, Message: t.illness}, t.illness != ""
}
