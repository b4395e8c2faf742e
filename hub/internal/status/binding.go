package status

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/slipway-dev/slipway/hub/internal/api"
)

// Binding is one cluster of a placement, as its ClusterResourceBinding shows it.
type Binding struct{ Cluster, State string }

// Bindings returns the bindings of a placement. Picked are the clusters that it picks, bound the
// clusters that may have objects of it; both must be sorted.
func Bindings(picked, bound []string) []Binding {
	out := make([]Binding, 0, len(picked))
	for _, name := range picked {
		state := api.BindingScheduled
		if _, has := slices.BinarySearch(bound, name); has {
			state = api.BindingBound
		}
		out = append(out, Binding{name, state})
	}
	for _, name := range bound {
		if _, is := slices.BinarySearch(picked, name); !is {
			out = append(out, Binding{name, api.BindingUnscheduled})
		}
	}
	return out
}

// BindingName returns the name of the object that shows the binding of a cluster to a placement.
func BindingName(placement, cluster string) string {
	sum := sha256.Sum256([]byte(placement + "/" + cluster))
	return placement + "-" + cluster + "-" + hex.EncodeToString(sum[:4])
}
