package placement

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// property returns a property of the cluster. A property that is not measurable counts as
// missing.
func (c *Cluster) property(name string) (resource.Quantity, bool) {
	q, ok := c.Properties[name]
	return q, ok && measurable(q)
}

// Equal reports whether c and o have the same content. Quantities are equal if they mean the same
// number, and the order of taints does not count.
func (c Cluster) Equal(o Cluster) bool {
	return c.Name == o.Name && c.UID == o.UID && c.Leaving == o.Leaving && c.Unhealthy == o.Unhealthy &&
		maps.Equal(c.Labels, o.Labels) && sameTaints(c.Taints, o.Taints) && c.sameProperties(o) && c.sameNamespaces(o)
}

// sameNamespaces ignores their order. An empty list differs from nil, which means unknown
// namespaces.
func (c Cluster) sameNamespaces(o Cluster) bool {
	return (c.Namespaces == nil) == (o.Namespaces == nil) && (slices.Equal(c.Namespaces, o.Namespaces) ||
		slices.Equal(slices.Sorted(slices.Values(c.Namespaces)), slices.Sorted(slices.Values(o.Namespaces))))
}

func (c Cluster) sameProperties(o Cluster) bool {
	return maps.EqualFunc(c.Properties, o.Properties, func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
}

func sameTaints(a, b []Taint) bool {
	if slices.Equal(a, b) {
		return true
	}
	count := map[Taint]int{}
	for _, t := range a {
		count[t]++
	}
	for _, t := range b {
		count[t]--
	}
	return len(a) == len(b) && !slices.ContainsFunc(b, func(t Taint) bool { return count[t] != 0 })
}

// SameButProperties reports whether c and o differ at most in their properties and namespaces,
// which an inventory may measure continuously.
func (c Cluster) SameButProperties(o Cluster) bool {
	c.Properties, c.Namespaces = o.Properties, o.Namespaces
	return c.Equal(o)
}

// SameButMeasured reports whether two inventories, by name, differ at most in the properties and
// namespaces of their clusters.
func SameButMeasured(a, b map[string]Cluster) bool {
	return maps.EqualFunc(a, b, Cluster.SameButProperties)
}

// Clone returns a copy that shares nothing with c.
func (c Cluster) Clone() Cluster {
	c.Labels, c.Taints, c.Namespaces = maps.Clone(c.Labels), slices.Clone(c.Taints), slices.Clone(c.Namespaces)
	if c.Properties != nil {
		properties := make(map[string]resource.Quantity, len(c.Properties))
		for name, q := range c.Properties {
			properties[name] = q.DeepCopy()
		}
		c.Properties = properties
	}
	return c
}

// String returns the taint as errors and reasons print it.
func (t Taint) String() string {
	s := clip(t.Key)
	if t.Value != "" {
		s += "=" + clip(t.Value)
	}
	return s + ":" + string(t.Effect)
}
