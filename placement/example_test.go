package placement_test

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/placement"
)

func ExampleResolve() {
	clusters := []placement.Cluster{
		{Name: "member3", Labels: map[string]string{"environment": "canary"}},
		{Name: "member2", Labels: map[string]string{"environment": "staging"}},
		{Name: "member1", Labels: map[string]string{"environment": "canary"}},
	}
	canaries := placement.Policy{Required: []placement.Term{{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"environment": "canary"}}}}}
	selection, err := placement.Resolve(canaries, clusters)
	fmt.Println(selection.Clusters, err)

	named := placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"member1", "member9", "member8"}}
	selection, err = placement.Resolve(named, clusters) // the others are picked once they are there
	fmt.Println(selection.Clusters, err)
	// Output:
	// [member1 member3] <nil>
	// [member1] <nil>
}

func ExampleDecide() {
	clusters := []placement.Cluster{
		{Name: "a", Labels: map[string]string{"region": "north"}, Properties: map[string]resource.Quantity{"nodes": resource.MustParse("3")}},
		{Name: "b", Labels: map[string]string{"region": "north"}, Properties: map[string]resource.Quantity{"nodes": resource.MustParse("9")}},
		{Name: "c", Labels: map[string]string{"region": "south"}, Properties: map[string]resource.Quantity{"nodes": resource.MustParse("5")}},
		{Name: "d", Labels: map[string]string{"region": "south"}, Taints: []placement.Taint{{Key: "maintenance", Effect: placement.NoSchedule}}},
	}
	policy := placement.Policy{
		Type: placement.PickN, NumberOfClusters: new(2),
		Preferred: []placement.Preference{{Weight: 100, Sorter: &placement.PropertySorter{Name: "nodes", Order: placement.Descending}}},
		Spread:    []placement.SpreadConstraint{{TopologyKey: "region"}},
	}
	selection, verdicts, err := placement.Decide(policy, clusters, placement.Previous{})
	fmt.Println(selection.Clusters, err)
	for _, v := range verdicts {
		fmt.Println(v.Cluster, v.Picked, v.Reason)
	}
	// Output:
	// [b c] <nil>
	// a false the policy wants 2, and others come before it
	// b true it comes as number 1 of 2, with a score of 0 for the spread and 100 for affinity
	// c true it comes as number 2 of 2, with a score of 0 for the spread and 33 for affinity
	// d false the policy does not tolerate its taint maintenance:NoSchedule
}

func ExampleRender() {
	cm := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": "shop", "name": "settings"},
		"data":     map[string]any{"region": "none"},
	}}
	override := placement.Override{
		Name: "region", Namespace: "shop",
		Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "ConfigMap", Name: "settings"}},
		Rules: []placement.Rule{{
			ClusterSelector: &placement.ClusterSelector{}, // every cluster
			Patches: []placement.Patch{{
				Op: placement.OpReplace, Path: "/data/region",
				Value: json.RawMessage(`"${MEMBER-CLUSTER-LABEL-KEY-region}"`),
			}},
		}},
	}
	objs, overrides := []*unstructured.Unstructured{cm}, []placement.Override{override}
	for _, c := range []placement.Cluster{{Name: "a", Labels: map[string]string{"region": "north"}}, {Name: "b"}} {
		out, err := placement.Render(objs, overrides, c)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(out[0].Object["data"])
	}
	// Output:
	// map[region:north]
	// cluster b: ConfigMap shop/settings: override shop/region: overrideRules[0]: jsonPatchOverrides[0]: replace /data/region: the cluster has no label "region", which the value asks for
}
