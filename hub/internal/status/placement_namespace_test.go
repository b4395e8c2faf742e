package status

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
)

// A replica has only information about its namespace: no other names and no other values.
func TestAReplicaReportsItsNamespaceAlone(t *testing.T) {
	secret := "elsewhere"
	in := v1beta1.ResourceIdentifier{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings"}
	namespace := v1beta1.ResourceIdentifier{Version: "v1", Kind: "Namespace", Name: "shop"}
	others := []v1beta1.ResourceIdentifier{
		{Version: "v1", Kind: "Namespace", Name: secret},
		{Version: "v1", Kind: "ConfigMap", Namespace: secret, Name: "shop"},
		{Group: "example.com", Version: "v1", Kind: "Namespace", Name: "shop", Namespace: secret},
		{Group: "example.com", Version: "v1", Kind: secret, Name: "shop"},
	}
	condition := func(kind string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: "False", Reason: "R", Message: secret}
	}
	detail := []v1beta1.PatchDetail{{Path: "/data/a", ValueInHub: &secret, ValueInMember: &secret}}
	s := &v1beta1.PlacementStatus{
		Conditions: []metav1.Condition{condition("ClusterResourcePlacementApplied")}, ObservedResourceIndex: "3", PlacementStatusesTotal: 1,
		SelectedResources: append(others, namespace, in), SelectedResourcesTotal: 6,
		PerClusterPlacementStatuses: []v1beta1.PerClusterPlacementStatus{{
			ClusterName: "a", ObservedResourceIndex: "3", Conditions: []metav1.Condition{condition("Applied")}, ApplicableClusterResourceOverrides: []string{secret},
			ApplicableResourceOverrides: []v1beta1.NamespacedName{{Namespace: "shop", Name: "o"}, {Namespace: secret, Name: "o"}}, DifferencesTotal: 9,
		}},
		Deletion: &v1beta1.PlacementDeletionStatus{Message: secret},
	}
	c := &s.PerClusterPlacementStatuses[0]
	for _, r := range append(others, namespace, in) {
		c.FailedPlacements = append(c.FailedPlacements, v1beta1.FailedResourcePlacement{ResourceIdentifier: r, Condition: condition("Applied")})
		c.DiffedPlacements = append(c.DiffedPlacements, v1beta1.DiffedResourcePlacement{ResourceIdentifier: r, ObservedDiffs: detail})
		c.DriftedPlacements = append(c.DriftedPlacements, v1beta1.DriftedResourcePlacement{ResourceIdentifier: r, ObservedDrifts: detail})
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
	if len(got.SelectedResources) != 2 || got.SelectedResourcesTotal != 2 || got.ObservedResourceIndex != "3" || len(got.Conditions) != 1 || got.PlacementStatusesTotal != 1 {
		t.Errorf("%s", text)
	}
	if c := got.PerClusterPlacementStatuses[0]; len(c.FailedPlacements) != 2 || len(c.DiffedPlacements) != 2 || len(c.DriftedPlacements) != 2 || len(c.ApplicableResourceOverrides) != 1 || c.DifferencesTotal != 4 || c.DiffedPlacements[0].ObservedDiffs[0].Path != "/data/a" {
		t.Errorf("%s", text)
	}
}
