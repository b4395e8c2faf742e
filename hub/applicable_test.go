package hub

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
)

// forRegion is an override with a rule for a region, and one that picks no cluster.
func forRegion(namespace, name, region, shown string) frozenOverride {
	in := &placement.ClusterSelector{Terms: []placement.ClusterTerm{{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"region": region}}}}}
	return frozenOverride{placement.Override{
		Namespace: namespace, Name: name,
		Rules: []placement.Rule{{Type: placement.Delete}, {Type: placement.Delete, ClusterSelector: in}},
	}, shown}
}

// A cluster names the versions of the overrides that are in the snapshot which it
// was tried with, and that have a rule for it; one that is gone, or that nothing
// was brought to, names none.
func TestAClusterNamesTheOverridesThatApplyToIt(t *testing.T) {
	f := placementOf(t, proven(t, "east", 1), fresh("fresh"), proven(t, "gone", 1), proven(t, "old", 0), proven(t, "west", 1))
	f.Overrides = map[int][]frozenOverride{
		0: {forRegion("shop", "image", "west", "image-0")},
		1: {forRegion("", "all", "west", "all-3"), forRegion("shop", "image", "west", "image-1"), forRegion("shop", "without", "east", "without-0")},
	}
	f.Members = map[string]placement.Cluster{}
	for name, region := range map[string]string{"east": "east", "fresh": "west", "old": "west", "west": "west"} {
		f.Members[name] = placement.Cluster{Name: name, Labels: map[string]string{"region": region}}
	}
	type names struct {
		Clusterwide []string
		Namespaced  []kubefleet.NamespacedName
	}
	got := map[string]names{}
	for _, c := range projectPlacement(f).Clusters {
		got[c.Name] = names{c.ClusterOverrides, c.Overrides}
	}
	in := func(name string) []kubefleet.NamespacedName {
		return []kubefleet.NamespacedName{{Namespace: "shop", Name: name}}
	}
	want := map[string]names{
		"east": {nil, in("without-0")}, "fresh": {}, "gone": {}, "old": {nil, in("image-0")}, "west": {[]string{"all-3"}, in("image-1")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("overrides (-want +got):\n%s", diff)
	}
}
