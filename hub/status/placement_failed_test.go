package status

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// A cluster whose update has not come to its end names the objects that keep it, each with a condition; one that
// has what was brought to it names none, whatever failed before.
func TestAClusterNamesTheObjectsThatFail(t *testing.T) {
	app := snapshot.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "app"}
	cm := snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "cm"}
	failing := []fleet.FailingObject{
		{ID: cm, Reason: fleet.NotApplied, Message: "denied"},
		{ID: app, Reason: fleet.NotHealthy, Generation: 3, Message: "0/1"},
		{ID: cm, Reason: fleet.HeldDrifted, Message: "drifted"},
		{ID: cm, Reason: fleet.HeldForeign, Message: "there before"},
	}
	f := placementOf(
		t,
		PlacedCluster{Name: "failed", Index: 0, Tried: 1, State: stages.Failed, Failing: failing, Since: clock(t, "21:30:00")},
		PlacedCluster{Name: "flying", Index: 0, Tried: 1, State: stages.Running, Applied: true, Failing: failing[1:2]},
		proven(t, "well", 1), fresh("new"))
	f.Picked[2].Failing, f.Picked[3].Failing = failing, failing
	got := map[string][]string{}
	for _, c := range Placement(f).Clusters {
		for _, o := range c.Failed {
			got[c.Name] = append(got[c.Name], fmt.Sprintf("%s/%s/%s %s/%s: %s=%s %s (%d): %s",
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
		"flying": {"apps/v1/Deployment shop/app: Available=False ManifestNotAvailableYet (3): 0/1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if at := Placement(f).Clusters[0].Failed[0].Condition.LastTransitionTime; !at.Time.Equal(clock(t, "21:30:00")) {
		t.Errorf("the first fails since %v", at)
	}
}

// The objects that fail on many clusters take no more room than there is for them.
func TestObjectsThatFailAreBounded(t *testing.T) {
	f := bigPlacement(t, 5_000)
	told := 0
	for _, c := range Placement(f).Clusters {
		if len(c.Failed) > 100 {
			t.Errorf("%s names %d objects", c.Name, len(c.Failed))
		}
		told += len(c.Failed)
	}
	if told < 10 || told*700 > 2*shownFailures {
		t.Errorf("%d objects are named", told)
	}
}
