package hub_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestAResourcePlacementWaitsForItsNamespace: a ResourcePlacement is placed on members on which
// another placement has placed its namespace. For the other members it reports the failure, and
// continues there once the namespace exists.
func TestAResourcePlacementWaitsForItsNamespace(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: NAME, selectionScope: NamespaceOnly}]
  policy: {placementType: PickFixed, clusterNames: [NAME-2]}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourcePlacement
metadata: {name: NAME, namespace: NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: config}]
  policy: {placementType: PickAll, affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchLabels: {story: NAME}}}]}}}}
  strategy: {type: RollingUpdate, rollingUpdate: {unavailablePeriodSeconds: 2}}`)
	const begun = "Scheduled=True Scheduled, RolloutStarted=True RolloutStarted, Overridden=True NoOverrideSpecified, WorkSynchronized=True AllWorkSynced, "
	const all = "0 [ConfigMap NAME/config]: Scheduled=True SchedulingPolicyFulfilled, RolloutStarted=True RolloutStarted, " +
		"Overridden=True NoOverrideSpecified, WorkSynchronized=True WorkSynchronized, "
	there := func(member int) string {
		return fmt.Sprintf("NAME-%d at 0, [] [], failed []: %sApplied=True AllWorkHaveBeenApplied, Available=True AllWorkAreAvailable", member, begun)
	}
	s.eventually("one to fail", s.tells("rp/NAME/NAME", strings.Join([]string{
		all + "Applied=False ApplyFailed",
		"NAME-1 at 0, [] [], failed [ConfigMap NAME/config]: " + begun + "Applied=False NotAllWorkHaveBeenApplied",
		there(2),
	}, "\n")))
	time.Sleep(5 * time.Second) // it is retried, less and less often
	s.patch("crp/NAME", `{spec: {policy: {clusterNames: [NAME-1, NAME-2]}}}`)
	s.eventually("both", s.tells("rp/NAME/NAME", strings.Join([]string{all + "Applied=True ApplySucceeded, Available=True ResourceAvailable", there(1), there(2)}, "\n")))
}

// TestAnOverrideThatLeavesAMemberNothing: a member on which an override deletes everything is
// complete.
func TestAnOverrideThatLeavesAMemberNothing(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.overrideAll("ClusterResourceOverride", "c", annotate("there"), `{clusterSelector: {clusterSelectorTerms: [{labelSelector: {matchLabels: {stage: s2}}}]}, overrideType: Delete}`)
	s.place(rolling)
	s.eventually("everything", s.tells("crp/NAME", available("0", 2, "[NAME-c-0]", "[]")))
	s.stays("nothing on the second member", time.Second, s.gone(s.member(2), "ns/NAME"))
	if err := s.has(1, "config", "v1")(); err != nil {
		t.Error(err)
	}
}

// TestMembersThatLeaveAndJoinAgain: placed objects stay on members that leave the fleet, and the
// placement names none of these members. After they join again, all have everything again.
func TestMembersThatLeaveAndJoinAgain(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.place(rolling)
	s.eventually("everything", s.tells("crp/NAME", available("0", 2, "[]", "[]")))
	s.delete("mc/NAME-1")
	s.delete("mc/NAME-2")
	s.eventually("no member", s.tells("crp/NAME", "0 [Namespace /NAME ConfigMap NAME/config]: Scheduled=True SchedulingPolicyFulfilled"))
	s.stays("what was placed", time.Second, func() error {
		for i := range 2 {
			if err := s.has(i+1, "config", "v1")(); err != nil {
				return err
			}
		}
		return nil
	})
	s.join(1, "s1")
	s.join(2, "s2")
	s.eventually("everything again", s.tells("crp/NAME", available("0", 2, "[]", "[]")))
}
