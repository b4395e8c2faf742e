package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// placementOf returns the facts of the tutorial's placement with clusters.
func placementOf(t testing.TB, clusters ...PlacedCluster) *PlacementFacts {
	return &PlacementFacts{
		Generation: 1, Created: clock(t, "21:20:00"), External: true, Placement: &fleet.Placement{Name: "example-placement"},
		Scheduled: true, Decided: clock(t, "21:20:01"), Picked: clusters, Latest: 1,
		Resources: func(index int) []snapshot.Item {
			return []snapshot.Item{{ID: snapshot.ID{Version: "v1", Kind: "Namespace", Name: fmt.Sprint("n", index)}}}
		},
	}
}

// fresh returns a cluster that was never tried.
func fresh(name string) PlacedCluster { return PlacedCluster{Name: name, Index: -1, Tried: -1} }

// proven returns a cluster that was proven to have a snapshot.
func proven(t testing.TB, name string, index int) PlacedCluster {
	return PlacedCluster{Name: name, Index: index, Tried: index, Since: clock(t, "21:30:00"), Run: "example-run"}
}

// column returns kubectl's columns for a condition: its status and generation.
func column(status map[string]any, kind string) string {
	list, _ := status["conditions"].([]any)
	for _, c := range list {
		if m := c.(map[string]any); m["type"] == kind {
			return fmt.Sprintf("%v %v", m["status"], m["observedGeneration"])
		}
	}
	return ""
}

func columns(t *testing.T, f *PlacementFacts) [2]string {
	s := jsonOf(t, Placement(f))
	return [2]string{column(s, "ClusterResourcePlacementScheduled"), column(s, "ClusterResourcePlacementAvailable")}
}

func TestExternalPlacementIsAvailableAfterAFullRun(t *testing.T) {
	f := placementOf(t, fresh("member1"), fresh("member2"), fresh("member3"))
	if got := columns(t, f); got != [2]string{"True 1", ""} {
		t.Errorf("before any run: %q", got)
	}
	s := jsonOf(t, Placement(f))
	wantTold(t, "before any run", s["conditions"],
		"ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 3 cluster(s)",
		"ClusterResourcePlacementRolloutStarted=Unknown RolloutControlledByExternalController: Rollout is controlled by staged update runs, and none has come to a cluster yet")
	if s["observedResourceIndex"] != nil || s["selectedResources"] != nil {
		t.Errorf("a snapshot is observed: %v %v", s["observedResourceIndex"], s["selectedResources"])
	}
	f.Picked[1] = proven(t, "member2", 1)
	wantTold(t, "in a run", jsonOf(t, Placement(f))["conditions"],
		"ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 3 cluster(s)",
		"ClusterResourcePlacementRolloutStarted=Unknown RolloutControlledByExternalController: Rollout is controlled by staged update runs, and not all clusters observe the same snapshot")
	if got := columns(t, f); got != [2]string{"True 1", ""} {
		t.Errorf("in a run: %q", got)
	}
	f.Picked[0], f.Picked[2] = proven(t, "member1", 0), proven(t, "member3", 1)
	if got := columns(t, f); got != [2]string{"True 1", ""} {
		t.Errorf("with two snapshots: %q", got)
	}
	if index := Placement(f).ObservedResourceIndex; index != "" {
		t.Errorf("with two snapshots, %s is observed", index)
	}
	f.Picked[0] = proven(t, "member1", 1)
	if got := columns(t, f); got != [2]string{"True 1", "True 1"} {
		t.Errorf("after the run: %q", got)
	}
	s = jsonOf(t, Placement(f))
	wantTold(t, "after the run", s["conditions"],
		"ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 3 cluster(s)",
		"ClusterResourcePlacementRolloutStarted=True RolloutStarted: All 3 cluster(s) start rolling out the latest resource",
		"ClusterResourcePlacementOverridden=True NoOverrideSpecified: No override rules are configured for the selected resources",
		"ClusterResourcePlacementWorkSynchronized=True WorkSynchronized: The resources of 3 cluster(s) are ready to be applied",
		"ClusterResourcePlacementApplied=True ApplySucceeded: The selected resources are successfully applied to 3 cluster(s)",
		"ClusterResourcePlacementAvailable=True ResourceAvailable: The selected resources in 3 cluster(s) are available now")
	want := []any{map[string]any{"version": "v1", "kind": "Namespace", "name": "n1"}}
	if diff := cmp.Diff(want, s["selectedResources"]); diff != "" || s["observedResourceIndex"] != "1" || s["selectedResourcesTotal"] != 1.0 {
		t.Errorf("index %v, resources %s", s["observedResourceIndex"], diff)
	}
}

