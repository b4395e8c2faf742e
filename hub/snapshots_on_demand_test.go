package hub_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestSnapshotsUnderExternalAreTakenByRuns: a placement that starts as External has no snapshot
// until its first run, and the changes between two runs are in one snapshot. A run without an index
// takes the objects that are selected when it begins, or uses the latest snapshot if that has them
// already. A run with an index takes no snapshot.
func TestSnapshotsUnderExternalAreTakenByRuns(t *testing.T) {
	s := newScenario(t, openKubeFleet018, 1)
	s.put("v0")
	s.place("type: External")
	s.strategy("")
	s.scheduled()
	s.noSnapshotBut("a placement without a run")
	s.observes("crp/NAME", "", "")
	s.comes("crp/NAME", "ClusterResourcePlacementRolloutStarted", "Unknown", "RolloutControlledByExternalController")
	s.put("v1")
	s.noSnapshotBut("a change before the first run")

	s.completes("one", "", "0")
	s.snapshots("0")
	s.eventually("v1", s.has(1, "config", "v1"))
	s.observes("crp/NAME", "0", "0")
	s.put("v2")
	s.patch("crp/NAME", `{spec: {revisionHistoryLimit: 5, policy: {tolerations: [{key: k, operator: Exists}]}}}`)
	s.put("v3")
	s.noSnapshotBut("changes of the object and of the policy", "0")
	if err := s.has(1, "config", "v1")(); err != nil {
		t.Error(err)
	}

	s.completes("two", "", "1")
	s.eventually("v3", s.has(1, "config", "v3"))
	s.completes("three", "", "1") // nothing changed
	s.completes("back", `resourceSnapshotIndex: "0"`, "0")
	s.eventually("v1 again", s.has(1, "config", "v1"))
	s.completes("forward", "", "1")
	s.eventually("v3 again", s.has(1, "config", "v3"))
	s.noSnapshotBut("runs of what is there", "0", "1")

	s.put("v1")
	s.completes("as-before", "", "2") // only the latest snapshot is compared
	s.snapshots("0", "1", "2")
}

// TestStatusUnderExternalComparesWithTheLastRun: a change on the hub since the last run is no
// difference of a member. A member that already has such a change differs.
func TestStatusUnderExternalComparesWithTheLastRun(t *testing.T) {
	s := newScenario(t, openKubeFleet018, 1)
	s.put("v1")
	s.place("type: External, applyStrategy: {whenToApply: IfNotDrifted}")
	s.strategy("")
	s.completes("one", "", "0")
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
	s.put("v2")
	s.stays("the status is as it was", quiet, func() error {
		return errors.Join(s.drifts("")(), s.condition("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")())
	})
	s.observes("crp/NAME", "0", "0")
	if err := s.tryPatch(s.member(1), "cm/NAME/config", `{data: {key: v2}}`); err != nil {
		t.Fatal(err)
	}
	s.eventually("the difference from what was rolled out", s.drifts(`"v1"`))
	s.noSnapshotBut("a difference", "0")
}

// drifts checks that the status reports a member that drifted from a value; "" means that none has
// drifted.
func (s *scenario) drifts(from string) func() error {
	return func() error {
		out, err := s.kubectl("get", "crp", s.name, "-o", "jsonpath={.status.placementStatuses[0].driftedPlacements}")
		if err == nil && (!strings.Contains(out, from) || from == "" && out != "") {
			err = fmt.Errorf("it has drifted: %s", out)
		}
		return err
	}
}

// TestSnapshotIsFrozenWhenARunIsPlanned: a planned run that waits brings the objects that were
// selected when it was planned.
func TestSnapshotIsFrozenWhenARunIsPlanned(t *testing.T) {
	s := newScenario(t, openKubeFleet018, 1)
	s.put("v1")
	s.place("type: External")
	s.strategy("")
	s.run("1", "state: Initialize")
	s.comes("csur/NAME-1", "Initialized", "True", "")
	s.snapshots("0")
	s.put("v2")
	s.noSnapshotBut("a change after it", "0")
	s.patch("csur/NAME-1", `{spec: {state: Run}}`)
	s.comes("csur/NAME-1", "Succeeded", "True", "")
	if err := s.has(1, "config", "v1")(); err != nil {
		t.Error(err)
	}
	s.noSnapshotBut("the run", "0")
}

