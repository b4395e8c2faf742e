package hub_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// wholeStatus returns a placement's status without messages, times and fields that only this hub
// has: its conditions, the selected objects, and for each cluster the conditions, the failed
// objects and the differences. A condition of another generation than the object's includes the
// generation.
func wholeStatus(u *unstructured.Unstructured) string {
	status, _ := u.Object["status"].(map[string]any)
	lines := []string{
		fmt.Sprintf("index %v", status["observedResourceIndex"]),
		wholeConditions(status, u.GetKind(), u.GetGeneration()),
	}
	for _, r := range listOf(status, "selectedResources") {
		lines = append(lines, "selected "+wholeObject(r))
	}
	clusters := listOf(status, "placementStatuses")
	slices.SortStableFunc(clusters, func(a, b map[string]any) int {
		return cmp.Compare(fmt.Sprint(a["clusterName"]), fmt.Sprint(b["clusterName"]))
	})
	for _, c := range clusters {
		lines = append(lines, fmt.Sprintf("cluster %v index %v", c["clusterName"], c["observedResourceIndex"]), "  "+wholeConditions(c, "", u.GetGeneration()))
		for _, f := range listOf(c, "failedPlacements") {
			lines = append(lines, "  failed "+wholeObject(f)+" "+wholeCondition(f["condition"].(map[string]any), "", -1))
		}
		for _, d := range listOf(c, "diffedPlacements") {
			lines = append(lines, "  diffed "+wholeObject(d)+wholeDifferences(d, "observedDiffs"))
		}
		for _, d := range listOf(c, "driftedPlacements") {
			lines = append(lines, "  drifted "+wholeObject(d)+wholeDifferences(d, "observedDrifts"))
		}
	}
	return strings.Join(lines, "\n")
}

func wholeConditions(of map[string]any, prefix string, generation int64) string {
	var out []string
	for _, c := range listOf(of, "conditions") {
		out = append(out, wholeCondition(c, prefix, generation))
	}
	return strings.Join(out, " ")
}

// wholeCondition returns a condition without its message. A negative generation never equals the
// condition's.
func wholeCondition(c map[string]any, prefix string, generation int64) string {
	text := fmt.Sprintf("%s=%v/%v", strings.TrimPrefix(fmt.Sprint(c["type"]), prefix), c["status"], c["reason"])
	observed, _ := c["observedGeneration"].(int64)
	if observed != generation {
		text += fmt.Sprintf("@%d", observed)
	}
	return text
}

func wholeObject(r map[string]any) string {
	text := strings.TrimPrefix(fmt.Sprintf("%v/%v %v %v", orEmpty(r["group"]), r["version"], r["kind"], orEmpty(r["name"])), "/")
	if e, ok := r["envelope"].(map[string]any); ok {
		text += fmt.Sprintf(" in %v %v/%v", e["type"], orEmpty(e["namespace"]), e["name"])
	}
	return text
}

func wholeDifferences(d map[string]any, field string) string {
	text := fmt.Sprintf(" at generation %v", d["targetClusterObservedGeneration"])
	for _, p := range listOf(d, field) {
		text += fmt.Sprintf(" %v member=%v hub=%v", p["path"], orEmpty(p["valueInMember"]), orEmpty(p["valueInHub"]))
	}
	return text
}

func orEmpty(v any) any {
	if v == nil {
		return ""
	}
	return v
}

func listOf(of map[string]any, field string) (out []map[string]any) {
	list, _ := of[field].([]any)
	for _, item := range list {
		out = append(out, item.(map[string]any))
	}
	return out
}

const (
	wholeSynced   = "Scheduled=True/SchedulingPolicyFulfilled RolloutStarted=True/RolloutStarted Overridden=True/NoOverrideSpecified WorkSynchronized=True/WorkSynchronized"
	clusterSynced = "Scheduled=True/Scheduled RolloutStarted=True/RolloutStarted Overridden=True/NoOverrideSpecified WorkSynchronized=True/AllWorkSynced"
)

