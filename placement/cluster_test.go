package placement_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-dev/slipway/placement"
)

// Clusters with the same meaning are equal, whatever their form and order. A copy of a cluster
// shares nothing with it.
func TestClusterEqual(t *testing.T) {
	one := member("a env=x cpu:1000m k!v l!")
	same := member("a env=x cpu:1 l! k!v")
	if !one.Equal(same) || !same.Equal(one) || !one.SameButProperties(same) {
		t.Error("the form of a quantity or the order of the taints makes a difference")
	}
	for name, change := range map[string]func(*placement.Cluster){
		"name": func(c *placement.Cluster) { c.Name = "b" }, "uid": func(c *placement.Cluster) { c.UID = "u" },
		"label": func(c *placement.Cluster) { c.Labels["env"] = "y" }, "leaving": func(c *placement.Cluster) { c.Leaving = true },
		"health":        func(c *placement.Cluster) { c.Unhealthy = "x" },
		"taint":         func(c *placement.Cluster) { c.Taints[0].Value = "w" },
		"no taint":      func(c *placement.Cluster) { c.Taints = c.Taints[:1] },
		"a taint twice": func(c *placement.Cluster) { c.Taints[1] = c.Taints[0] },
	} {
		other := one.Clone()
		if change(&other); one.Equal(other) || other.Equal(one) || one.SameButProperties(other) || !one.Equal(same) {
			t.Errorf("%s: %+v and %+v are equal, or a copy is none", name, one, other)
		}
	}
	measured := one.Clone()
	measured.Properties["cpu"] = resource.MustParse("2")
	if one.Equal(measured) || !one.SameButProperties(measured) || !one.Equal(same) {
		t.Errorf("%+v and %+v differ in a property alone", one, measured)
	}
}
