package planning

import "testing"

// BenchmarkDigests computes the content of each of 1,000 clusters from 100 objects; one object
// differs by cluster and one by region.
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
