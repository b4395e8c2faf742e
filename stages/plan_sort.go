package stages

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/placement"
)

// planKeyed is something to be sorted by a number: where it is, and its key.
type planKeyed struct {
	key uint64
	at  int
}

// planSortKeyed puts the elements in the order of their keys; those of one key
// stay in their order. It sorts by one byte of the key after the other, so
// that ten times the elements take ten times as long, which is not so when
// they are compared. Spare is at least as long as in, and for use.
func planSortKeyed(in, spare []planKeyed) {
	var differ uint64
	for i := range in {
		differ |= in[i].key ^ in[0].key
	}
	from, to := in, spare[:len(in)]
	for shift := 0; shift < 64; shift += 8 {
		if byte(differ>>shift) != 0 {
			planSortByte(from, to, shift)
			from, to = to, from
		}
	}
	if len(in) > 0 && &from[0] != &in[0] {
		copy(in, from)
	}
}

// planSortByte puts the elements into out in the order of one byte of the key.
func planSortByte(in, out []planKeyed, shift int) {
	var count, next [256]int
	for i := range in {
		count[byte(in[i].key>>shift)]++
	}
	for i := 1; i < len(next); i++ {
		next[i] = next[i-1] + count[i-1]
	}
	for _, e := range in {
		b := byte(e.key >> shift)
		out[next[b]] = e
		next[b]++
	}
}

// planNameOrder returns where the n names are, in the order of the names.
func planNameOrder(n int, name func(int) string) []planKeyed {
	names := planNameKeys(n, name)
	planSortKeyed(names, make([]planKeyed, n))
	for from := 0; from < n; {
		to := from + 1
		for to < n && names[to].key == names[from].key {
			to++
		}
		slices.SortStableFunc(names[from:to], func(a, b planKeyed) int { return cmp.Compare(name(a.at), name(b.at)) })
		from = to
	}
	return names
}

// planNameKeys returns the names with the eight bytes after what all of them
// begin with: most names are told apart by these alone, without a look at the
// strings. What they begin with it learns on the way, and begins anew.
func planNameKeys(n int, name func(int) string) []planKeyed {
	names, common := make([]planKeyed, n), ""
	if n > 0 {
		common = name(0)[:min(len(name(0)), validation.DNS1123LabelMaxLength)]
	}
	for i := 0; i < n; i++ {
		s := name(i)
		if strings.HasPrefix(s, common) {
			names[i] = planKeyed{planNameKey(s[len(common):]), i}
			continue
		}
		for !strings.HasPrefix(s, common) {
			common = common[:len(common)-1]
		}
		i = -1
	}
	return names
}

// planByName returns the clusters in the order of their names.
func planByName(clusters []placement.Cluster) []placement.Cluster {
	out := make([]placement.Cluster, len(clusters))
	for i, n := range planNameOrder(len(clusters), func(i int) string { return clusters[i].Name }) {
		out[i] = clusters[n.at]
	}
	return out
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
