package manifests_test

import (
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/manifests"
)

// TestTheSameDefinitionsDependOnEachSetting: the definitions with the label of the setting have the
// same names in every setting, so that a check of the setting can read those names once.
func TestTheSameDefinitionsDependOnEachSetting(t *testing.T) {
	dependent := func(setting compat.Setting) (names []string) {
		t.Helper()
		all, err := manifests.CRDs(setting)
		if err != nil {
			t.Fatal(err)
		}
		for _, crd := range all {
			switch label := crd.GetLabels()[compat.Label]; label {
			case "":
			case string(setting):
				names = append(names, crd.GetName())
			default:
				t.Errorf("%s of %s has the label %s", crd.GetName(), setting, label)
			}
		}
		return names
	}
	want := dependent(compat.Default)
	if len(want) == 0 {
		t.Error("no definition depends on the setting")
	}
	for _, setting := range compat.Settings() {
		if got := dependent(setting); !slices.Equal(got, want) {
			t.Errorf("%s: the definitions %q depend on it, want %q", setting, got, want)
		}
	}
}

// TestTheCallerMayChangeTheDefinitions: a changed definition is not in the next answer.
func TestTheCallerMayChangeTheDefinitions(t *testing.T) {
	for range 2 {
		all, err := manifests.CRDs(compat.Default)
		if err != nil {
			t.Fatal(err)
		}
		for _, crd := range all {
			if crd.Object["spec"] == nil {
				t.Fatalf("%s has no spec", crd.GetName())
			}
			delete(crd.Object, "spec")
		}
	}
}
