package status

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/formats/kubefleet"
)

// A replica tells of what is in the namespace, and of nothing else: neither its names nor its values.
func TestAReplicaTellsOfItsNamespaceAlone(t *testing.T) {
	secret := "elsewhere"
	in := kubefleet.ObjectReference{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings"}
	namespace := kubefleet.ObjectReference{Version: "v1", Kind: "Namespace", Name: "shop"}
	others := []kubefleet.ObjectReference{
		{Version: "v1", Kind: "Namespace", Name: secret},
		{Version: "v1", Kind: "ConfigMap", Namespace: secret, Name: "shop"},
		{Group: "example.com", Version: "v1", Kind: "Namespace", Name: "shop", Namespace: secret},
		{Group: "example.com", Version: "v1", Kind: secret, Name: "shop"},
	}
	condition := func(kind string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: "False", Reason: "R", Message: secret}
	}
	detail := []kubefleet.PatchDetail{{Path: "/data/a", ValueInHub: &secret, ValueInMember: &secret}}
	s := &PlacementStatus{
		Conditions: []metav1.Condition{condition("ClusterResourcePlacementApplied")}, ObservedIndex: "3", ClustersTotal: 1,
		Resources: append(others, namespace, in), ResourcesTotal: 6,
		Clusters: []placedStatus{{
			Name: "a", ObservedIndex: "3", Conditions: []metav1.Condition{condition("Applied")}, ClusterOverrides: []string{secret},
			Overrides: []v1beta1.NamespacedName{{Namespace: "shop", Name: "o"}, {Namespace: secret, Name: "o"}}, DifferencesTotal: 9,
		}},
		Deletion: &DeletionStatus{Message: secret},
	}
	c := &s.Clusters[0]
	for _, r := range append(others, namespace, in) {
		c.Failed = append(c.Failed, failedPlacement{ObjectReference: r, Condition: condition("Applied")})
		c.Diffed = append(c.Diffed, kubefleet.DiffedPlacement{ObjectReference: r, ObservedDiffs: detail})
		c.Drifted = append(c.Drifted, kubefleet.DriftedPlacement{ObjectReference: r, ObservedDrifts: detail})
	}
	before := jsonOf(t, s)
	got := NamespaceReplica(s, "shop")
	text, err := json.Marshal(got)
	if err != nil || strings.Contains(string(text), secret) {
		t.Errorf("%s, %v", text, err)
	}
	if d := cmp.Diff(before, jsonOf(t, s)); d != "" {
		t.Errorf("the status itself was changed (-want +got):\n%s", d)
	}
	if len(got.Resources) != 2 || got.ResourcesTotal != 2 || got.ObservedIndex != "3" || len(got.Conditions) != 1 || got.ClustersTotal != 1 {
		t.Errorf("%s", text)
	}
	if c := got.Clusters[0]; len(c.Failed) != 2 || len(c.Diffed) != 2 || len(c.Drifted) != 2 || len(c.Overrides) != 1 || c.DifferencesTotal != 4 || c.Diffed[0].ObservedDiffs[0].Path != "/data/a" {
		t.Errorf("%s", text)
	}
}
