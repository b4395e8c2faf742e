package placement_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/placement"
)

// A rule selects the clusters that a term names, in addition to the clusters of other terms.
func TestARuleForNamedClusters(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c", "namespace": "shop"},
	}}
	o := placement.Override{
		Name: "o", Namespace: "shop", Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "ConfigMap", Name: "c"}},
		Rules: []placement.Rule{{Type: placement.Delete, ClusterSelector: &placement.ClusterSelector{Terms: []placement.ClusterTerm{
			{ClusterNames: []string{"m1"}}, {LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}},
		}}}},
	}
	for _, tt := range []struct {
		cluster placement.Cluster
		want    int
	}{
		{placement.Cluster{Name: "m1"}, 0},
		{placement.Cluster{Name: "m2", Labels: map[string]string{"env": "prod"}}, 0},
		{placement.Cluster{Name: "m3"}, 1},
	} {
		got, err := placement.Render([]*unstructured.Unstructured{object}, []placement.Override{o}, tt.cluster)
		if err != nil || len(got) != tt.want {
			t.Errorf("%s gets %d objects, want %d; %v", tt.cluster.Name, len(got), tt.want, err)
		}
	}
}

func TestATermNamesClustersOrSelectsThem(t *testing.T) {
	o := placement.Override{
		Name: "o", Namespace: "shop", Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "ConfigMap", Name: "c"}},
		Rules: []placement.Rule{{Type: placement.Delete, ClusterSelector: &placement.ClusterSelector{Terms: []placement.ClusterTerm{
			{ClusterNames: []string{"m1", "M2", "m1"}, LabelSelector: &metav1.LabelSelector{}},
		}}}},
	}
	err := o.Validate()
	if err == nil {
		t.Fatal("it is valid")
	}
	for _, want := range []string{"clusterNames[1]", "clusterNames[2]: Duplicate", "clusterNames: Forbidden"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