// whole waits until the status of a placement is exactly want, and logs the time. When everything
// is ready to be applied, SYNCED stands for the conditions of the placement and synced for the
// conditions of a cluster. PLACED and placed stand for them at the end.
func (s *scenario) whole(what, want string) {
	s.Helper()
	want, begun := s.own(strings.NewReplacer(
		"SYNCED", wholeSynced, "PLACED", wholeSynced+" Applied=True/ApplySucceeded Available=True/ResourceAvailable",
		"synced", clusterSynced, "placed", clusterSynced+" Applied=True/AllWorkHaveBeenApplied Available=True/AllWorkAreAvailable",
	).Replace(strings.Trim(want, "\n"))), time.Now()
	s.eventually("the whole status", func() error {
		u, err := s.get(what)
		if err != nil {
			return err
		}
		if got := wholeStatus(u); got != want {
			return fmt.Errorf("got\n%s\nwant\n%s", got, want)
		}
		return nil
	})
	s.Logf("as wanted after %v", time.Since(begun).Round(100*time.Millisecond))
}

// placeOn creates the placement NAME of the namespace NAME on the named members.
func (s *scenario) placeOn(members, strategy string) {
	s.Helper()
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: NAME}]
  policy: {placementType: PickFixed, clusterNames: [` + members + `]}
  strategy: {` + strategy + `}`)
}

// TestStatusOfAStuckRollingUpdate: the clusters that wait for the latest snapshot report that its
// rollout has not reached them, and nothing about their current snapshot.
func TestStatusOfAStuckRollingUpdate(t *testing.T) {
	for name, c := range map[string]struct{ object, selected, failed string }{
		"deployment": {deployment, "v1 ConfigMap config\nselected apps/v1 Deployment app", "apps/v1 Deployment app Available=False/ManifestNotAvailableYet@1"},
		"balancer": {
			`{apiVersion: v1, kind: Service, metadata: {name: web, namespace: NAME}, spec: {type: LoadBalancer, ports: [{port: 80}]}}`,
			"v1 ConfigMap config\nselected v1 Service web", "v1 Service web Available=False/ManifestNotAvailableYet@0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(t, openVouched, 2)
			s.put("v1")
			s.place(rolling)
			s.whole("crp/NAME", `
index 0
PLACED
selected v1 Namespace NAME
selected v1 ConfigMap config
cluster NAME-1 index 0
  placed
cluster NAME-2 index 0
  placed`)
			s.apply(c.object)
			s.whole("crp/NAME", `
index 1
Scheduled=True/SchedulingPolicyFulfilled RolloutStarted=False/RolloutNotStartedYet
selected v1 Namespace NAME
selected `+c.selected+`
cluster NAME-1 index 1
  synced Applied=True/AllWorkHaveBeenApplied Available=False/NotAllWorkAreAvailable
  failed `+c.failed+`
cluster NAME-2 index 1
  Scheduled=True/Scheduled RolloutStarted=False/RolloutNotStartedYet`)
		})
	}
}

// TestStatusOfNothingSelected: a placement that selects nothing is placed, as in KubeFleet. If it
// no longer selects anything, its objects are removed from the members.
func TestStatusOfNothingSelected(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.placeOn("NAME-1", rolling)
	s.eventually("v1", s.has(1, "config", "v1"))
	s.patch("crp/NAME", `{spec: {resourceSelectors: [{group: "", version: v1, kind: Namespace, name: NAME-elsewhere}]}}`)
	s.eventually("the namespace to be gone", s.gone(s.member(1), "ns/NAME"))
	nothing := `
