package upgrade_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// shelf is a provider that describes clusters of a map, and begins nothing.
type shelf map[string]upgrade.Cluster

func (s shelf) Describe(_ context.Context, c placement.Cluster) (upgrade.Cluster, error) {
	out, ok := s[c.Name]
	if !ok {
		return out, backend.ErrNotFound
	}
	return out, nil
}

func (s shelf) Begin(context.Context, placement.Cluster, upgrade.Change) error {
	return errors.New("nothing is begun here")
}

// clusters returns the clusters of a shelf and others.
func (s shelf) clusters(more ...string) (out []placement.Cluster) {
	for name := range s {
		out = append(out, placement.Cluster{Name: name})
	}
	for _, name := range more {
		out = append(out, placement.Cluster{Name: name})
	}
	return out
}

// offers returns a cluster of a region with a pool for each family.
func offers(region string, images map[string][]string) upgrade.Cluster {
	c := upgrade.Cluster{Region: region, ControlPlane: "1.30.2", Healthy: true}
	for _, family := range []string{"linux", "windows"} {
		if list, ok := images[family]; ok {
			c.Pools = append(c.Pools, upgrade.Pool{Name: family, Version: "1.30.2", Image: "old", Family: family, Images: list})
		}
	}
	return c
}

func consistent() upgrade.Target {
	return upgrade.Target{Type: upgrade.NodeImageOnly, NodeImages: upgrade.NodeImages{Selection: upgrade.Consistent}}
}

func TestConsistentIsTheNewestImageOfAllRegions(t *testing.T) {
	s := shelf{
		"a": offers("west", map[string][]string{"linux": {"l4", "l3", "l2", "l1"}, "windows": {"w2", "w1"}}),
		"b": offers("east", map[string][]string{"linux": {"l3", "l2", "l1"}}),
		"c": offers("north", map[string][]string{"linux": {"l4", "l2"}, "windows": {"w3", "w2"}}),
		"d": offers("north", nil),
	}
	got, err := upgrade.Resolve(t.Context(), s, s.clusters(), consistent())
	if err != nil {
		t.Fatal(err)
	}
	want := consistent()
	want.NodeImages.Versions = []string{"l2", "w2"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	again, err := upgrade.Resolve(t.Context(), shelf{}, nil, got)
	if d := cmp.Diff(got, again); err != nil || d != "" {
		t.Errorf("what was resolved is resolved again: %v, %s", err, d)
	}
}

func TestOnlyConsistentIsResolvedForARun(t *testing.T) {
	for _, target := range []upgrade.Target{
		{Type: upgrade.Full, KubernetesVersion: "1.30.2"},
		{Type: upgrade.ControlPlaneOnly, KubernetesVersion: "1.30.2"},
		{Type: upgrade.NodeImageOnly, NodeImages: upgrade.NodeImages{Selection: upgrade.Custom, Versions: []string{"x"}}},
	} {
		got, err := upgrade.Resolve(t.Context(), shelf{}, shelf{}.clusters("gone"), target)
		if d := cmp.Diff(target, got); err != nil || d != "" {
			t.Errorf("%v, %s", err, d)
		}
	}
}

func TestUnresolvableConsistentImages(t *testing.T) {
	common := map[string][]string{"linux": {"l1"}}
	for name, tc := range map[string]struct {
		s    shelf
		more []string
		want []string
	}{
		"nothing in common": {
			shelf{"a": offers("west", map[string][]string{"linux": {"l3", "l2"}}), "b": offers("east", map[string][]string{"linux": {"l1"}})},
			nil,
			[]string{`no image of family "linux"`, `region "west" offers l3`, `region "east" offers l1`},
		},
		"nothing at all": {shelf{"a": offers("west", map[string][]string{"linux": nil})}, nil, []string{`region "west" offers none`}},
		"no node pool":   {shelf{"a": offers("west", nil)}, nil, []string{"there is no node pool"}},
		"no cluster":     {shelf{}, nil, []string{"there is no node pool"}},
		"unknown ones":   {shelf{"a": offers("west", common)}, []string{"y", "x"}, []string{"cluster x: permanent error: not found\ncluster y: permanent error: not found"}},
		"several kinds":  {shelf{"a": offers("west", map[string][]string{"linux": nil, "windows": nil})}, nil, []string{`family "linux"`, `family "windows"`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := upgrade.Resolve(t.Context(), tc.s, tc.s.clusters(tc.more...), consistent())
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say %s", err, want)
				}
			}
		})
	}
	if _, err := upgrade.Resolve(t.Context(), shelf{}, nil, upgrade.Target{}); err == nil {
		t.Error("an invalid target was resolved")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s := shelf{"a": offers("west", common)}
	if _, err := upgrade.Resolve(ended, s, s.clusters(), consistent()); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context ended: %v", err)
	}
}

// TestResolveForAsksTheClustersThatStagesPick checks that a cluster which no stage picks does not
// affect the common images.
func TestResolveForAsksTheClustersThatStagesPick(t *testing.T) {
	s := shelf{
		"a": offers("west", map[string][]string{"linux": {"l3", "l2"}}),
		"b": offers("east", map[string][]string{"linux": {"l1"}}),
	}
	all := backend.InventoryFunc(func(context.Context) iter.Seq2[placement.Cluster, error] {
		return func(yield func(placement.Cluster, error) bool) {
			for _, name := range []string{"a", "b"} {
				if !yield(placement.Cluster{Name: name, Labels: map[string]string{"name": name}}, nil) {
					return
				}
			}
		}
	})
	only := &metav1.LabelSelector{MatchLabels: map[string]string{"name": "a"}}
	picks := stages.Strategy{Stages: []stages.Stage{{Name: "one", Selector: only}}, Unassigned: stages.UnassignedExclude}
	got, err := upgrade.ResolveFor(t.Context(), s, all, picks, consistent())
	if err != nil || !slices.Equal(got.NodeImages.Versions, []string{"l3"}) {
		t.Errorf("%+v, %v", got, err)
	}
	broken := errors.New("broken")
	none := backend.InventoryFunc(func(context.Context) iter.Seq2[placement.Cluster, error] {
		return func(yield func(placement.Cluster, error) bool) { yield(placement.Cluster{}, broken) }
	})
	if _, err := upgrade.ResolveFor(t.Context(), s, none, picks, consistent()); !errors.Is(err, broken) {
		t.Errorf("an inventory that cannot be read: %v", err)
	}
	if _, err := upgrade.ResolveFor(t.Context(), s, all, stages.Strategy{}, consistent()); err == nil {
		t.Error("a strategy without stages is no error")
	}
}
