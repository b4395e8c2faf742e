package status

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
)

// region returns a cluster in a region.
func region(name, value string) placement.Cluster {
	return placement.Cluster{Name: name, Labels: map[string]string{"region": value}}
}

// decided returns the decision of a policy that picks n clusters, spread over regions.
func decided(t *testing.T, n int, previous placement.Previous, clusters ...placement.Cluster) (*Selection, placement.Policy) {
	t.Helper()
	p := placement.Policy{Type: placement.PickN, NumberOfClusters: &n, Spread: []placement.SpreadConstraint{{TopologyKey: "region"}}}
	d, verdicts, err := placement.Decide(p, clusters, previous)
	if err != nil {
		t.Fatal(err)
	}
	return &Selection{fleet.Resolution{Selection: d, Evaluations: verdicts, Shortfall: placement.Shortfall(p, verdicts)}, p.Type}, p
}

func TestPolicySnapshotHasTheReasonOfEachCluster(t *testing.T) {
	d, _ := decided(t, 2, placement.Previous{}, region("a", "west"), region("b", "west"), region("c", "east"), placement.Cluster{Name: "d"})
	got, err := PolicySnapshot(&PolicyFacts{
		Placement: "p", Decision: d, Decided: clock(t, "10:00:00"),
		Policy: &v1beta1.PlacementPolicy{PlacementType: v1beta1.PickNPlacementType, NumberOfClusters: new(int32(2))},
	})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, target := range got.Object["status"].(map[string]any)["targetClusters"].([]any) {
		m := target.(map[string]any)
		lines = append(lines, fmt.Sprint(m["clusterName"], " ", m["selected"], " ", m["clusterScore"], " ", m["reason"]))
	}
	want := []string{
		"b true map[affinityScore:0 priorityScore:0] picked by scheduling policy: it comes as number 2 of 2, with a score of 0 for the spread and 0 for affinity",
		"c true map[affinityScore:0 priorityScore:0] picked by scheduling policy: it comes as number 1 of 2, with a score of 0 for the spread and 0 for affinity",
		"a false map[affinityScore:0 priorityScore:0] the policy wants 2, and others come before it",
		"d false map[affinityScore:0 priorityScore:0] it has no label region, over which the policy spreads",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := got.GetAnnotations()["kubernetes-fleet.io/number-of-clusters"]; n != "2" {
		t.Errorf("number of clusters %q, want 2", n)
	}
	if diff := cmp.Diff(map[string]any{"placementType": "PickN"}, got.Object["spec"].(map[string]any)["policy"]); diff != "" {
		t.Errorf("changing the number would change the spec:\n%s", diff)
	}
}

func TestUnfulfilledPolicyNamesReasonsAndClusters(t *testing.T) {
	tainted := region("c", "east")
	tainted.Taints = []placement.Taint{{Key: "gpu", Value: "yes", Effect: placement.NoSchedule}}
	d, p := decided(t, 3, placement.Previous{}, region("a", "west"), tainted, region("d", "south"))
	s := jsonOf(t, Placement(&PlacementFacts{
		Generation: 1, Created: clock(t, "10:00:00"), Placement: &fleet.Placement{Policy: p}, Latest: 0,
		Scheduled: true, Decision: d, Picked: []PlacedCluster{proven(t, "a", 0), proven(t, "d", 0)},
	}))
	first := fmt.Sprint(told(t, s["conditions"])[0])
	if !strings.Contains(first, "ClusterResourcePlacementScheduled=False SchedulingPolicyUnfulfilled: could not find all the clusters needed as specified by the scheduling policy: ") {
		t.Errorf("scheduled: %s", first)
	}
	if got := column(s, "ClusterResourcePlacementAvailable"); got != "True 1" {
		t.Errorf("available: %q: what was picked is served all the same", got)
	}
	statuses := s["placementStatuses"].([]any)
	last := statuses[len(statuses)-1].(map[string]any)
	if len(statuses) != 3 || last["clusterName"] != nil {
		t.Fatalf("%d entries, the last is %v: want one without a name for the third cluster", len(statuses), last)
	}
	wantTold(t, "missing", last["conditions"], "Scheduled=False ScheduleFailed: c is not selected: the policy does not tolerate its taint gpu=yes:NoSchedule")
	picked := fmt.Sprint(told(t, statuses[0].(map[string]any)["conditions"])[0])
	if want := `in "a" (affinity score: 0, topology spread score: 0): picked by scheduling policy: it comes as number 2 of 3`; !strings.Contains(picked, want) {
		t.Errorf("picked: %s, want %s", picked, want)
	}
}

func TestAPolicyThatNamesUnknownClustersListsThem(t *testing.T) {
	p := placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"x", "a", "gone"}}
	picked, verdicts, err := placement.Decide(p, []placement.Cluster{region("a", "west"), region("b", "west")}, placement.Previous{})
	if err != nil {
		t.Fatal(err)
	}
	d := &Selection{fleet.Resolution{Selection: picked, Evaluations: verdicts, Shortfall: placement.Shortfall(p, verdicts)}, p.Type}
	s := jsonOf(t, Placement(&PlacementFacts{
		Generation: 1, Created: clock(t, "10:00:00"), Placement: &fleet.Placement{Policy: p}, Latest: 0,
		Scheduled: true, Decision: d, Picked: []PlacedCluster{proven(t, "a", 0)},
	}))
	if first := fmt.Sprint(told(t, s["conditions"])[0]); !strings.Contains(first, "Scheduled=False SchedulingPolicyUnfulfilled") || !strings.Contains(first, "gone, x, since it is not in the inventory") {
		t.Errorf("scheduled: %s", first)
	}
	statuses := s["placementStatuses"].([]any)
	if len(statuses) != 3 {
		t.Fatalf("%d entries, want one for each name: %v", len(statuses), statuses)
	}
	for i, name := range []string{"gone", "x"} {
		entry := statuses[i+1].(map[string]any)
		if entry["clusterName"] != nil {
			t.Errorf("the entry of %s has the name %v", name, entry["clusterName"])
		}
		wantTold(t, name, entry["conditions"], "Scheduled=False ScheduleFailed: "+name+" is not selected: it is not in the inventory")
	}
}

func TestReasonOfAPickedClusterIsStable(t *testing.T) {
	clusters := []placement.Cluster{region("a", "west"), region("b", "west"), region("c", "east")}
	first, _ := decided(t, 2, placement.Previous{}, clusters...)
	placed := placement.Previous{PolicyDigest: first.PolicyDigest, Clusters: map[string]bool{}}
	for _, name := range first.Clusters {
		placed.Clusters[name] = true
	}
	second, _ := decided(t, 2, placed, clusters...)
	if first.ShownDigest() == second.ShownDigest() {
		t.Fatal("the test shows nothing: both say the same")
	}
	second.Evaluations = Lasting(first.Evaluations, second.Evaluations)
	if first.ShownDigest() != second.ShownDigest() {
		t.Errorf("shown anew although nothing changed: %v and %v", first.Evaluations, second.Evaluations)
	}
	clusters[2].Unhealthy = "no heartbeat"
	third, _ := decided(t, 2, placed, clusters...)
	third.Evaluations = Lasting(second.Evaluations, third.Evaluations)
	if v := third.verdictOf("c"); !strings.Contains(v.Reason, "no heartbeat") {
		t.Errorf("of c it says %q, want that it is not healthy", v.Reason)
	}
	third.Evaluations[0].Score.Affinity++
	if before := third.ShownDigest(); before != third.ShownDigest() || third.Digest != second.Digest {
		t.Error("a score alone makes another decision")
	}
}