PLACED
cluster NAME-1 index `
	s.whole("crp/NAME", "index 1"+nothing+"1\n  placed")
	s.delete("crp/NAME")
	s.eventually("the placement to be gone", s.gone(s.admin, "crp/NAME"))
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, labelSelector: {matchLabels: {chosen: NAME}}}]
  policy: {placementType: PickFixed, clusterNames: [NAME-1]}`)
	s.whole("crp/NAME", "index 0"+nothing+"0\n  placed")
	s.patch("ns/NAME", `{metadata: {labels: {chosen: NAME}}}`)
	s.whole("crp/NAME", `
index 1
PLACED
selected v1 Namespace NAME
selected v1 ConfigMap config
cluster NAME-1 index 1
  placed`)
	s.eventually("v1 again", s.has(1, "config", "v1"))
}

// TestStatusOfAKindThatTheMemberLacks: an object of a kind that a member does not serve is named,
// and the others are placed. If a placement only reports, its comparison is incomplete.
func TestStatusOfAKindThatTheMemberLacks(t *testing.T) {
	for name, c := range map[string]struct{ strategy, overall, cluster, cm string }{
		"applied": {
			"", "Applied=False/ApplyFailed",
			"Applied=False/NotAllWorkHaveBeenApplied\n  failed dummy.example.com/v10 Fake f in ResourceEnvelope NAME/wrapper Applied=False/DecodingErred@0", "ours",
		},
		"reported": {", applyStrategy: {type: ReportDiff}", "DiffReported=False/DiffReportingIncompleteOrFailed", "DiffReported=False/NotAllWorkHaveDiffReported", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(t, openVouched, 1)
			s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceEnvelope
metadata: {name: wrapper, namespace: NAME}
data:
  a.yaml: {apiVersion: dummy.example.com/v10, kind: Fake, metadata: {name: f, namespace: NAME}}
  b.yaml: {apiVersion: v1, kind: ConfigMap, metadata: {name: config, namespace: NAME}, data: {key: ours}}`)
			s.placeOn("NAME-1", rolling+c.strategy)
			s.whole("crp/NAME", `
index 0
SYNCED `+c.overall+`
selected v1 Namespace NAME
selected placement.kubernetes-fleet.io/v1beta1 ResourceEnvelope wrapper
cluster NAME-1 index 0
  synced `+c.cluster)
			if err := s.has(1, "config", c.cm)(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStatusOfMembersThatAreNotPicked: an unhealthy member, a member that leaves and a missing
// member have an entry without a name each, even if the policy names them, and nothing is placed on
// them.
func TestStatusOfMembersThatAreNotPicked(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.apply(`{apiVersion: cluster.kubernetes-fleet.io/v1beta1, kind: MemberCluster, metadata: {name: NAME-sick, labels: {story: NAME}}, spec: {}}`)
	s.apply(`{apiVersion: cluster.kubernetes-fleet.io/v1beta1, kind: MemberCluster, metadata: {name: NAME-left, labels: {story: NAME}, finalizers: [example.com/held]}, spec: {}}`)
	t.Cleanup(func() { _ = s.tryPatch(s.admin, "mc/NAME-left", `{metadata: {finalizers: null}}`) })
	s.delete("mc/NAME-left")
	s.eventually("the old heartbeat", func() error {
		return s.tryPatch(s.admin, "mc/NAME-sick", `{status: {agentStatus: [{type: MemberAgent, lastReceivedHeartbeat: "2024-01-01T00:00:00Z",
  conditions: [{type: Joined, status: "True", reason: Joined, message: x, lastTransitionTime: "2024-01-01T00:00:00Z"}]}]}}`, "status")
	})
	missing := `
cluster <nil> index <nil>
  Scheduled=False/ScheduleFailed`
	s.placeOn("NAME-sick, NAME-left, NAME-nowhere", rolling)
	s.whole("crp/NAME", `
index 0
Scheduled=False/SchedulingPolicyUnfulfilled
selected v1 Namespace NAME`+missing+missing+missing)
	s.patch("crp/NAME", `{spec: {policy: {clusterNames: [NAME-1, NAME-sick]}}}`)
	unfulfilled := strings.Replace(wholeSynced, "True/SchedulingPolicyFulfilled", "False/SchedulingPolicyUnfulfilled", 1)
	some := `
index 0
` + unfulfilled + ` Applied=True/ApplySucceeded Available=True/ResourceAvailable
selected v1 Namespace NAME` + missing
	placed := `
cluster NAME-1 index 0
  placed`
	s.whole("crp/NAME", some+placed)
	s.delete("crp/NAME")
	s.eventually("the placement to be gone", s.gone(s.admin, "crp/NAME"))
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: NAME}]
  policy: {placementType: PickN, numberOfClusters: 3, affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchLabels: {story: NAME}}}]}}}}`)
	s.whole("crp/NAME", some+missing+placed)
	s.patch("crp/NAME", `{spec: {policy: {numberOfClusters: 0}}}`)
	s.whole("crp/NAME", `
index 0
Scheduled=True/SchedulingPolicyFulfilled
selected v1 Namespace NAME`)
}

// TestStatusOfUntrackableKinds: a cluster with an object of a kind that KubeFleet cannot
// judge is available with KubeFleet's reason for that.
func TestStatusOfUntrackableKinds(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.apply(`{apiVersion: batch/v1, kind: CronJob, metadata: {name: cron, namespace: NAME}, spec: {schedule: "0 0 1 1 *",
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}}}}`)
	s.placeOn("NAME-1", rolling)
	s.whole("crp/NAME", `
index 0
PLACED
selected v1 Namespace NAME
selected batch/v1 CronJob cron
cluster NAME-1 index 0
  synced Applied=True/AllWorkHaveBeenApplied Available=True/NotAllWorkAreAvailabilityTrackable`)
}

// TestStatusOfDriftWhileAnUpdateWaits: with whenToApply IfNotDrifted, an object that drifts while
// the workload of a new placement is not available yet has failed, also beside an object that was
// not taken over. Once the object is restored, it no longer counts as failed.
func TestStatusOfDriftWhileAnUpdateWaits(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.apply(deployment)
	s.onMember(2, `{apiVersion: v1, kind: Namespace, metadata: {name: NAME, labels: {story: other}}}`)
	s.place("type: RollingUpdate, rollingUpdate: {maxUnavailable: 100%}, applyStrategy: {whenToApply: IfNotDrifted, whenToTakeOver: IfNoDiff, type: ServerSideApply}")
	head := `
index 0
SYNCED Applied=False/ApplyFailed
selected v1 Namespace NAME
selected apps/v1 Deployment app
cluster NAME-1 index 0
`
	failed := `
cluster NAME-2 index 0
  synced Applied=False/NotAllWorkHaveBeenApplied
  failed v1 Namespace NAME Applied=False/FailedToTakeOver@0`
	differs := `
  diffed v1 Namespace NAME at generation 0 /metadata/labels/story member=other hub=NAME`
	s.whole("crp/NAME", head+`  synced Applied=True/AllWorkHaveBeenApplied Available=False/NotAllWorkAreAvailable
  failed apps/v1 Deployment app Available=False/ManifestNotAvailableYet@1`+failed+differs)
	for i := range 2 {
		if err := s.tryPatch(s.member(i+1), "deploy/NAME/app", `{spec: {replicas: 2}}`); err != nil {
			t.Fatal(err)
		}
	}
	drifted := `
  failed apps/v1 Deployment app Applied=False/FoundDrifts@2`
	at := `
  drifted apps/v1 Deployment app at generation 2 /spec/replicas member=2 hub=1`
	s.whole("crp/NAME", head+`  synced Applied=False/NotAllWorkHaveBeenApplied`+drifted+at+failed+drifted+differs+at)
	if err := s.tryPatch(s.member(1), "deploy/NAME/app", `{spec: {replicas: 1}}`); err != nil {
		t.Fatal(err)
	}
	s.available(1)
	s.whole("crp/NAME", head+"  placed"+failed+drifted+differs+at)
}

// TestStatusWhenTheApplyStrategyIsSwitched: a placement that is stuck because of earlier objects on
// a member reports for all clusters once it should only report.
func TestStatusWhenTheApplyStrategyIsSwitched(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("test")
	s.onMember(1, `{apiVersion: v1, kind: Namespace, metadata: {name: NAME, labels: {story: NAME}}}`)
	s.place(rolling + ", applyStrategy: {whenToApply: IfNotDrifted, whenToTakeOver: Never}")
	objects := `
selected v1 Namespace NAME
selected v1 ConfigMap config`
	s.whole("crp/NAME", `
index 0
SYNCED Applied=False/ApplyFailed`+objects+`
cluster NAME-1 index 0
  synced Applied=False/NotAllWorkHaveBeenApplied
  failed v1 Namespace NAME Applied=False/NotTakenOver@0
cluster NAME-2 index 0
  placed`)
	s.put("bar")
	s.whole("crp/NAME", `
index 1
Scheduled=True/SchedulingPolicyFulfilled RolloutStarted=False/RolloutNotStartedYet`+objects+`
cluster NAME-1 index 1
  synced Applied=False/NotAllWorkHaveBeenApplied
  failed v1 Namespace NAME Applied=False/NotTakenOver@0
cluster NAME-2 index 1
  Scheduled=True/Scheduled RolloutStarted=False/RolloutNotStartedYet`)
	s.patch("crp/NAME", `{spec: {strategy: {applyStrategy: {type: ReportDiff, whenToApply: null}}}}`)
	s.whole("crp/NAME", `
index 1
SYNCED DiffReported=True/DiffReportingCompleted`+objects+`
cluster NAME-1 index 1
  synced DiffReported=True/AllWorkHaveDiffReported
cluster NAME-2 index 1
  synced DiffReported=True/AllWorkHaveDiffReported
  diffed v1 ConfigMap config at generation 0 /data/key member=test hub=bar`)
}

// TestStatusOfDriftInFull: with comparisonOption FullComparison, fields that the hub does not have
// are differences, of earlier objects and of placed ones.
func TestStatusOfDriftInFull(t *testing.T) {
	objects := `
selected v1 Namespace NAME
selected v1 ConfigMap config
cluster NAME-1 index 0
`
	const notApplied, label, data = "  synced Applied=False/NotAllWorkHaveBeenApplied",
		" v1 Namespace NAME at generation 0 /metadata/labels/foo member=bar hub=", " v1 ConfigMap config at generation 0 /data/key member=theirs hub=ours"
	for name, c := range map[string]struct{ strategy, want string }{
		"there before": {"whenToTakeOver: IfNoDiff", "index 0\nSYNCED Applied=False/ApplyFailed" + objects + notApplied + `
  failed v1 Namespace NAME Applied=False/FailedToTakeOver@0
  failed v1 ConfigMap config Applied=False/FailedToTakeOver@0
  diffed` + label + "\n  diffed" + data},
		"left alone": {"whenToApply: IfNotDrifted", "index 0\nSYNCED Applied=False/ApplyFailed" + objects + notApplied + `
  failed v1 Namespace NAME Applied=False/FoundDrifts@0
  failed v1 ConfigMap config Applied=False/FoundDrifts@0
  drifted` + label + "\n  drifted" + data},
		"put back": {"whenToApply: Always", "index 0\nPLACED" + objects + "  placed\n  drifted" + label},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(t, openVouched, 1)
			s.put("ours")
			edit := func() {
				s.onMember(1, `{apiVersion: v1, kind: Namespace, metadata: {name: NAME, labels: {foo: bar, story: NAME}}}`)
				s.onMember(1, `{apiVersion: v1, kind: ConfigMap, metadata: {name: config, namespace: NAME}, data: {key: theirs}}`)
			}
			before := strings.HasPrefix(c.strategy, "whenToTakeOver")
			if before {
				edit()
			}
			s.place(rolling + ", applyStrategy: {comparisonOption: FullComparison, " + c.strategy + "}")
			if !before {
				s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
				edit()
			}
			s.whole("crp/NAME", c.want)
			if name == "put back" {
				s.eventually("ours", s.has(1, "config", "ours"))
			}
		})
	}
}
