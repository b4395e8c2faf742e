package placement_test

import (
	"fmt"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/placement"
)

const shop = "shop"

// fleetOf returns clusters in 5 regions and 3 environments.
func fleetOf(n int) []placement.Cluster {
	out := make([]placement.Cluster, n)
	for i := range out {
		out[i] = placement.Cluster{Name: fmt.Sprintf("member-%05d", i), Labels: map[string]string{
			"region": fmt.Sprint("region-", i%5), "environment": []string{"canary", "staging", "production"}[i%3],
		}}
	}
	return out
}

// deployments returns a Namespace and Deployments in it, n objects in all.
func deployments(n int) []*unstructured.Unstructured {
	out := []*unstructured.Unstructured{object("Namespace", "", shop)}
	for i := range n - 1 {
		d := object("Deployment", shop, fmt.Sprint("web-", i))
		d.SetAPIVersion("apps/v1")
		d.SetLabels(map[string]string{"app": "web"})
		d.Object["spec"] = map[string]any{
			"replicas": int64(3),
			"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
				"name": "web", "image": "registry.example.com/web:v1", "args": []any{"--port=8080"},
				"env": []any{map[string]any{"name": "LEVEL", "value": "info"}},
			}}}},
		}
		out = append(out, d)
	}
	return out
}

// tenRules returns the rules of three overrides: labels for all objects of the namespace, by
// region, and changes of one Deployment each. With named, a rule writes the cluster's name into
// every object, so that no two clusters get the same objects.
func tenRules(named bool) []placement.Override {
	name := "${MEMBER-CLUSTER-LABEL-KEY-region}"
	if named {
		name = "${MEMBER-CLUSTER-NAME}"
	}
	in := func(labels map[string]string, patches ...placement.Patch) placement.Rule {
		return placement.Rule{ClusterSelector: where(labels), Patches: patches}
	}
	image := func(tag string) placement.Patch {
		return patch("replace", "/spec/template/spec/containers/0/image", `"registry.example.com/web:`+tag+`"`)
	}
	deployment := func(name string) []placement.ObjectSelector {
		return []placement.ObjectSelector{{Group: "apps", Version: "v1", Kind: "Deployment", Name: name}}
	}
	return []placement.Override{
		{
			Name: "labels", Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "Namespace", Name: shop}},
			Rules: []placement.Rule{
				rule(patch("add", "/metadata/annotations", `{"example.com/from":"`+name+`"}`)),
				in(map[string]string{"environment": "canary"}, patch("add", "/metadata/annotations/example.com~1canary", `"true"`)),
			},
		},
		{
			Name: "web-1", Namespace: shop, Selectors: deployment("web-1"),
			Rules: []placement.Rule{
				in(map[string]string{"environment": "canary"}, image("v2")),
				in(map[string]string{"environment": "staging"}, image("v1.1")),
				in(map[string]string{"region": "region-1"}, patch("replace", "/spec/replicas", `5`)),
				in(map[string]string{"region": "region-2"}, patch("replace", "/spec/replicas", `7`)),
			},
		},
		{
			Name: "web-2", Namespace: shop, Selectors: deployment("web-2"),
			Rules: []placement.Rule{
				rule(patch("add", "/spec/template/spec/containers/0/args/-", `"--region=${MEMBER-CLUSTER-LABEL-KEY-region}"`)),
				in(map[string]string{"region": "region-3"}, patch("add", "/spec/template/spec/containers/0/env/0", `{"name":"REGION","value":"3"}`)),
				rule(patch("add", "/metadata/annotations/example.com~1cluster", `"${MEMBER-CLUSTER-NAME}"`)),
				{ClusterSelector: where(map[string]string{"region": "region-4"}), Type: placement.Delete},
			},
		},
	}
}

// BenchmarkRender renders 100 objects with 10 rules for 1,000 clusters: with equal objects for
// the clusters of a region except for one object, and with different objects on every cluster.
func BenchmarkRender(b *testing.B) {
	for _, distinct := range []string{"few", "all"} {
		b.Run("clusters=1000,objects=100/distinct="+distinct, func(b *testing.B) {
			objs, overrides, clusters := deployments(100), tenRules(distinct == "all"), fleetOf(1000)
			b.ReportAllocs()
			for b.Loop() {
				r, err := placement.NewRenderer(objs, overrides)
				if err != nil {
					b.Fatal(err)
				}
				for _, c := range clusters {
					if _, err := r.Render(c); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// The memory of rendering grows with the number of distinct objects, not with clusters and
// objects: ten times the clusters of the same regions add one object each, the object with their
// name.
func TestRenderMemoryGrowsWithDistinctObjects(t *testing.T) {
	distinct := func(clusters int) (objects int, bytes int64) {
		objs := deployments(100)
		before := heap()
		r, err := placement.NewRenderer(objs, tenRules(false))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[*unstructured.Unstructured]bool{}
		for _, c := range fleetOf(clusters) {
			got, err := r.Render(c)
			if err != nil {
				t.Fatal(err)
			}
			for _, obj := range got {
				seen[obj] = true
			}
		}
		bytes = heap() - before
		runtime.KeepAlive(r)
		return len(seen), bytes
	}
	few, fewBytes := distinct(30)
	many, manyBytes := distinct(300)
	// 2 outcomes of the environment in 5 regions for each object, of web-1 all
	// 15, and of web-2 one for each cluster that gets it.
	if want := 98*10 + 15; few != want+30*4/5 || many != want+300*4/5 {
		t.Errorf("%d and %d distinct objects, want %d and %d", few, many, want+24, want+240)
	}
	if grown, limit := manyBytes-fewBytes, fewBytes; grown > limit {
		t.Errorf("300 clusters keep %d bytes more than 30, which keep %d", grown, fewBytes)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
