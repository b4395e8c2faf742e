package compat_test

import (
	"os"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/hub/compat"
)

func TestASettingIsReadByItsName(t *testing.T) {
	for name, want := range map[string]compat.Setting{"": compat.July2025, "2025-07": compat.July2025, "v0.18": compat.KubeFleet018} {
		if got, err := compat.Parse(name); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", name, got, err, want)
		}
	}
	if _, err := compat.Parse("0.18"); err == nil || err.Error() != `compatibility "0.18" is not known: use 2025-07 or v0.18` {
		t.Errorf("0.18: %v", err)
	}
}

// A zero setting behaves as the default, which is the tutorial's.
func TestTheBehaviourOfTheSettings(t *testing.T) {
	tutorial := compat.Behaviour{State: v1beta1.StateRun, SnapshotsOfChanges: true, Requests: approval.NamedByStage, RefusedForGood: true, TasksBySide: true}
	for setting, want := range map[compat.Setting]compat.Behaviour{
		"": tutorial, compat.July2025: tutorial,
		compat.KubeFleet018: {State: v1beta1.StateInitialize, Requests: approval.NamedBySide},
	} {
		if got := setting.Behaviour(); got != want {
			t.Errorf("%q: %+v, want %+v", setting, got, want)
		}
	}
}

// The table for users has a column for each setting.
func TestTheTableNamesTheSettings(t *testing.T) {
	text, err := os.ReadFile("../../docs/hub.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "| | `" + string(compat.July2025) + "`, the default | `" + string(compat.KubeFleet018) + "` |"; !strings.Contains(string(text), want) {
		t.Errorf("docs/hub.md has no table with the head %q", want)
	}
}
