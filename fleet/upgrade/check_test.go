package upgrade_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/upgrade"
)

// pooled returns a cluster with a control plane of one version and node pools of others.
func pooled(controlPlane string, pools ...string) upgrade.Cluster {
	c := upgrade.Cluster{Region: "west", ControlPlane: controlPlane, Healthy: true}
	for i, v := range pools {
		c.Pools = append(c.Pools, upgrade.Pool{Name: string(rune('p' + i)), Version: v, Image: "i1", Images: []string{"i3", "i2", "i1"}})
	}
	return c
}

func TestAnUpgradeThatIsNotAllowedIsRefused(t *testing.T) {
	full := func(v string) upgrade.Target { return upgrade.Target{Type: upgrade.Full, KubernetesVersion: v} }
	plane := func(v string) upgrade.Target {
		return upgrade.Target{Type: upgrade.ControlPlaneOnly, KubernetesVersion: v}
	}
	custom := func(images ...string) upgrade.Target {
		return upgrade.Target{Type: upgrade.NodeImageOnly, NodeImages: upgrade.NodeImages{Selection: upgrade.Custom, Versions: images}}
	}
	offered := func(c upgrade.Cluster, versions ...string) upgrade.Cluster {
		c.Versions = append([]string{}, versions...)
		return c
	}
	for name, tc := range map[string]struct {
		cluster upgrade.Cluster
		target  upgrade.Target
		want    []string // texts of the problems, in order
	}{
		"a minor version up":               {pooled("1.29.4", "1.29.4"), full("1.30.2"), nil},
		"a patch up":                       {pooled("1.30.1", "1.30.1"), full("v1.30.2"), nil},
		"there":                            {pooled("v1.30.2", "1.30.2"), full("1.30.2"), nil},
		"a minor version is skipped":       {pooled("1.28.9", "1.28.9"), full("1.30.2"), []string{"control plane: it has 1.28.9 and would skip", "node pool p: it has 1.28.9 and would skip"}},
		"a minor version down":             {pooled("1.31.0", "1.31.0"), full("1.30.2"), []string{"control plane: it has 1.31.0 and would go down", "node pool p: it has 1.31.0 and would go down"}},
		"a patch down":                     {pooled("1.30.3", "1.30.1"), full("1.30.2"), []string{"control plane: it has 1.30.3 and would go down"}},
		"back to a release candidate":      {pooled("1.30.0"), plane("1.30.0-rc.1"), []string{"would go down"}},
		"a major version":                  {pooled("1.30.0"), plane("2.30.0"), []string{"another major version"}},
		"one pool skips":                   {pooled("1.29.4", "1.29.4", "1.28.0"), full("1.30.2"), []string{"node pool q: it has 1.28.0 and would skip minor versions on the way to 1.30.2: go to 1.29 first"}},
		"one pool is ahead":                {pooled("1.30.2", "1.30.9", "1.30.2"), full("1.30.2"), []string{"node pool p: it has 1.30.9 and would go down"}},
		"nodes stay two behind":            {pooled("1.30.4", "1.29.4"), plane("1.31.0"), nil},
		"nodes stay three behind":          {pooled("1.30.4", "1.28.4"), plane("1.31.0"), nil},
		"nodes stay four behind":           {pooled("1.30.4", "1.27.4"), plane("1.31.0"), []string{"node pool p: it has 1.27.4, more than 3 minor versions less"}},
		"nodes newer than a control plane": {pooled("1.29.4", "1.30.4"), plane("1.30.2"), []string{"node pool p: it has 1.30.4 and would be newer than its control plane"}},
		"no version":                       {pooled("", "x"), full("1.30.2"), []string{`control plane: its version ""`, `node pool p: its version "x"`}},
		"not offered":                      {offered(pooled("1.29.4"), "1.30.1"), full("1.30.2"), []string{`version 1.30.2 is not offered to it in region "west", only 1.30.1`}},
		"nothing is offered":               {offered(pooled("1.29.4")), full("1.30.2"), []string{"version 1.30.2 is not offered"}},
		"not offered, and there":           {offered(pooled("1.30.2"), "1.30.1"), full("1.30.2"), nil},
		"not offered, nodes are behind":    {offered(pooled("1.30.2", "1.30.1"), "1.30.1"), full("1.30.2"), []string{"not offered"}},
		"the nodes are not concerned":      {offered(pooled("1.30.2", "1.30.1"), "1.30.1"), plane("1.30.2"), nil},
		"offered":                          {offered(pooled("1.29.4"), "v1.30.2"), full("1.30.2"), nil},
		"an image":                         {pooled("1.29.4", "1.29.4"), custom("i2"), nil},
		"an image of several":              {pooled("1.29.4", "1.29.4"), custom("w2", "i2"), nil},
		"an image that is not offered":     {pooled("1.29.4", "1.29.4"), custom("w2"), []string{`node pool p: it is offered none of the images w2 in region "west", and has "i1"`}},
		"the image that it has":            {pooled("1.29.4", "1.29.4"), custom("i1"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := upgrade.Check(map[string]upgrade.Cluster{"c": tc.cluster}, tc.target)
			if len(tc.want) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			refused, ok := errors.AsType[*upgrade.RefusedError](err)
			if !ok || !errors.Is(err, backend.ErrPermanent) || len(refused.Problems) != len(tc.want) {
				t.Fatalf("%v, want %d problems", err, len(tc.want))
			}
			for i, p := range refused.Problems {
				if !strings.HasPrefix(p.String(), "cluster c: ") || !strings.Contains(p.String(), tc.want[i]) {
					t.Errorf("problem %d is %q, want %q", i, p, tc.want[i])
				}
			}
		})
	}
}

func TestAnImageDoesNotGoBack(t *testing.T) {
	c := pooled("1.29.4", "1.29.4")
	c.Pools[0].Image = "i3"
	images := upgrade.NodeImages{Selection: upgrade.Custom, Versions: []string{"i2"}}
	err := upgrade.Check(map[string]upgrade.Cluster{"c": c}, upgrade.Target{Type: upgrade.NodeImageOnly, NodeImages: images})
	if err == nil || !strings.Contains(err.Error(), "it would go back from image i3 to i2") {
		t.Errorf("Custom: %v", err)
	}
	images.Selection = upgrade.Consistent
	if err := upgrade.Check(map[string]upgrade.Cluster{"c": c}, upgrade.Target{Type: upgrade.NodeImageOnly, NodeImages: images}); err != nil {
		t.Errorf("Consistent leaves a newer image: %v", err)
	}
}

func TestAllClustersAndProblemsAreInOneError(t *testing.T) {
	err := upgrade.Check(map[string]upgrade.Cluster{
		"c": pooled("1.28.0", "1.28.0", "1.27.0"), "a": pooled("1.31.0"), "b": pooled("1.29.0"),
	}, upgrade.Target{Type: upgrade.Full, KubernetesVersion: "1.30.2"})
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	want := []string{"cluster a: control plane", "cluster c: control plane", "cluster c: node pool p", "cluster c: node pool q"}
	if len(lines) != len(want) {
		t.Fatalf("%q", lines)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("line %d is %q, want %q", i, line, want[i])
		}
	}
}

func TestATargetIsCheckedBeforeItsClusters(t *testing.T) {
	if err := upgrade.Check(nil, upgrade.Target{Type: upgrade.Full}); err == nil {
		t.Error("a target without its version was checked")
	}
}
