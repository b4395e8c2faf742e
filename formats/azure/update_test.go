package azure_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/stages"
)

func TestAnUpdateIsReadAndWrittenAgain(t *testing.T) {
	for text, want := range map[string]upgrade.Target{
		`{"upgrade": {"type": "Full", "kubernetesVersion": "1.26.0"}, "nodeImageSelection": {"type": "Latest"}}`: {
			Type: upgrade.Full, KubernetesVersion: "1.26.0", NodeImages: upgrade.NodeImages{Selection: upgrade.Latest},
		},
		`{"upgrade": {"type": "Full", "kubernetesVersion": "1.26.0"}}`:             {Type: upgrade.Full, KubernetesVersion: "1.26.0"},
		`{"upgrade": {"type": "ControlPlaneOnly", "kubernetesVersion": "1.26.0"}}`: {Type: upgrade.ControlPlaneOnly, KubernetesVersion: "1.26.0"},
		`{"upgrade": {"type": "NodeImageOnly"}, "nodeImageSelection": {"type": "Consistent"}}`: {
			Type: upgrade.NodeImageOnly, NodeImages: upgrade.NodeImages{Selection: upgrade.Consistent},
		},
		`{"upgrade": {"type": "NodeImageOnly"}, "nodeImageSelection": {"type": "Custom", "customNodeImageVersions": [{"version": "a-1"}, {"version": "b-1"}]}}`: {
			Type: upgrade.NodeImageOnly, NodeImages: upgrade.NodeImages{Selection: upgrade.Custom, Versions: []string{"a-1", "b-1"}},
		},
	} {
		got, err := azure.ReadUpdate(strings.NewReader(text), "f")
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
		written, err := formOf(azure.UpdateForm(got))
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if err := errors.Join(json.Unmarshal([]byte(text), &a), json.Unmarshal(written, &b)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("(-read +written):\n%s", diff)
		}
	}
}

func TestProblemsOfAnUpdateAreReportedAtOnce(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                    "f:1: upgrade: is required",
		`{"upgrade": {"type": "Half"}, "x": 1}`: "f:1: upgrade.type: must be Full or ControlPlaneOnly or NodeImageOnly, not \"Half\"\nf:1: x: unknown field; known are nodeImageSelection, upgrade",
		`{"upgrade": {"type": "Full"}}`:         "f:1: upgrade.kubernetesVersion: Required value",
		`{"upgrade": {"type": "NodeImageOnly", "kubernetesVersion": "1.26.0"}}`:                                                               "f:1: upgrade.kubernetesVersion: Forbidden",
		"{\"upgrade\": {\"type\": \"Full\",\n\"kubernetesVersion\": \"1.26\"}}":                                                               "f:2: upgrade.kubernetesVersion: Invalid value",
		`{"upgrade": {"type": "NodeImageOnly"}, "nodeImageSelection": {"type": "Custom"}}`:                                                    "f:1: nodeImageSelection.customNodeImageVersions: Required value",
		`{"upgrade": {"type": "NodeImageOnly"}, "nodeImageSelection": {"type": "Newest"}}`:                                                    "f:1: nodeImageSelection.type: must be Latest or Consistent or Custom",
		`{"upgrade": {"type": "NodeImageOnly"}, "nodeImageSelection": {"type": "Consistent", "customNodeImageVersions": [{"version": "a"}]}}`: "f:1: nodeImageSelection.customNodeImageVersions: goes with type Custom only",
		`{"upgrade": {"type": "ControlPlaneOnly", "kubernetesVersion": "1.26.0"}, "nodeImageSelection": {"type": "Latest"}}`:                  "f:1: nodeImageSelection: Forbidden",
		`{`: "f:1: is not JSON: it ends too early",
	} {
		_, err := azure.ReadUpdate(strings.NewReader(text), "f")
		if err == nil {
			t.Errorf("%s: no error", text)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		wanted := strings.Split(want, "\n")
		for i, l := range lines {
			if i >= len(wanted) || !strings.HasPrefix(l, wanted[i]) {
				t.Errorf("%s: problem %s\nwant %s", text, l, want)
			}
		}
		if len(lines) < len(wanted) {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
}

func TestATargetThatIsWrongIsNotWritten(t *testing.T) {
	if _, err := azure.UpdateForm(upgrade.Target{Type: upgrade.Full}); err == nil || !strings.Contains(err.Error(), "kubernetesVersion") {
		t.Errorf("error = %v", err)
	}
}

func TestTheTargetsOfASkipAreCommands(t *testing.T) {
	for target, want := range map[string]stages.Command{
		"Member:m1":             {Verb: stages.Skip, Scope: stages.SkipCluster, Name: "m1"},
		"Group:my-group-name":   {Verb: stages.Skip, Scope: stages.SkipGroup, Name: "my-group-name"},
		"Stage:my-stage-name":   {Verb: stages.Skip, Scope: stages.SkipStage, Name: "my-stage-name"},
		"AfterStageWait:stage1": {Verb: stages.Skip, Scope: stages.SkipAfterWait, Name: "stage1"},
	} {
		got, err := azure.SkipOf(target)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", target, err, diff)
		}
	}
	for _, target := range []string{"", "Group", "Group:", "group:a", "Cluster:a", ":a"} {
		if c, err := azure.SkipOf(target); err == nil {
			t.Errorf("%q is taken for %+v", target, c)
		}
	}
}
