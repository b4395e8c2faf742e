package placements

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/snapshot"
)

// reached remembers the clusters that placements of namespaces have reached.
type reached struct {
	// began is the time when the reconciler was created.
	began time.Time
	// proven holds the clusters on which placements were last proven to be, by key.
	proven sync.Map
}

// update calls tell, which may be nil, with each cluster that the placement has reached or left
// since the last call, if the placement selects namespaces.
func (r *reached) update(tell func(cluster string), k api.Key, obj *unstructured.Unstructured, p *fleet.Placement, have map[string]fleet.PlacedCluster) {
	selects := func(s snapshot.Selector) bool { return s.Group == "" && s.Kind == "Namespace" }
	if tell == nil || !slices.ContainsFunc(p.Selectors, selects) {
		return
	}
	now := map[string]bool{}
	for name, c := range have {
		if c.Index >= 0 {
			now[name] = true
		}
	}
	before, known := r.proven.Swap(k, now)
	if !known && obj.GetCreationTimestamp().Time.Before(r.began) {
		return // at its start, a hub asks all members anyway
	}
	had, _ := before.(map[string]bool)
	for _, clusters := range []map[string]bool{now, had} {
		for name := range clusters {
			if now[name] != had[name] {
				tell(name)
			}
		}
	}
}

// drop calls tell with each cluster that last had a deleted placement.
func (r *reached) drop(tell func(cluster string), k api.Key) {
	had, known := r.proven.LoadAndDelete(k)
	if !known {
		return
	}
	for name := range had.(map[string]bool) {
		tell(name)
	}
}
