package member

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// benchObjects is the number of objects in a benchmark's revision, without their namespace.
const benchObjects = 200

func benchRevision(k *kit, name, v string) {
	objs := []*unstructured.Unstructured{namespaceObject("many")}
	for i := range benchObjects {
		objs = append(objs, configMap("many", fmt.Sprintf("c%03d", i), v))
	}
	k.revision(name, objs...)
}

// BenchmarkUpdate brings a cluster to a revision: all objects change, none does, or they are only
// observed.
func BenchmarkUpdate(b *testing.B) {
	start := func(b *testing.B) (*kit, *Applier) {
		k := newKit(b)
		benchRevision(k, "even", "1")
		benchRevision(k, "odd", "2")
		u := k.leader(nil)
		load, loaded := u.load, map[string]*Revision{} // an engine keeps decoded revisions
		u.load = func(ctx context.Context, placement, digest string) (rev *Revision, err error) {
			if loaded[digest] == nil {
				if loaded[digest], err = load(ctx, placement, digest); err != nil {
					return nil, err
				}
			}
			return loaded[digest], nil
		}
		k.must(u, k.want("even", 1, "r"))
		b.ReportAllocs()
		return k, u
	}
	b.Run("all", func(b *testing.B) {
		k, u := start(b)
		names := []string{"even", "odd"}
		for i := 1; b.Loop(); i++ {
			k.must(u, k.want(names[i%2], 1, "r"))
		}
	})
	b.Run("none", func(b *testing.B) {
		k, u := start(b)
		for b.Loop() {
			k.must(u, k.want("even", 1, "r"))
		}
	})
	b.Run("observe", func(b *testing.B) {
		k, u := start(b)
		for b.Loop() {
			if _, err := u.Observe(b.Context(), k.want("even", 1, "r")); err != nil {
				b.Fatal(err)
			}
		}
	})
}
