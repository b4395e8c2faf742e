package status

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
)

// Binding is one cluster of a placement, as its ClusterResourceBinding shows it.
type Binding struct {
	Cluster string
	State   v1beta1.BindingState
}

// Bindings returns the bindings of a placement. Picked are the clusters that it picks, bound the
// clusters that may have objects of it; both must be sorted.
func Bindings(picked, bound []string) []Binding {
	out := make([]Binding, 0, len(picked))
	for _, name := range picked {
		state := v1beta1.BindingStateScheduled
		if _, has := slices.BinarySearch(bound, name); has {
			state = v1beta1.BindingStateBound
		}
		out = append(out, Binding{name, state})
	}
	for _, name := range bound {
		if _, is := slices.BinarySearch(picked, name); !is {
			out = append(out, Binding{name, v1beta1.BindingStateUnscheduled})
		}
	}
	return out
}

// BindingName returns the name of the object that shows the binding of a cluster to a placement.
func BindingName(placement, cluster string) string {
	sum := sha256.Sum256([]byte(placement + "/" + cluster))
	return placement + "-" + cluster + "-" + hex.EncodeToString(sum[:4])
}
