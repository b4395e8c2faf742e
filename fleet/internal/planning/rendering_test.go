package planning

import (
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// renderedFleet returns a snapshot of objects with overrides. They write the name of the cluster
// into one object and the region into another, and remove one in a region.
func renderedFleet(t testing.TB, objects, clusters int) (*frozen, []placement.Cluster) {
	t.Helper()
	var objs []*unstructured.Unstructured
	for i := range objects {
		objs = append(objs, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "n", "name": fmt.Sprintf("c%03d", i)},
			"data": map[string]any{"key": "value", "text": fmt.Sprintf("%0500d", i)},
		}})
	}
	set, err := snapshot.NewSet(objs)
	if err != nil {
		t.Fatal(err)
	}
	on := func(name string, r placement.Rule) placement.Override {
		if r.ClusterSelector == nil {
			r.ClusterSelector = &placement.ClusterSelector{}
		}
		return placement.Override{
			Name: "o-" + name, Namespace: "n", Rules: []placement.Rule{r},
			Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "ConfigMap", Name: name}},
		}
	}
	set1 := func(value string) placement.Rule {
		return placement.Rule{Patches: []placement.Patch{{Op: placement.OpReplace, Path: "/data/key", Value: []byte(`"` + value + `"`)}}}
	}
	overrides := []placement.Override{
		on("c000", set1("${MEMBER-CLUSTER-NAME}")), on("c001", set1("${MEMBER-CLUSTER-LABEL-KEY-region}")),
		on("c002", placement.Rule{Type: placement.Delete}),
	}
	all := make([]placement.Cluster, clusters)
	for i := range all {
		all[i] = placement.Cluster{Name: fmt.Sprintf("m%04d", i), Labels: map[string]string{"region": fmt.Sprint("r", i%3)}}
	}
	return &frozen{Snapshot: snapshot.Snapshot{Set: set.Digest}, set: set, overrides: overrides}, all
}

// The digest of a cluster's content is the digest of the set of its rendered objects, and the set
// can be rendered again from it, with its bodies.
func TestVariantDigestsMatchTheRenderedSets(t *testing.T) {
	f, clusters := renderedFleet(t, 10, 5)
	d := &Draft{Frozen: *f}
	target := stages.Target{Revision: map[string]string{}}
	if err := d.render(&target, clusters, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range clusters {
		objects, err := f.objects()
		if err != nil {
			t.Fatal(err)
		}
		rendered, err := placement.Render(objects, f.overrides, c)
		if err != nil {
			t.Fatal(err)
		}
		want, err := snapshot.NewSet(rendered)
		if err != nil {
			t.Fatal(err)
		}
		if !d.Variants.has(target.Revision[c.Name]) {
			t.Fatalf("%s gets %q", c.Name, target.Revision[c.Name])
		}
		got, err := d.Variants.set(target.Revision[c.Name])
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.Name, d)
		}
	}
}

// The memory that a plan keeps from rendering does not grow with clusters times objects: ten times
// the clusters, each with one object of its own, cost less than a quarter of a list of its objects
// each.
func TestRenderingMemoryIndependentOfCommonObjects(t *testing.T) {
	const objects = 200
	kept := func(clusters int) int64 {
		f, all := renderedFleet(t, objects, clusters)
		d := &Draft{Frozen: *f}
		target := stages.Target{Revision: map[string]string{}}
		before := heapInUse()
		if err := d.render(&target, all, nil); err != nil {
			t.Fatal(err)
		}
		after := heapInUse()
		if len(target.Revision) != clusters {
			t.Errorf("%d of %d clusters get something else", len(target.Revision), clusters)
		}
		runtime.KeepAlive(d)
		runtime.KeepAlive(all)
		return after - before
	}
	few, many := kept(40), kept(400)
	item := int64(unsafe.Sizeof(snapshot.Item{}))
	if each := (many - few) / 360; each > objects*item/4 {
		t.Errorf("each of 360 more clusters costs %d bytes, a list of its objects would be %d", each, objects*item)
	}
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // objects of weak pointers are freed only now
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
