package upgrade_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/snapshot"
)

func TestATargetNamesAllItsProblems(t *testing.T) {
	images := func(s upgrade.Selection, versions ...string) upgrade.NodeImages {
		return upgrade.NodeImages{Selection: s, Versions: versions}
	}
	for name, tc := range map[string]struct {
		target upgrade.Target
		want   []string
	}{
		"full":                      {upgrade.Target{Type: upgrade.Full, KubernetesVersion: "1.30.2"}, nil},
		"full with a v":             {upgrade.Target{Type: upgrade.Full, KubernetesVersion: "v1.30.2+k3s1", NodeImages: images(upgrade.Latest)}, nil},
		"consistent":                {upgrade.Target{Type: upgrade.Full, KubernetesVersion: "1.30.2", NodeImages: images(upgrade.Consistent)}, nil},
		"consistent, resolved":      {upgrade.Target{Type: upgrade.NodeImageOnly, NodeImages: images(upgrade.Consistent, "a")}, nil},
		"custom":                    {upgrade.Target{Type: upgrade.NodeImageOnly, NodeImages: images(upgrade.Custom, "a", "b")}, nil},
		"control plane":             {upgrade.Target{Type: upgrade.ControlPlaneOnly, KubernetesVersion: "1.30.2"}, nil},
		"nothing":                   {upgrade.Target{}, []string{"type: Unsupported"}},
		"full without version":      {upgrade.Target{Type: upgrade.Full}, []string{"kubernetesVersion: Required"}},
		"control plane without":     {upgrade.Target{Type: upgrade.ControlPlaneOnly}, []string{"kubernetesVersion: Required"}},
		"a minor version":           {upgrade.Target{Type: upgrade.Full, KubernetesVersion: "1.30"}, []string{"kubernetesVersion: Invalid"}},
		"no version":                {upgrade.Target{Type: upgrade.Full, KubernetesVersion: "latest"}, []string{"kubernetesVersion: Invalid"}},
		"images with a version":     {upgrade.Target{Type: upgrade.NodeImageOnly, KubernetesVersion: "1.30.2"}, []string{"kubernetesVersion: Forbidden"}},
		"control plane with images": {upgrade.Target{Type: upgrade.ControlPlaneOnly, KubernetesVersion: "1.30.2", NodeImages: images(upgrade.Latest)}, []string{"nodeImageSelection: Forbidden"}},
		"unknown selection":         {upgrade.Target{Type: upgrade.NodeImageOnly, NodeImages: images("Newest")}, []string{"nodeImageSelection.type: Unsupported"}},
		"latest with a list":        {upgrade.Target{Type: upgrade.NodeImageOnly, NodeImages: images("", "a")}, []string{"nodeImageSelection.versions: Forbidden"}},
		"custom without a list":     {upgrade.Target{Type: upgrade.NodeImageOnly, NodeImages: images(upgrade.Custom)}, []string{"nodeImageSelection.versions: Required"}},
		"a bad list": {
			upgrade.Target{Type: upgrade.Full, NodeImages: images(upgrade.Custom, "a", "", "a", strings.Repeat("x", 254))},
			[]string{"kubernetesVersion: Required", "versions[1]: Required", "versions[2]: Duplicate", "versions[3]: Too long"},
		},
		"clusters without a name": {
			upgrade.Target{Type: upgrade.ControlPlaneOnly, KubernetesVersion: "1.30.2", Unavailable: []string{"a", "", "a"}},
			[]string{"unavailable[1]: Required", "unavailable[2]: Duplicate"},
		},
		"a long list": {
			upgrade.Target{Type: upgrade.NodeImageOnly, NodeImages: images(upgrade.Custom, strings.Split(strings.Repeat("x,", 64), ",")...)},
			[]string{"nodeImageSelection.versions: Too many"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			errs := tc.target.Validate(field.NewPath("spec"))
			if len(errs) != len(tc.want) {
				t.Fatalf("%d problems, want %d: %v", len(errs), len(tc.want), errs)
			}
			for i, err := range errs {
				if !strings.Contains(err.Error(), tc.want[i]) || !strings.HasPrefix(err.Field, "spec.") {
					t.Errorf("problem %d is %v, want %s", i, err, tc.want[i])
				}
			}
		})
	}
}

