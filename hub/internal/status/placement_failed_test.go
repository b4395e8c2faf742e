package status

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// A cluster whose update has not completed names the failing objects, each with a condition. A
// cluster that has its snapshot names none, whatever failed before.
func TestAClusterNamesTheObjectsThatFail(t *testing.T) {
	app := snapshot.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "app"}
	cm := snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "cm"}
	failing := []apply.FailingObject{
		{ID: cm, Reason: apply.NotApplied, Message: "denied"},
		{ID: app, Reason: apply.NotHealthy, Generation: 3, Message: "0/1"},
		{ID: cm, Reason: apply.HeldDrifted, Message: "drifted"},
		{ID: cm, Reason: apply.HeldForeign, Message: "there before"},
	}
	f := placementOf(
		t,
		PlacedCluster{Name: "failed", Index: 0, Tried: 1, State: stages.Failed, Failing: failing, Since: clock(t, "21:30:00")},
		PlacedCluster{Name: "flying", Index: 0, Tried: 1, State: stages.Running, Applied: true, Failing: failing[1:2]},
		proven(t, "well", 1), fresh("new"))
	f.Picked[2].Failing, f.Picked[3].Failing = failing, failing
	f.Drift = map[string]*drift.ClusterReport{"flying": {Cluster: "flying", State: drift.Compared, Objects: []drift.ObjectReport{{
		Reason: drift.FoundDrifts, Report: drift.Report{Group: app.Group, Version: app.Version, Kind: app.Kind, Namespace: app.Namespace, Name: app.Name, Generation: 5},
	}}}}
	got := map[string][]string{}
	for _, c := range Placement(f).PerClusterPlacementStatuses {
		for _, o := range c.FailedPlacements {
			got[c.ClusterName] = append(got[c.ClusterName], fmt.Sprintf("%s/%s/%s %s/%s: %s=%s %s (%d): %s",
				o.Group, o.Version, o.Kind, o.Namespace, o.Name, o.Condition.Type, o.Condition.Status, o.Condition.Reason, o.Condition.ObservedGeneration, o.Condition.Message))
		}
	}
	want := map[string][]string{
		"failed": {
			"/v1/ConfigMap shop/cm: Applied=False ManifestApplyFailed (0): denied",
			"apps/v1/Deployment shop/app: Available=False ManifestNotAvailableYet (3): 0/1",
			"/v1/ConfigMap shop/cm: Applied=False FoundDrifts (0): drifted",
			"/v1/ConfigMap shop/cm: Applied=False FailedToTakeOver (0): there before",
		},
		"flying": {"apps/v1/Deployment shop/app: Available=False ManifestNotAvailableYet (5): 0/1"}, // the drift is newer than the failure
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if at := Placement(f).PerClusterPlacementStatuses[0].FailedPlacements[0].Condition.LastTransitionTime; !at.Time.Equal(clock(t, "21:30:00")) {
		t.Errorf("the first fails since %v", at)
	}
}

