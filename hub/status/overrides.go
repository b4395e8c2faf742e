package status

import (
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
)

// FrozenOverride is an override that a snapshot has frozen and that selects one of
// its objects.
type FrozenOverride struct {
	placement.Override
	// Shown is the name of the object that shows the override as it was then.
	Snapshot string
}

// shownOverrides is how many bytes of names of overrides a status has; those of the
// clusters that are listed first.
const shownOverrides = 128 << 10

// overridesOn names the overrides of which a rule selects a cluster, as its labels
// are now, as far as the room for names reaches.
func overridesOn(cluster placement.Cluster, all []FrozenOverride, room *int) (clusterwide []string, namespaced []kubefleet.NamespacedName) {
	for _, o := range all {
		if applies, err := o.SelectsCluster(cluster); err != nil || !applies {
			continue
		}
		if *room -= len(o.Namespace) + len(o.Snapshot); *room < 0 {
			return clusterwide, namespaced
		}
		if o.Namespace == "" {
			clusterwide = append(clusterwide, o.Snapshot)
		} else {
			namespaced = append(namespaced, kubefleet.NamespacedName{Namespace: o.Namespace, Name: o.Snapshot})
		}
	}
	return clusterwide, namespaced
}

// applicable adds the overrides that apply to a cluster.
func (p *placementBuilder) applicable(s *placedStatus, c *PlacedCluster) {
	if cluster, known := p.Members[c.Name]; known {
		s.ClusterOverrides, s.Overrides = overridesOn(cluster, p.Overrides[c.Tried], &p.names)
	}
}

// applicable adds the overrides that what the plan brings to a cluster was made with.
func (p *runBuilder) applicable(c *clusterStatus, pos int) {
	if cluster, known := p.Members[c.Name]; known {
		c.ClusterOverrides, c.Overrides = overridesOn(cluster, p.Overrides[p.Plan.IndexAt(pos)], &p.names)
	}
}