// TestRunsThatAreRefusedTakeNoSnapshot: runs that name a missing object, or whose strategy leaves
// clusters out, leave nothing behind.
func TestRunsThatAreRefusedTakeNoSnapshot(t *testing.T) {
	s := newScenario(t, openKubeFleet018, 2)
	s.put("v1")
	s.place("type: External")
	s.strategy("") // one stage, for the first of two members
	s.run("partial", "")
	s.run("index", `resourceSnapshotIndex: "0"`)
	s.run("elsewhere", `stagedRolloutStrategyName: nothing`)
	for _, run := range []string{"partial", "index", "elsewhere"} {
		s.comes("csur/NAME-"+run, "Initialized", "False", "UpdateRunInitializedFailed")
	}
	s.noSnapshotBut("runs that are refused")
}

// TestSnapshotThatCannotBeTakenIsReported: problems with the selected objects are also in the
// status of an External placement, before any run.
func TestSnapshotThatCannotBeTakenIsReported(t *testing.T) {
	s := newScenario(t, openKubeFleet018, 1)
	s.mayWarn("its selectors pick no object that may be placed")
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourceEnvelope
metadata: {name: NAME}
data: {a.yaml: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: NAME}}}`)
	t.Cleanup(func() {
		_ = s.admin.Resource(s.resourceOf("cre")).Delete(context.Background(), s.name, metav1.DeleteOptions{})
	})
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: NAME}
spec:
  resourceSelectors: [{group: placement.kubernetes-fleet.io, version: v1beta1, kind: ClusterResourceEnvelope, name: NAME}]
  policy: {placementType: PickFixed, clusterNames: [NAME-1]}
  strategy: {type: External}`)
	s.comes("crp/NAME", "ClusterResourcePlacementScheduled", "False", "InvalidResourceSelectors")
	s.patch("crp/NAME", `{spec: {resourceSelectors: [{group: "", version: v1, kind: Namespace, name: NAME}]}}`)
	s.scheduled()
	s.noSnapshotBut("a placement that was corrected")
}

// TestRunsThatBeginTogetherShareASnapshot: runs that are created at the same moment share one
// snapshot.
func TestRunsThatBeginTogetherShareASnapshot(t *testing.T) {
	s := newScenario(t, openKubeFleet018, 1)
	s.put("v1")
	s.place("type: External")
	s.strategy("")
	s.scheduled()
	runs := []string{"a", "b", "c", "d", "e"}
	var made sync.WaitGroup
	for _, run := range runs {
		made.Go(func() { s.run(run, "state: Initialize") })
	}
	made.Wait()
	for _, run := range runs {
		s.comes("csur/NAME-"+run, "Initialized", "True", "")
		s.usedIndex("csur/NAME-"+run, "0")
	}
	s.noSnapshotBut("runs of one moment", "0")
}

// TestSnapshotsAfterRollingUpdateBecameExternal: from then on runs take the snapshots; the earlier
// ones stay.
func TestSnapshotsAfterRollingUpdateBecameExternal(t *testing.T) {
	s := newScenario(t, openKubeFleet018, 1)
	s.put("v1")
	s.place("type: RollingUpdate")
	s.strategy("")
	s.eventually("v1", s.has(1, "config", "v1"))
	s.put("v2")
	s.eventually("v2", s.has(1, "config", "v2"))
	s.snapshots("0", "1")
	s.patch("crp/NAME", `{spec: {strategy: {type: External, rollingUpdate: null}}}`)
	s.scheduled()
	s.eventually("the hub to have read it", func() error { return s.isObserved("crp/NAME") })
	s.put("v3")
	s.noSnapshotBut("a change under External", "0", "1")
	s.completes("back", `resourceSnapshotIndex: "0"`, "0")
	s.eventually("v1 again", s.has(1, "config", "v1"))
	s.completes("latest", "", "2")
	s.eventually("v3", s.has(1, "config", "v3"))
	if err := s.tryPatch(s.admin, "crp/NAME", `{spec: {strategy: {type: RollingUpdate}}}`); err == nil {
		t.Error("External became RollingUpdate, which KubeFleet refuses")
	}
}

// TestSnapshotsOfANamespacedPlacementAreTakenByRuns: a ResourcePlacement behaves like a
// ClusterResourcePlacement.
func TestSnapshotsOfANamespacedPlacementAreTakenByRuns(t *testing.T) {
	s := newScenario(t, openKubeFleet018, 1)
	s.onMember(1, `{apiVersion: v1, kind: Namespace, metadata: {name: NAME}}`)
	s.put("v1")
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourcePlacement
metadata: {name: shop, namespace: NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: config}]
  policy: {placementType: PickFixed, clusterNames: [NAME-1]}
  strategy: {type: External}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: StagedUpdateStrategy
