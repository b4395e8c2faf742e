package planning

import "testing"

// BenchmarkDigests works out what each of 1,000 clusters gets of 100 objects, one
// of which differs by the cluster and one by its region.
func BenchmarkDigests(b *testing.B) {
	f, clusters := renderedFleet(b, 100, 1000)
	for b.Loop() {
		v, err := newVariants(f, nil)
		if err != nil {
			b.Fatal(err)
		}
		for _, c := range clusters {
			if _, err := v.add(c); err != nil {
				b.Fatal(err)
			}
		}
	}
}
