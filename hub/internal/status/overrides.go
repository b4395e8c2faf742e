package status

import (
	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/placement"
)

// FrozenOverride is an override in a snapshot that selects one of the snapshot's objects.
type FrozenOverride struct {
	placement.Override
	// Snapshot is the name of the object that shows this version of the override; empty while there
	// is none.
	Snapshot string
}

// shownOverrides is the limit for the names of overrides in a status, in bytes. The clusters that
// are listed first use it first.
const shownOverrides = 128 << 10

// overriding decides which overrides apply to a cluster, by the cluster's current labels.
type overriding struct {
	// of holds the overrides of each snapshot, members the clusters by name.
	of      map[int][]FrozenOverride
	members map[string]placement.Cluster
	// selects holds a function for each override of a snapshot: whether its rules select a cluster.
	// Selectors are compiled once instead of once for each cluster.
	selects map[int][]func(placement.Cluster) bool
	// room is the number of bytes left for names.
	room int
}

func newOverriding(of map[int][]FrozenOverride, members map[string]placement.Cluster) overriding {
	o := overriding{of: of, members: members, selects: map[int][]func(placement.Cluster) bool{}, room: shownOverrides}
	for index, all := range of {
		for _, one := range all {
			selects, err := one.Clusters()
			if err != nil {
				selects = func(placement.Cluster) bool { return false }
			}
			o.selects[index] = append(o.selects[index], selects)
		}
	}
	return o
}

// changes reports whether an override of a snapshot has a rule for a cluster.
func (o *overriding) changes(cluster string, index int) bool {
	c, known := o.members[cluster]
	if !known {
		return false
	}
	for _, selects := range o.selects[index] {
		if selects(c) {
			return true
		}
	}
	return false
}

// names returns the names of the overrides of a snapshot that have a rule for a cluster. It stops
// when room is used up.
func (o *overriding) names(cluster string, index int) (clusterwide []string, namespaced []v1beta1.NamespacedName) {
	c, known := o.members[cluster]
	if !known {
		return nil, nil
	}
	for i, one := range o.of[index] {
		if one.Snapshot == "" || !o.selects[index][i](c) {
			continue
		}
		if o.room -= len(one.Namespace) + len(one.Snapshot); o.room < 0 {
			return clusterwide, namespaced
		}
		if one.Namespace == "" {
			clusterwide = append(clusterwide, one.Snapshot)
		} else {
			namespaced = append(namespaced, v1beta1.NamespacedName{Namespace: one.Namespace, Name: one.Snapshot})
		}
	}
	return clusterwide, namespaced
}