func TestATargetIsReadBackFromItsSnapshot(t *testing.T) {
	for _, target := range []upgrade.Target{
		{Type: upgrade.Full, KubernetesVersion: "1.30.2"},
		{Type: upgrade.ControlPlaneOnly, KubernetesVersion: "v1.30.2"},
		{Type: upgrade.NodeImageOnly, NodeImages: upgrade.NodeImages{Selection: upgrade.Consistent, Versions: []string{"a", "b"}}},
		{Type: upgrade.Full, KubernetesVersion: "1.30.2", Unavailable: []string{"c1", "c2"}},
	} {
		set, err := snapshot.Capture(t.Context(), upgrade.Source("prod", target), []snapshot.Selector{upgrade.Selector("prod")})
		if err != nil {
			t.Fatal(err)
		}
		got, err := upgrade.TargetOf(set)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(target, got); d != "" {
			t.Errorf("the target read back (-want +got):\n%s", d)
		}
	}
}

func TestASourceHasItsTargetOnly(t *testing.T) {
	src := upgrade.Source("prod", upgrade.Target{Type: upgrade.Full, KubernetesVersion: "1.30.2"})
	for name, tc := range map[string]struct {
		selector snapshot.Selector
		want     int
	}{
		"it":            {upgrade.Selector("prod"), 1},
		"another name":  {upgrade.Selector("test"), 0},
		"another kind":  {snapshot.Selector{Version: "v1", Kind: "Namespace", Name: "prod"}, 0},
		"another group": {snapshot.Selector{Group: "apps", Version: "v1", Kind: "ClusterUpgrade", Name: "prod"}, 0},
	} {
		set, err := snapshot.Capture(t.Context(), src, []snapshot.Selector{tc.selector})
		if err != nil || len(set.Items) != tc.want {
			t.Errorf("%s: %d objects and %v, want %d", name, len(set.Items), err, tc.want)
		}
	}
}

func TestATargetThatIsNotReadyIsNotRolledOut(t *testing.T) {
	for name, target := range map[string]upgrade.Target{
		"invalid":      {Type: upgrade.Full},
		"not resolved": {Type: upgrade.NodeImageOnly, NodeImages: upgrade.NodeImages{Selection: upgrade.Consistent}},
	} {
		_, err := snapshot.Capture(t.Context(), upgrade.Source("prod", target), []snapshot.Selector{upgrade.Selector("prod")})
		if err == nil || !strings.Contains(err.Error(), "upgrade target: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInvalidTargetsAreRefused(t *testing.T) {
	object := func(kind string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "slipway.dev/v1", "kind": kind, "metadata": map[string]any{"name": "prod"}, "spec": spec,
		}}
	}
	full := map[string]any{"type": "Full", "kubernetesVersion": "1.30.2"}
	for name, objs := range map[string][]*unstructured.Unstructured{
		"nothing":          {},
		"another kind":     {object("Upgrade", full)},
		"two":              {object("ClusterUpgrade", full), object("Upgrade", full)},
		"an unknown field": {object("ClusterUpgrade", map[string]any{"type": "NodeImageOnly", "drain": "never"})},
		"an invalid one":   {object("ClusterUpgrade", map[string]any{"type": "Full"})},
		"no spec":          {object("ClusterUpgrade", nil)},
	} {
		set, err := snapshot.NewSet(objs)
		if err != nil {
			t.Fatal(err)
		}
		if target, err := upgrade.TargetOf(set); err == nil {
			t.Errorf("%s: %+v", name, target)
		}
	}
}
