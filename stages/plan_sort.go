package stages

import (
	"cmp"
	"slices"

	"github.com/slipway-dev/slipway/placement"
)

// planName stands for a cluster while names are sorted: the eight bytes of its
// name after what all names begin with, and where it is. Most names are told
// apart by these bytes alone, without a look at the strings.
type planName struct {
	key uint64
	at  int
}

// planByName returns the clusters in the order of their names.
func planByName(clusters []placement.Cluster) []placement.Cluster {
	common := planCommonPrefix(clusters)
	names := make([]planName, len(clusters))
	for i := range clusters {
		names[i] = planName{planNameKey(clusters[i].Name[common:]), i}
	}
	slices.SortFunc(names, func(a, b planName) int {
		if a.key != b.key {
			return cmp.Compare(a.key, b.key)
		}
		return cmp.Compare(clusters[a.at].Name, clusters[b.at].Name)
	})
	out := make([]placement.Cluster, len(clusters))
	for i, n := range names {
		out[i] = clusters[n.at]
	}
	return out
}

// planCommonPrefix is the length of what all names begin with.
func planCommonPrefix(clusters []placement.Cluster) int {
	if len(clusters) == 0 {
		return 0
	}
	first, n := clusters[0].Name, len(clusters[0].Name)
	for i := range clusters {
		name := clusters[i].Name
		n = min(n, len(name))
		for j := 0; j < n; j++ {
			if name[j] != first[j] {
				n = j
			}
		}
	}
	return n
}

// planNameKey is the first eight bytes of s as a number that orders like s.
func planNameKey(s string) (key uint64) {
	for i := range 8 {
		key <<= 8
		if i < len(s) {
			key |= uint64(s[i])
		}
	}
	return key
}
