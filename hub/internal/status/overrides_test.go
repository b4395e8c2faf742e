package status

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// forRegion returns an override with a rule for a region and a rule that selects no cluster.
func forRegion(namespace, name, region, shown string) FrozenOverride {
	in := &placement.ClusterSelector{Terms: []placement.ClusterTerm{{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"region": region}}}}}
	return FrozenOverride{placement.Override{
		Namespace: namespace, Name: name,
		Rules: []placement.Rule{{Type: placement.Delete}, {Type: placement.Delete, ClusterSelector: in}},
	}, shown}
}

// A cluster names the versions of the overrides in the snapshot that it was tried with, if they
// have a rule for it. A cluster that is gone or was never tried names no overrides.
func TestAClusterNamesTheOverridesThatApplyToIt(t *testing.T) {
	f := placementOf(t, proven(t, "east", 1), fresh("fresh"), proven(t, "gone", 1), proven(t, "old", 0), proven(t, "west", 1))
	f.Overrides = map[int][]FrozenOverride{
		0: {forRegion("shop", "image", "west", "image-0")},
		1: {forRegion("", "all", "west", "all-3"), forRegion("shop", "image", "west", "image-1"), forRegion("shop", "without", "east", "without-0")},
	}
	f.Members = map[string]placement.Cluster{}
	for name, region := range map[string]string{"east": "east", "fresh": "west", "old": "west", "west": "west"} {
		f.Members[name] = placement.Cluster{Name: name, Labels: map[string]string{"region": region}}
	}
	type names struct {
		Clusterwide []string
		Namespaced  []v1beta1.NamespacedName
	}
	got := map[string]names{}
	for _, c := range Placement(f).PerClusterPlacementStatuses {
		got[c.ClusterName] = names{c.ApplicableClusterResourceOverrides, c.ApplicableResourceOverrides}
	}
	in := func(name string) []v1beta1.NamespacedName {
		return []v1beta1.NamespacedName{{Namespace: "shop", Name: name}}
	}
	want := map[string]names{
		"east": {nil, in("without-0")}, "fresh": {}, "gone": {}, "old": {nil, in("image-0")}, "west": {[]string{"all-3"}, in("image-1")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("overrides (-want +got):\n%s", diff)
	}
}

// A cluster is overridden if a rule in the snapshot that it was tried with selects it, and the
// placement if one cluster is. An object that shows the override is not necessary.
func TestOverriddenConditionNeedsAMatchingRule(t *testing.T) {
	no, yes := "NoOverrideSpecified", "OverriddenSucceeded"
	for name, tc := range map[string]struct {
		overrides            []FrozenOverride
		east, west, together string
	}{
		"none":             {nil, no, no, no},
		"of another":       {[]FrozenOverride{forRegion("shop", "o", "north", "o-0")}, no, no, no},
		"of one":           {[]FrozenOverride{forRegion("shop", "o", "north", "o-0"), forRegion("", "p", "west", "p-0")}, no, yes, yes},
		"not yet shown":    {[]FrozenOverride{forRegion("shop", "o", "west", "")}, no, yes, yes},
		"with a wrong one": {[]FrozenOverride{forRegion("shop", "o", "not a value", "o-0")}, no, no, no},
	} {
		t.Run(name, func(t *testing.T) {
			f := placementOf(t, proven(t, "east", 1), proven(t, "west", 1))
			f.Placement.Overrides = []placement.Override{{Name: "declared"}}
			f.Overrides = map[int][]FrozenOverride{0: {forRegion("", "old", "east", "old-0")}, 1: tc.overrides}
			f.Members = map[string]placement.Cluster{"east": inRegion("east", "east"), "west": inRegion("west", "west")}
			s := Placement(f)
			reason := func(conditions []metav1.Condition, kind string) string {
				for _, c := range conditions {
					if c.Type == kind {
						return string(c.Status) + " " + c.Reason
					}
				}
				return "none"
			}
			got := []string{
				reason(s.PerClusterPlacementStatuses[0].Conditions, "Overridden"), reason(s.PerClusterPlacementStatuses[1].Conditions, "Overridden"),
				reason(s.Conditions, "ClusterResourcePlacementOverridden"),
			}
			if want := []string{"True " + tc.east, "True " + tc.west, "True " + tc.together}; !slices.Equal(got, want) {
				t.Errorf("the conditions are %q, want %q", got, want)
			}
			if name == "not yet shown" && s.PerClusterPlacementStatuses[1].ApplicableResourceOverrides != nil {
				t.Errorf("it names %v", s.PerClusterPlacementStatuses[1].ApplicableResourceOverrides)
			}
		})
	}
}

// If overrides cannot be carried out for a cluster, it says why and is listed first. The placement
// says so if all clusters have started. The other clusters do not get the snapshot either.
func TestAClusterSaysThatOverridesCannotBeCarriedOut(t *testing.T) {
	wrong := func(cluster string, invalid bool) *placement.RenderError {
		return &placement.RenderError{Cluster: cluster, Object: "ConfigMap shop/config", Invalid: invalid, Err: errors.New("override shop/o: overrideRules[0]: no such path")}
	}
	cause := "ConfigMap shop/config: override shop/o: overrideRules[0]: no such path"
	started := "RolloutStarted=True RolloutStarted: Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: 1"
	all := "ClusterResourcePlacementRolloutStarted=True RolloutStarted: All 2 cluster(s) start rolling out the latest resource"
	overridden := "Overridden=True OverriddenSucceeded: The overrides are applied to the resources"
	for name, tc := range map[string]struct {
		failures        []*placement.RenderError
		first, together []string
	}{
		"one of two": {
			[]*placement.RenderError{wrong("west", false)},
			[]string{started, "Overridden=False OverriddenFailed: The overrides cannot be applied: " + cause},
			[]string{"ClusterResourcePlacementRolloutStarted=False RolloutNotStartedYet: The rollout has not come to 1 cluster(s) yet: " +
				"it begins once overrides can be carried out on 1 other(s), please check `placementStatuses`"},
		},
		"both": {
			[]*placement.RenderError{wrong("east", true), wrong("west", false)},
			[]string{started, overridden, "WorkSynchronized=False SyncWorkFailed: What the overrides make of the resources is not valid: " + cause},
			[]string{all, "ClusterResourcePlacementOverridden=False OverriddenFailed: Overrides cannot be carried out on 1 cluster(s), please check `placementStatuses`"},
		},
		"not valid": {
			[]*placement.RenderError{wrong("east", true), wrong("west", true)},
			[]string{started, overridden, "WorkSynchronized=False SyncWorkFailed: What the overrides make of the resources is not valid: " + cause},
			[]string{
				all, "ClusterResourcePlacement" + overridden,
				"ClusterResourcePlacementWorkSynchronized=False WorkNotSynchronizedYet: What overrides make of the resources is not valid on 2 cluster(s), please check `placementStatuses`",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := placementOf(t, proven(t, "east", 0), fresh("west"))
			f.External, f.Taken, f.Unrendered, f.AtATime = false, clock(t, "21:45:00"), tc.failures, 1
			f.Overrides = map[int][]FrozenOverride{1: {forRegion("shop", "o", "west", "o-0")}}
			f.Members = map[string]placement.Cluster{"east": inRegion("east", "east"), "west": inRegion("west", "west")}
			s := jsonOf(t, Placement(f))
			first := s["placementStatuses"].([]any)[0].(map[string]any)
			if want := tc.failures[0].Cluster; first["clusterName"] != want || first["observedResourceIndex"] != "1" {
				t.Fatalf("the first cluster is %v, of snapshot %v, want %s of snapshot 1", first["clusterName"], first["observedResourceIndex"], want)
			}
			if diff := cmp.Diff(tc.first, told(t, first["conditions"])[1:]); diff != "" {
				t.Errorf("conditions of %s (-want +got):\n%s", first["clusterName"], diff)
			}
			if diff := cmp.Diff(tc.together, told(t, s["conditions"])[1:]); diff != "" {
				t.Errorf("conditions of the placement (-want +got):\n%s", diff)
			}
			if got := since(t, s["conditions"], "ClusterResourcePlacementRolloutStarted"); got != "21:45:00" {
				t.Errorf("it is so since %s", got)
			}
		})
	}
}

// If overrides cannot be carried out, all clusters without a snapshot report it. Of the other
// clusters, only as many report it as are updated at a time, and the update waits for them.
func TestOverrideFailuresAreLimitedByConcurrency(t *testing.T) {
	f := placementOf(t, proven(t, "east", 0), fresh("north"), fresh("south"), proven(t, "west", 0))
	f.External, f.Taken, f.AtATime = false, clock(t, "21:45:00"), 1
	for _, c := range f.Picked {
		f.Unrendered = append(f.Unrendered, &placement.RenderError{Cluster: c.Name, Object: "ConfigMap shop/config", Err: errors.New("no such path")})
	}
	s := Placement(f)
	var failed []string
	for _, c := range s.PerClusterPlacementStatuses {
		if last := c.Conditions[len(c.Conditions)-1]; last.Reason == "OverriddenFailed" {
			failed = append(failed, c.ClusterName)
		}
	}
	if diff := cmp.Diff([]string{"east", "north", "south"}, failed); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
	if last := s.Conditions[len(s.Conditions)-1]; last.Type != "ClusterResourcePlacementRolloutStarted" || last.Status != "False" || last.Reason != "RolloutNotStartedYet" {
		t.Errorf("the placement says %v", last)
	}
}

// Snapshots that differ in overrides alone are shown with one index. The clusters of an External
// placement observe the same index even if they have different snapshots with it. A rolling update
// counts a cluster with the earlier of these snapshots as not updated.
func TestSnapshotsThatDifferInOverridesShareAnIndex(t *testing.T) {
	f := placementOf(t, proven(t, "east", 0), proven(t, "west", 1))
	f.Latest, f.Snapshots = 2, []snapshot.Snapshot{{Index: 0}, {Index: 1, Repeats: 1}, {Index: 2, Repeats: 1}}
	s := jsonOf(t, Placement(f))
	last := s["conditions"].([]any)[len(s["conditions"].([]any))-1].(map[string]any)
	if s["observedResourceIndex"] != "0" || last["type"] != "ClusterResourcePlacementAvailable" || last["status"] != "True" {
		t.Errorf("of index %v: %v", s["observedResourceIndex"], last)
	}
	for _, c := range s["placementStatuses"].([]any) {
		if c := c.(map[string]any); c["observedResourceIndex"] != "0" {
			t.Errorf("%v observes %v", c["clusterName"], c["observedResourceIndex"])
		}
	}
	f.External, f.Latest = false, 1
	s = jsonOf(t, Placement(f))
	if want := "RolloutNotStartedYet"; s["observedResourceIndex"] != "0" || !strings.Contains(fmt.Sprint(told(t, s["conditions"])), want) {
		t.Errorf("of index %v: %v", s["observedResourceIndex"], told(t, s["conditions"]))
	}
	for index, want := range map[int]int{-1: -1, 0: 0, 1: 0, 2: 1, 7: 7} {
		if got := ShownIndex(f.Snapshots, index); got != want {
			t.Errorf("snapshot %d is shown as %d, want %d", index, got, want)
		}
	}
}

func inRegion(name, region string) placement.Cluster {
	return placement.Cluster{Name: name, Labels: map[string]string{"region": region}}
}

// A cluster of a run names the versions of the overrides in its snapshot, not in other snapshots.
// A cluster that is cleaned or gone names no overrides. Names beyond the limit are omitted.
func TestAClusterOfARunNamesTheOverridesOfItsSnapshot(t *testing.T) {
	r := newRig(t, "21:28:08", stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}, false,
		inRegion("east", "east"), inRegion("gone", "west"), placement.Cluster{Name: "left", Labels: map[string]string{"gone": "yes"}}, inRegion("west", "west"))
	r.facts.Overrides = map[int][]FrozenOverride{
		0: {forRegion("", "all", "west", "all-2")},
		1: {forRegion("", "all", "west", "all-3"), forRegion("shop", "image", "west", "image-1"), forRegion("shop", "without", "east", "without-0")},
	}
	r.facts.Members = map[string]placement.Cluster{"east": inRegion("east", "east"), "left": inRegion("left", "west"), "west": inRegion("west", "west")}
	names := func(s *v1beta1.UpdateRunStatus) map[string]string {
		out := map[string]string{}
		for _, st := range append(s.StagesStatus, *s.DeletionStageStatus) {
			for _, c := range st.Clusters {
				out[c.ClusterName] = fmt.Sprint(c.ClusterResourceOverrideSnapshots, c.ResourceOverrideSnapshots)
			}
		}
		return out
	}
	want := map[string]string{"east": "[] [{without-0 shop}]", "gone": "[] []", "left": "[] []", "west": "[all-3] [{image-1 shop}]"}
	if diff := cmp.Diff(want, names(Run(&r.facts))); diff != "" {
		t.Errorf("overrides (-want +got):\n%s", diff)
	}
	long := strings.Repeat("x", shownOverrides/2)
	r.facts.Overrides[1] = []FrozenOverride{forRegion("", "a", "west", long), forRegion("", "b", "west", long), forRegion("", "c", "west", "c")}
	if got := len(names(Run(&r.facts))["west"]); got > shownOverrides+20 {
		t.Errorf("the names take %d bytes", got)
	}
}
