package embedded_test

import (
	"testing"

	"github.com/slipway-dev/slipway/fleet/upgrade/embedded"
	"github.com/slipway-dev/slipway/placement"
)

// TestSampleClustersAreOutdated checks that regions offer different images, all of them
// newer than the image of a new cluster.
func TestSampleClustersAreOutdated(t *testing.T) {
	var w embedded.State
	newest := map[string]string{"eastus": "-202410.15.0", "westeurope": "-202409.30.0", "southeastasia": "-202409.30.0", "elsewhere": "-202409.09.0"}
	for region := range newest {
		w.AddSample("in-"+region, region, "1.25.6")
	}
	p := embedded.New(w, nil)
	for region, image := range newest {
		c, err := p.Describe(t.Context(), placement.Cluster{Name: "in-" + region})
		if err != nil || c.Region != region || c.ControlPlane != "1.25.6" || len(c.Pools) != 1 || !c.Healthy {
			t.Fatalf("%s: %+v, %v", region, c, err)
		}
		pool := c.Pools[0]
		if len(pool.Images) == 0 || pool.Images[0] != embedded.SampleFamily+image || pool.Version != "1.25.6" {
			t.Errorf("%s: %+v", region, pool)
		}
		for _, offered := range pool.Images {
			if offered <= pool.Image {
				t.Errorf("%s offers %s, and a new cluster has %s", region, offered, pool.Image)
			}
		}
	}
}
