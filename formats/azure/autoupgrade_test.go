package azure_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/formats/azure"
)

func TestAnAutoUpgradeProfileIsReadAsAzureHasIt(t *testing.T) {
	got, err := azure.ReadAutoUpgradeProfile(strings.NewReader(`{
	  "id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/fleets/f/autoUpgradeProfiles/monthly",
	  "type": "Microsoft.ContainerService/fleets/autoUpgradeProfiles", "name": "monthly", "eTag": "\"1\"", "systemData": {"createdBy": "ann"},
	  "properties": {
	    "channel": "TargetKubernetesVersion", "targetKubernetesVersion": "1.30", "longTermSupport": true,
	    "nodeImageSelection": {"type": "Consistent"}, "updateStrategyId": "/x/updateStrategies/careful", "disabled": true,
	    "provisioningState": "Succeeded", "autoUpgradeProfileStatus": {"lastTriggerStatus": "Failed", "lastTriggerUpgradeVersions": ["1.30.2"]}
	  }}`), "profile.json")
	want := azure.AutoUpgradeProfile{Name: "monthly", UpdateStrategyID: "/x/updateStrategies/careful", Disabled: true, Profile: upgrade.Profile{
		Channel: upgrade.TargetKubernetesVersion, KubernetesVersion: "1.30", LongTermSupport: true, NodeImages: upgrade.Consistent,
	}}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v %s", err, cmp.Diff(want, got))
	}
}

func TestInvalidAutoUpgradeProfileReportsAllProblems(t *testing.T) {
	for _, c := range []struct {
		document string
		want     []string
	}{
		{``, []string{"p.json"}},
		{`{}`, []string{"properties"}},
		{`{"name": "Monthly", "properties": {"channel": "Nightly", "chanel": "Stable", "nodeImageSelection": {"type": "Custom"}}}`, []string{
			"name", "properties.channel", "properties.chanel", "properties.nodeImageSelection.type",
		}},
		{`{"properties": {"channel": "Stable", "targetKubernetesVersion": "1.30", "longTermSupport": true}}`, []string{
			"properties.targetKubernetesVersion", "properties.longTermSupport",
		}},
		{`{"properties": {"channel": "SecurityPatch", "nodeImageSelection": {"type": "Latest"}}}`, []string{"properties.nodeImageSelection"}},
	} {
		_, err := azure.ReadAutoUpgradeProfile(strings.NewReader(c.document), "p.json")
		for _, part := range c.want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %s", c.document, err, part)
			}
		}
	}
}
