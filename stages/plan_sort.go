package stages

import (
	"cmp"
	"encoding/binary"
	"math/bits"
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

// planKeyBits is how many bits of a key one pass of sorting looks at, at most.
const planKeyBits = 12

// planSortKeyed puts the elements in the order of their keys; those of one key
// stay in their order. It sorts by some bits of the key after the others, more
// of them where there are more elements, so that ten times the elements take
// ten times as long, which is not so when they are compared. Bits in which no
// keys differ are left out. Spare is at least as long as in, and for use.
func planSortKeyed(in, spare []planKeyed) {
	var differ uint64
	for i := range in {
		differ |= in[i].key ^ in[0].key
	}
	var next [1 << planKeyBits]int32
	width := min(max(8, bits.Len(uint(len(in)))), planKeyBits)
	from, to := in, spare[:len(in)]
	for shift := 0; differ>>shift != 0; shift += width {
		shift += bits.TrailingZeros64(differ >> shift)
		planSortBits(from, to, shift, next[:1<<width])
		from, to = to, from
	}
	if len(in) > 0 && &from[0] != &in[0] {
		copy(in, from)
	}
}

// planSortBits puts the elements into out in the order of those bits of the key
// that begin at shift and number len(next) values.
func planSortBits(in, out []planKeyed, shift int, next []int32) {
	clear(next)
	mask := uint64(len(next) - 1)
	for i := range in {
		next[in[i].key>>shift&mask]++
	}
	before := int32(0)
	for value, n := range next {
		next[value] = before
		before += n
	}
	for _, e := range in {
		value := e.key >> shift & mask
		out[next[value]] = e
		next[value]++
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
	names := make([]planKeyed, n)
	if n == 0 {
		return names
	}
	first := name(0)[:min(len(name(0)), validation.DNS1123LabelMaxLength)]
	common := make([]string, planPieces(n))
	planSplit(n, func(piece, from, to int) { common[piece] = planFillKeys(names, from, to, first, name) })
	shortest := slices.MinFunc(common, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	planSplit(n, func(piece, from, to int) {
		if common[piece] != shortest {
			planFillKeys(names, from, to, shortest, name)
		}
	})
	return names
}

// planFillKeys fills in the names between two bounds, without what all of them
// begin with, of common at most, and returns that.
func planFillKeys(names []planKeyed, from, to int, common string, name func(int) string) string {
	for at := from; at < to; {
		end := min(at+planBlock, to)
		if shorter := planCommon(common, at, end, name); shorter != common {
			common, at = shorter, from
			continue
		}
		for ; at < end; at++ {
			names[at] = planKeyed{planNameKey(name(at), len(common)), at}
		}
	}
	return common
}

// planCommon returns the longest beginning of common that the names of a block
// have too. It looks at each but once, in a row, see planBlock.
func planCommon(common string, from, to int, name func(int) string) string {
	for i := from; i < to; i++ {
		for !strings.HasPrefix(name(i), common) {
			common = common[:len(common)-1]
		}
	}
	return common
}

// planByName returns the clusters in the order of their names.
func planByName(clusters []placement.Cluster) []planCluster {
	order := planNameOrder(len(clusters), func(i int) string { return clusters[i].Name })
	out := make([]planCluster, len(clusters))
	planSplit(len(out), func(_, from, to int) {
		for ; from < to; from += planBlock {
			block := order[from:min(from+planBlock, to)]
			planFetchClusters(clusters, block)
			for i := range block {
				c := &clusters[block[i].at]
				out[from+i] = planCluster{Name: c.Name, UID: c.UID, Labels: c.Labels}
			}
		}
	})
	return out
}

// planFetchClusters asks for the memory of a block of clusters, see [planFetch].
//
//go:noinline
func planFetchClusters(clusters []placement.Cluster, block []planKeyed) (all int) {
	for i := range block {
		c := &clusters[block[i].at]
		all |= len(c.Name)
		if c.Labels != nil {
			all++
		}
	}
	return all
}

// planNameKey is the eight bytes of s behind skip, or as many as there are, as a
// number that orders like them.
func planNameKey(s string, skip int) (key uint64) {
	const size = 8
	if len(s) >= size {
		at := min(skip, len(s)-size)
		return binary.BigEndian.Uint64([]byte(s[at:at+size])) << (8 * (skip - at))
	}
	for i := skip; i < len(s); i++ {
		key |= uint64(s[i]) << (8 * (size - 1 - i + skip))
	}
	return key
}