func TestTheNamespacedPlacementHasItsOwnConditionTypes(t *testing.T) {
	f := placementOf(t, proven(t, "member1", 1))
	f.Namespace = "web"
	for _, line := range told(t, jsonOf(t, Placement(f))["conditions"]) {
		if !strings.HasPrefix(line, "ResourcePlacement") {
			t.Error(line)
		}
	}
}

// placedTold returns the conditions of the one cluster of a placement.
func placedTold(t *testing.T, f *PlacementFacts) []string {
	t.Helper()
	c := jsonOf(t, Placement(f))["placementStatuses"].([]any)[0].(map[string]any)
	return told(t, c["conditions"])
}

func TestClusterConditionsOfAPlacement(t *testing.T) {
	scheduled := `Scheduled=True Scheduled: Successfully scheduled resources for placement in "m": picked by scheduling policy`
	upTo := []string{
		scheduled,
		"RolloutStarted=True RolloutStarted: Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: 1, updateRun: example-run",
		"Overridden=True NoOverrideSpecified: No override rules are configured for the selected resources",
		"WorkSynchronized=True AllWorkSynced: All of the resources are ready to be applied",
	}
	flight := PlacedCluster{Name: "m", Index: 0, Tried: 1, Run: "example-run", State: stages.Running}
	with := func(change func(*PlacedCluster)) PlacedCluster {
		c := flight
		change(&c)
		return c
	}
	applied := "Applied=True AllWorkHaveBeenApplied: All resources have been applied"
	for name, tc := range map[string]struct {
		cluster PlacedCluster
		want    []string
		overall string
	}{
		"new": {fresh("m"), []string{
			scheduled, "RolloutStarted=Unknown RolloutStartedUnknown: No staged update run has come to the cluster yet",
		}, "ClusterResourcePlacementRolloutStarted=Unknown RolloutControlledByExternalController"},
		"applying": {flight, append(upTo[:4:4], "Applied=False ApplyInProgress: Resources are being applied"), "ClusterResourcePlacementApplied=Unknown ApplyPending"},
		"retrying": {with(func(c *PlacedCluster) { c.Message = "forbidden" }), append(upTo[:4:4], "Applied=False NotAllWorkHaveBeenApplied: forbidden"), "ClusterResourcePlacementApplied=Unknown ApplyPending"},
		"away": {
			with(func(c *PlacedCluster) { c.State, c.Message = stages.Pending, "connection refused" }),
			append(upTo[:4:4], "Applied=False NotAllWorkHaveBeenApplied: connection refused"), "ClusterResourcePlacementApplied=Unknown ApplyPending",
		},
		"settling": {
			with(func(c *PlacedCluster) { c.Applied, c.Message = true, "1 of 3" }),
			append(upTo[:4:4], applied, "Available=False NotAllWorkAreAvailable: 1 of 3"), "ClusterResourcePlacementAvailable=False ResourceNotAvailableYet",
		},
		"failed": {
			with(func(c *PlacedCluster) { c.State, c.Message = stages.Failed, "no such kind" }),
			append(upTo[:4:4], "Applied=False NotAllWorkHaveBeenApplied: no such kind"), "ClusterResourcePlacementApplied=False ApplyFailed",
		},
		"failed unhealthy": {
			with(func(c *PlacedCluster) { c.State, c.Applied, c.Message = stages.Failed, true, "not done within 1m" }),
			append(upTo[:4:4], applied, "Available=False NotAllWorkAreAvailable: not done within 1m"), "ClusterResourcePlacementApplied=False ApplyFailed",
		},
		"left behind": {
			with(func(c *PlacedCluster) { c.State = "" }),
			append(upTo[:4:4], "Applied=False NotAllWorkHaveBeenApplied: The update to snapshot 1 did not complete; the cluster was last proven to have snapshot 0"), "ClusterResourcePlacementApplied=False ApplyFailed",
		},
		"come to again": {
			with(func(c *PlacedCluster) { c.Index = 1 }),
			append(upTo[:4:4], applied, "Available=True AllWorkAreAvailable: All resources are available"), "ClusterResourcePlacementAvailable=True ResourceAvailable",
		},
		"come to again, applied": {
			with(func(c *PlacedCluster) { c.Index, c.Applied = 1, true }),
			append(upTo[:4:4], applied, "Available=True AllWorkAreAvailable: All resources are available"), "ClusterResourcePlacementAvailable=True ResourceAvailable",
		},
		"come to again, unhealthy": {
			with(func(c *PlacedCluster) { c.Index, c.Applied, c.Message = 1, true, "1 of 3" }),
			append(upTo[:4:4], applied, "Available=False NotAllWorkAreAvailable: 1 of 3"), "ClusterResourcePlacementAvailable=False ResourceNotAvailableYet",
		},
		"come to again, away": {
			with(func(c *PlacedCluster) { c.Index, c.State, c.Message = 1, stages.Pending, "connection refused" }),
			append(upTo[:4:4], "Applied=False NotAllWorkHaveBeenApplied: connection refused"), "ClusterResourcePlacementApplied=Unknown ApplyPending",
		},
		"available": {proven(t, "m", 1), append(upTo[:4:4], applied, "Available=True AllWorkAreAvailable: All resources are available"), "ClusterResourcePlacementAvailable=True ResourceAvailable"},
	} {
		t.Run(name, func(t *testing.T) {
			f := placementOf(t, tc.cluster)
			if diff := cmp.Diff(tc.want, placedTold(t, f)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			all := told(t, jsonOf(t, Placement(f))["conditions"])
			if last := all[len(all)-1]; !strings.HasPrefix(last, tc.overall+": ") {
				t.Errorf("overall: %s", last)
			}
		})
	}
}

// A policy that names no cluster has nothing to schedule. KubeFleet shows this as incomplete
// scheduling.
func TestAPolicyThatNamesNoClusterIsNotScheduled(t *testing.T) {
	f := placementOf(t)
	f.Scheduled, f.Placement = true, &fleet.Placement{Policy: placement.Policy{Type: placement.PickFixed}}
	if got := told(t, jsonOf(t, Placement(f))["conditions"])[0]; !strings.HasPrefix(got, "ClusterResourcePlacementScheduled=Unknown SchedulePending: ") {
		t.Error(got)
	}
}

func TestARollingPlacementObservesTheLatestSnapshot(t *testing.T) {
	f := placementOf(t, proven(t, "a", 0), proven(t, "b", 1))
	f.External = false
	s := jsonOf(t, Placement(f))
	if s["observedResourceIndex"] != "1" {
		t.Errorf("index %v", s["observedResourceIndex"])
	}
	if got := told(t, s["conditions"])[1]; got != "ClusterResourcePlacementRolloutStarted=False RolloutNotStartedYet: The rollout has not come to 1 cluster(s) yet" {
		t.Error(got)
	}
	f.Picked = []PlacedCluster{fresh("a")}
	if got := placedTold(t, f)[1]; got != "RolloutStarted=False RolloutNotStartedYet: The rollout has not come to the cluster yet" {
		t.Error(got)
	}
}

func TestScheduledConditionHasTheErrors(t *testing.T) {
	f := placementOf(t)
	f.Scheduled = false
	for _, tc := range []struct {
		selected, scheduled error
		want                string
	}{
		{errors.New("a"), errors.New("b"), "False InvalidResourceSelectors: a"},
		{nil, errors.New("b"), "False SchedulingPolicyUnfulfilled: b"},
		{nil, nil, "Unknown SchedulePending: Scheduling has not completed"},
	} {
		f.Unselected, f.Unscheduled = tc.selected, tc.scheduled
		wantTold(t, tc.want, jsonOf(t, Placement(f))["conditions"], "ClusterResourcePlacementScheduled="+tc.want)
	}
}

// drifted returns a cluster with an object that differs.
func drifted(t testing.TB, name string, reason drift.Reason) *drift.ClusterReport {
	return &drift.ClusterReport{
		Placement: "example-placement", Cluster: name, State: drift.Compared, Observed: clock(t, "22:00:00"), Total: 1,
		Objects: []drift.ObjectReport{{
			Report: drift.Report{
				Version: "v1", Kind: "Namespace", Name: "web",
				Differences: []drift.Difference{{Path: "/metadata/labels/owner", Class: drift.Changed, Hub: json.RawMessage(`"simon"`), Member: json.RawMessage(`"chen"`)}},
			},
			Reason: reason, Observed: clock(t, "22:00:00"), FirstObserved: clock(t, "21:50:00"),
		}},
	}
}

// As in KubeFleet, the rollout state of a cluster is unknown while the policy is newer than the
// last run that reached the cluster. Until the next run, the status does not list its differences.
func TestAClusterWaitsForARunOnceThePolicyWasChanged(t *testing.T) {
	f := placementOf(t, proven(t, "a", 1), proven(t, "b", 1))
	f.Picked[1].Unreached = true
	f.Drift = map[string]*drift.ClusterReport{"a": drifted(t, "a", drift.FoundDrifts), "b": drifted(t, "b", drift.FoundDrifts)}
	s := jsonOf(t, Placement(f))
	wantTold(t, "the placement", s["conditions"],
		"ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 2 cluster(s)",
		"ClusterResourcePlacementRolloutStarted=Unknown RolloutControlledByExternalController: Rollout is controlled by staged update runs, and none has come to 1 cluster(s) since the policy was changed")
	if s["observedResourceIndex"] != "1" {
		t.Errorf("observed is %v", s["observedResourceIndex"])
	}
	for _, c := range s["placementStatuses"].([]any) {
		c := c.(map[string]any)
		name, lines, differs := c["clusterName"], told(t, c["conditions"]), c["driftedPlacements"] != nil
		last := lines[len(lines)-1]
		switch {
		case c["observedResourceIndex"] != "1":
			t.Errorf("%s observes %v", name, c["observedResourceIndex"])
		case name == "a" && (!differs || !strings.HasPrefix(last, "Available=True")),
			name == "b" && (differs || last != "RolloutStarted=Unknown RolloutStartedUnknown: No staged update run has come to the cluster since the policy was changed"):
			t.Errorf("%s: %s, differences are told: %t", name, last, differs)
		}
	}
}

// The status lists only differences on clusters that a run has reached.
func TestDifferencesAreHiddenBeforeARun(t *testing.T) {
	f := placementOf(t, fresh("m"))
	f.Placement.ApplyStrategy.Type = apply.ReportDiff
	f.Drift = map[string]*drift.ClusterReport{"m": drifted(t, "m", drift.FoundDiff)}
	if c := Placement(f).PerClusterPlacementStatuses[0]; len(c.DiffedPlacements) > 0 || c.DifferencesTotal > 0 || c.ObservedResourceIndex != "" {
		t.Errorf("%+v", c)
	}
}

func TestClusterStatusHasDifferences(t *testing.T) {
	f := placementOf(t, proven(t, "member-1", 1), proven(t, "member-2", 1))
	f.Placement.ApplyStrategy.Type = apply.ReportDiff
	f.Drift = map[string]*drift.ClusterReport{"member-2": drifted(t, "member-2", drift.FoundDiff)}
	s := jsonOf(t, Placement(f))
	first := s["placementStatuses"].([]any)[0].(map[string]any)
	delete(first, "conditions")
	want := map[string]any{"clusterName": "member-2", "observedResourceIndex": "1", "differencesTotal": 1.0, "diffedPlacements": []any{map[string]any{
		"firstDiffedObservedTime": "2025-07-22T21:50:00Z", "kind": "Namespace", "name": "web", "observationTime": "2025-07-22T22:00:00Z",
		"observedDiffs":                   []any{map[string]any{"path": "/metadata/labels/owner", "valueInHub": "simon", "valueInMember": "chen"}},
		"targetClusterObservedGeneration": 0.0, "version": "v1",
	}}}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	all := told(t, s["conditions"])
	if got := all[len(all)-1]; got != "ClusterResourcePlacementDiffReported=True DiffReportingCompleted: Diff reporting in 2 cluster(s) has been completed" {
		t.Error(got)
	}
}

func TestAnObjectThatIsHeldBackMakesItsClusterNotApplied(t *testing.T) {
	f := placementOf(t, proven(t, "m", 1))
	f.Placement.ApplyStrategy.WhenToApply = apply.IfNotDrifted
	f.Drift = map[string]*drift.ClusterReport{"m": drifted(t, "m", drift.FoundDrifts)}
	lines := placedTold(t, f)
	if got := lines[len(lines)-1]; got != "Applied=False NotAllWorkHaveBeenApplied: 1 objects have drifted or differ" {
		t.Error(got)
	}
	held := jsonOf(t, Placement(f))["placementStatuses"].([]any)[0].(map[string]any)
	if at := since(t, held["conditions"], "Applied"); at != "21:50:00" {
		t.Errorf("not applied since %s", at)
	}
	failed(t, f, "Namespace web Applied=False FoundDrifts since 21:50:00: it has drifted and is left alone, because whenToApply is IfNotDrifted: "+
		"put it back, change it at the hub, or apply Always: /metadata/labels/owner (Changed)")
	f.Placement.ApplyStrategy.WhenToApply = apply.Always
	lines = placedTold(t, f)
	if got := lines[len(lines)-1]; got != "Available=True AllWorkAreAvailable: All resources are available" {
		t.Error(got)
	}
	failed(t, f)
	f.Drift["m"] = drifted(t, "m", drift.NotTakenOver)
	failed(t, f, "Namespace web Applied=False NotTakenOver since 21:50:00: it was there before and is not taken over, because whenToTakeOver is Never: "+
		"delete it, or let it be taken over: /metadata/labels/owner (Changed)")
	f.Drift["m"] = drifted(t, "m", drift.FailedToTakeOver)
	failed(t, f, "Namespace web Applied=False FailedToTakeOver since 21:50:00: it was there before and differs, and whenToTakeOver is IfNoDiff: "+
		"make them equal, or take it over Always: /metadata/labels/owner (Changed)")
	if got := columns(t, f); got[1] != "" {
		t.Errorf("available is %q although an object is not applied", got[1])
	}
}

// failed checks the failedPlacements of the first cluster.
func failed(t *testing.T, f *PlacementFacts, want ...string) {
	t.Helper()
	var got []string
	for _, o := range Placement(f).PerClusterPlacementStatuses[0].FailedPlacements {
		c := &o.Condition
		got = append(got, fmt.Sprintf("%s %s %s=%s %s since %s: %s", o.Kind, o.Name, c.Type, c.Status, c.Reason, c.LastTransitionTime.UTC().Format(time.TimeOnly), c.Message))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestClustersInTroubleAreListedFirstAndCappedWithTheTotal(t *testing.T) {
	f := placementOf(t,
		proven(t, "a", 1), fresh("b"), proven(t, "c", 1),
		PlacedCluster{Name: "d", Index: 0, Tried: 1, State: stages.Running},
		PlacedCluster{Name: "e", Index: 0, Tried: 1, State: stages.Pending},
		PlacedCluster{Name: "f", Index: 0, Tried: 1, State: stages.Failed},
		PlacedCluster{Name: "g", Index: 0, Tried: 1, State: stages.Running, Applied: true},
		PlacedCluster{Name: "h", Index: 0, Tried: 1, State: stages.Running, Applied: true, Message: "1 of 3"},
		proven(t, "i", 1))
	f.Drift = map[string]*drift.ClusterReport{"c": drifted(t, "c", drift.FoundDrifts), "i": drifted(t, "i", drift.NotTakenOver)}
	names := func() (out string) {
		for _, c := range Placement(f).PerClusterPlacementStatuses {
			out += c.ClusterName
		}
		return out
	}
	if got := names(); got != "fiehcdgba" {
		t.Errorf("listed %s", got)
	}
	f.Listed = 4
	if got, total := names(), Placement(f).PlacementStatusesTotal; got != "fieh" || total != 9 {
		t.Errorf("listed %s of %d", got, total)
	}
}

func TestADeletionIsReportedInTheStatus(t *testing.T) {
	f := placementOf(t)
	f.Deletion = &v1beta1.PlacementDeletionStatus{Message: "cleaning", Remaining: 1, Clusters: []v1beta1.ClusterDeletionStatus{{ClusterName: "m", Message: "away"}}}
	want := map[string]any{"message": "cleaning", "remaining": 1.0, "clusters": []any{map[string]any{"clusterName": "m", "message": "away"}}}
	if diff := cmp.Diff(want, jsonOf(t, Placement(f))["deletion"]); diff != "" {
		t.Error(diff)
	}
}

// bigPlacement returns a placement with clusters in every state.
func bigPlacement(t testing.TB, n int) *PlacementFacts {
	f := placementOf(t)
	f.Drift = map[string]*drift.ClusterReport{}
	for i := range n {
		c := proven(t, fmt.Sprintf("member-%06d", i), 1)
		switch i % 10 {
		case 1:
			c.State, c.Message = stages.Failed, strings.Repeat("\x00<", 128)
			c.Failing = manyFail()
		case 2:
			f.Drift[c.Name] = manyDiffer(t, c.Name)
		default:
		}
		f.Picked = append(f.Picked, c)
	}
	items := make([]snapshot.Item, 10_000)
	for i := range items {
		items[i].ID = snapshot.ID{Version: "v1", Kind: "ConfigMap", Name: fmt.Sprint("c", i), Namespace: "test-namespace"}
	}
	f.Resources = func(int) []snapshot.Item { return items }
	return f
}

// manyFail returns a hundred failing objects with the longest messages.
func manyFail() []apply.FailingObject {
	all := make([]apply.FailingObject, 100)
	for i := range all {
		all[i] = apply.FailingObject{ID: snapshot.ID{Version: "v1", Kind: "ConfigMap", Name: fmt.Sprint("c", i)}, Reason: apply.NotApplied, Message: strings.Repeat("\x00<", 128)}
	}
	return all
}

// manyDiffer returns a cluster with a hundred objects that differ a lot.
func manyDiffer(t testing.TB, name string) *drift.ClusterReport {
	d := drifted(t, name, drift.FoundDrifts)
	d.Objects[0].Differences[0].Member = json.RawMessage(`"` + strings.Repeat("x", 2000) + `"`)
	for len(d.Objects) < 100 {
		d.Objects = append(d.Objects, d.Objects[0])
	}
	d.Total = 250
	return d
}

func TestTheStatusOfABigPlacementIsBounded(t *testing.T) {
	f := bigPlacement(t, 5_000)
	s := jsonOf(t, Placement(f))
	b, err := json.Marshal(s)
	if err != nil || len(b) > 512<<10 {
		t.Errorf("the status has %d bytes, %v", len(b), err)
	}
	if n := len(s["placementStatuses"].([]any)); n != 100 || s["placementStatusesTotal"] != 5_000.0 {
		t.Errorf("%d of %v clusters", n, s["placementStatusesTotal"])
	}
	f.Picked = f.Picked[:80]
	var objects, totals int
	for _, c := range Placement(f).PerClusterPlacementStatuses {
		objects += len(c.DriftedPlacements)
		totals += c.DifferencesTotal
	}
	if objects < 50 || objects > 150 || totals != 8*250 {
		t.Errorf("%d objects of %d that differ are told", objects, totals)
	}
	if n := len(s["selectedResources"].([]any)); n != 1000 || s["selectedResourcesTotal"] != 10_000.0 {
		t.Errorf("%d of %v resources", n, s["selectedResourcesTotal"])
	}
}

func BenchmarkProjectPlacement(b *testing.B) {
	for _, n := range []int{100, 5_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := bigPlacement(b, n)
			b.ReportAllocs()
			for b.Loop() {
				Placement(f)
			}
		})
	}
}

func TestTheStrategyThatWasAppliedIsReportedWithItsDefaults(t *testing.T) {
	got := jsonOf(t, applyStrategyOf(&fleet.Placement{AllowCoOwnership: true}))
	want := map[string]any{
		"type": "ClientSideApply", "comparisonOption": "PartialComparison", "whenToApply": "Always", "whenToTakeOver": "Always", "allowCoOwnership": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if applyStrategyOf(nil) != nil {
		t.Error("there is a strategy of no placement")
	}
}
