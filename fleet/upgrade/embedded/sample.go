package embedded

import "github.com/slipway-dev/slipway/fleet/upgrade"

// SampleFamily is the node family of the clusters that [State.AddSample] adds.
const SampleFamily = "AKSUbuntu-2204gen2containerd"

// AddSample adds a new cluster for a program that demonstrates upgrades, and returns it. The
// cluster is in region, its control plane and its only node pool have version, and the nodes have
// an older image than any region offers. The regions eastus, westeurope and southeastasia offer
// different images, because a new image takes a while to reach every region; any other region
// offers the oldest of these images. A cluster of that name is replaced.
func (w *State) AddSample(name, region, version string) *Cluster {
	images := []string{SampleFamily + "-202410.15.0", SampleFamily + "-202409.30.0", SampleFamily + "-202409.09.0"}
	switch region {
	case "eastus":
	case "westeurope", "southeastasia":
		images = images[1:]
	default:
		images = images[2:]
	}
	if w.Regions == nil {
		w.Regions = map[string]*Region{}
	}
	if w.Clusters == nil {
		w.Clusters = map[string]*Cluster{}
	}
	w.Regions[region] = &Region{Images: map[string][]string{SampleFamily: images}}
	w.Clusters[name] = &Cluster{
		Region: region, ControlPlane: version,
		Pools: []upgrade.Pool{{Name: "nodepool1", Version: version, Image: SampleFamily + "-202408.12.0", Family: SampleFamily}},
	}
	return w.Clusters[name]
}