metadata: {name: all, namespace: NAME}
spec: {stages: [{name: all, labelSelector: {}}]}`)
	run := func(name, index string) {
		s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: StagedUpdateRun
metadata: {name: ` + name + `, namespace: NAME}
spec: {placementName: shop, stagedRolloutStrategyName: all, state: Run}`)
		s.comes("sur/NAME/"+name, "Succeeded", "True", "")
		s.usedIndex("sur/NAME/"+name, index)
	}
	taken := func(n int) func() error {
		return func() error {
			list, err := s.admin.Resource(s.resourceOf("rss")).Namespace(s.name).List(s.Context(), metav1.ListOptions{})
			if err == nil && len(list.Items) != n {
				err = fmt.Errorf("there are %d snapshots, want %d", len(list.Items), n)
			}
			return err
		}
	}
	s.comes("rp/NAME/shop", "ResourcePlacementScheduled", "True", "")
	s.stays("no run", quiet, taken(0))
	run("one", "0")
	s.put("v2")
	s.stays("a change", quiet, taken(1))
	run("two", "1")
	s.eventually("v2", s.has(1, "config", "v2"))
	s.eventually("the second snapshot", taken(2))
}

// TestSnapshotsOfRunsStayWithinTheHistory: the newest snapshots of runs stay, and the ones that a
// member has.
func TestSnapshotsOfRunsStayWithinTheHistory(t *testing.T) {
	s := newScenario(t, openKubeFleet018, 1)
	s.place("type: External")
	s.patch("crp/NAME", `{spec: {revisionHistoryLimit: 1}}`)
	s.strategy("")
	for n := range 3 {
		s.put(fmt.Sprint("v", n))
		s.completes(fmt.Sprint("r", n), "", fmt.Sprint(n))
	}
	s.eventually("the newest alone", func() error {
		if got := s.indexes(); !slices.Contains(got, "2") || slices.Contains(got, "0") {
			return fmt.Errorf("there are %v", got)
		}
		return nil
	})
}

// quiet is the time after a change in which nothing may happen: several times the delay for which
// the hub collects changes.
const quiet = 1500 * time.Millisecond

// noSnapshotBut fails unless the snapshots have these indexes, and no others appear.
func (s *scenario) noSnapshotBut(after string, want ...string) {
	s.Helper()
	s.stays(after, quiet, func() error {
		if got := s.indexes(); !slices.Equal(got, want) {
			return fmt.Errorf("there are snapshots %v, want %v", got, want)
		}
		return nil
	})
}

// completes creates the run NAME-name with more fields in its spec, and waits until it has brought
// the snapshot with an index.
func (s *scenario) completes(name, more, index string) {
	s.Helper()
	s.run(name, more)
	s.comes("csur/NAME-"+name, "Succeeded", "True", "")
	s.usedIndex("csur/NAME-"+name, index)
}

// usedIndex fails unless a run brings the snapshot with an index.
func (s *scenario) usedIndex(run, index string) {
	s.Helper()
	u, err := s.get(run)
	if err != nil {
		s.Fatal(err)
	}
	if got, _, _ := unstructured.NestedString(u.Object, "status", "resourceSnapshotIndexUsed"); got != index {
		s.Fatalf("%s brings snapshot %q, want %q", run, got, index)
	}
}

// observes waits until a placement observes an index, and each of its clusters another one.
func (s *scenario) observes(what, index, cluster string) {
	s.Helper()
	s.eventually(what+" to observe "+index, func() error {
		u, err := s.get(what)
		if err != nil {
			return err
		}
		got, _, _ := unstructured.NestedString(u.Object, "status", "observedResourceIndex")
		selected, _, _ := unstructured.NestedSlice(u.Object, "status", "selectedResources")
		if got != index || (len(selected) > 0) != (index != "") {
			return fmt.Errorf("it observes %q with %d resources", got, len(selected))
		}
		clusters, _, _ := unstructured.NestedSlice(u.Object, "status", "placementStatuses")
		if len(clusters) == 0 {
			return errors.New("it has no clusters")
		}
		for _, c := range clusters {
			if got, _, _ := unstructured.NestedString(c.(map[string]any), "observedResourceIndex"); got != cluster {
				return fmt.Errorf("a cluster observes %q", got)
			}
		}
		return nil
	})
}

// isObserved checks that the conditions of an object are about its current spec.
func (s *scenario) isObserved(what string) error {
	u, err := s.get(what)
	if err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if at, _, _ := unstructured.NestedInt64(c.(map[string]any), "observedGeneration"); at == u.GetGeneration() {
			return nil
		}
	}
	return fmt.Errorf("none of %d conditions is of generation %d", len(conditions), u.GetGeneration())
}