// An object from an envelope is selected by the envelope, and names the envelope if it fails or
// differs, even if it has no name, which KubeFleet has a reason for. If no cluster is picked, the
// selected objects are the ones of the latest snapshot.
func TestAPlacementNamesTheEnvelopesOfItsObjects(t *testing.T) {
	id := func(group, kind, name string) snapshot.ID {
		return snapshot.ID{Group: group, Version: "v1", Kind: kind, Namespace: "shop", Name: name}
	}
	hard, soft := id("placement.kubernetes-fleet.io", "ResourceEnvelope", "hard"), id("placement.kubernetes-fleet.io", "ResourceEnvelope", "soft")
	quota, plain, unnamed := id("", "ResourceQuota", "q"), id("", "ConfigMap", "cm"), id("", "ConfigMap", "")
	f := placementOf(t, PlacedCluster{Name: "m", Index: 0, Tried: 1, State: stages.Pending, Failing: []apply.FailingObject{
		{ID: quota, Reason: apply.NotApplied, Message: "denied"},
		{ID: plain, Reason: apply.NotApplied, Message: "denied"},
		{ID: unnamed, Reason: apply.NotApplied, Message: "no name", Envelope: &soft},
		{ID: plain, Reason: "Duplicated", Message: "again", Envelope: &soft},
		{ID: quota, Reason: "WrongScope", Message: "elsewhere", Envelope: &soft},
	}})
	f.Snapshots = []snapshot.Snapshot{{Index: 0}, {Index: 1, Origins: "digest", Envelopes: 2, Unplaced: []snapshot.Unplaced{{ID: unnamed, Envelope: soft}}}}
	f.Resources = func(int) []snapshot.Item { return []snapshot.Item{{ID: quota, Envelope: &hard}, {ID: plain}} }
	drifted := func(o snapshot.ID, reason drift.Reason) drift.ObjectReport {
		return drift.ObjectReport{Reason: reason, Report: drift.Report{Version: o.Version, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}}
	}
	f.Drift = map[string]*drift.ClusterReport{"m": {Cluster: "m", State: drift.Compared, Objects: []drift.ObjectReport{
		drifted(quota, drift.FoundDrifts), drifted(quota, drift.FailedToTakeOver), drifted(plain, drift.FoundDrifts),
	}}}
	wantOf := func(list any, want ...string) {
		t.Helper()
		var got []string
		for _, o := range list.([]any) {
			m := o.(map[string]any)
			line := fmt.Sprint(m["kind"], " ", m["name"])
			if m["version"] != "v1" {
				line += fmt.Sprint(" of ", m["version"])
			}
			if e, ok := m["envelope"].(map[string]any); ok {
				line += fmt.Sprintf(" in %v %v/%v", e["type"], e["namespace"], e["name"])
			}
			if c, ok := m["condition"].(map[string]any); ok {
				line += fmt.Sprint(": ", c["reason"])
			}
			got = append(got, line)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	s := jsonOf(t, Placement(f))
	m := s["placementStatuses"].([]any)[0].(map[string]any)
	wantOf(m["failedPlacements"], "ResourceQuota q in ResourceEnvelope shop/hard: ManifestApplyFailed", "ConfigMap cm: ManifestApplyFailed",
		"ConfigMap  in ResourceEnvelope shop/soft: FoundGenerateName", "ConfigMap cm in ResourceEnvelope shop/soft: Duplicated",
		"ResourceQuota q in ResourceEnvelope shop/soft: WrongScope")
	wantOf(m["driftedPlacements"], "ResourceQuota q in ResourceEnvelope shop/hard", "ConfigMap cm")
	wantOf(m["diffedPlacements"], "ResourceQuota q in ResourceEnvelope shop/hard")
	if told := column(s, "ClusterResourcePlacementApplied"); told != "False 1" {
		t.Errorf("Applied is %s", told)
	}
	wantOf(s["selectedResources"], "ConfigMap cm", "ResourceEnvelope hard of v1beta1", "ResourceEnvelope soft of v1beta1")
	f.Picked = nil
	if s = jsonOf(t, Placement(f)); s["observedResourceIndex"] != "1" || s["selectedResourcesTotal"] != 3.0 {
		t.Errorf("without clusters: index %v, %v resources", s["observedResourceIndex"], s["selectedResourcesTotal"])
	}
	wantOf(s["selectedResources"], "ConfigMap cm", "ResourceEnvelope hard of v1beta1", "ResourceEnvelope soft of v1beta1")
}

// Failing objects on many clusters stay within the limit.
func TestObjectsThatFailAreBounded(t *testing.T) {
	f := bigPlacement(t, 5_000)
	told := 0
	for _, c := range Placement(f).PerClusterPlacementStatuses {
		if len(c.FailedPlacements) > 100 {
			t.Errorf("%s names %d objects", c.ClusterName, len(c.FailedPlacements))
		}
		told += len(c.FailedPlacements)
	}
	if told < 10 || told*700 > 2*shownFailures {
		t.Errorf("%d objects are named", told)
	}
}
