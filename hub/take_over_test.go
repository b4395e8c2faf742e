package hub_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// deploymentWith returns a Deployment of the namespace with the number of replicas.
func deploymentWith(replicas int) string {
	return fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: app, namespace: NAME}, spec: {replicas: %d, selector: {matchLabels: {app: a}},
  template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: i}]}}}}`, replicas)
}

// statusOf returns the part of the placement's status about a member.
func (s *scenario) statusOf(member int) (*unstructured.Unstructured, error) {
	u, err := s.get("crp/NAME")
	if err != nil {
		return nil, err
	}
	clusters, _, _ := unstructured.NestedSlice(u.Object, "status", "placementStatuses")
	for _, c := range clusters {
		if c := c.(map[string]any); c["clusterName"] == fmt.Sprintf("%s-%d", s.name, member) {
			return &unstructured.Unstructured{Object: c}, nil
		}
	}
	return nil, fmt.Errorf("member %d is not in the status: %v", member, clusters)
}

// object returns the element of a list in a member's status whose object has the kind.
func (s *scenario) object(member int, list, kind string) (map[string]any, error) {
	c, err := s.statusOf(member)
	if err != nil {
		return nil, err
	}
	items, _, _ := unstructured.NestedSlice(c.Object, list)
	for _, item := range items {
		if item := item.(map[string]any); item["kind"] == kind {
			return item, nil
		}
	}
	return nil, fmt.Errorf("no %s in %s: %v", kind, list, c.Object)
}

// An object that was on a member before is not taken over, as whenToTakeOver requires. The status
// names it with KubeFleet's reason, its generation on the member, and its differences, even while
// the run that should update it continues.
func TestDifferingObjectIsNotTakenOver(t *testing.T) {
	t.Parallel()
	for when, reason := range map[string]string{"IfNoDiff": "FailedToTakeOver", "Never": "NotTakenOver"} {
		for _, strategy := range []string{"External", "RollingUpdate"} {
			t.Run(when+strategy, func(t *testing.T) {
				s := newScenario(t, openVouched, 1)
				s.found(1, `{apiVersion: v1, kind: Namespace, metadata: {name: NAME, labels: {story: NAME}}}`, deploymentWith(1))
				s.apply(deploymentWith(2))
				s.place("type: " + strategy + ", applyStrategy: {whenToTakeOver: " + when + "}")
				if strategy == "External" {
					s.strategy("")
					s.scheduled()
					s.run("a", "state: Run")
				}
				s.eventually("the object to be named", func() error {
					failed, err := s.object(1, "failedPlacements", "Deployment")
					if err != nil {
						return err
					}
					c := failed["condition"].(map[string]any)
					if c["type"] != "Applied" || c["status"] != "False" || c["reason"] != reason || c["observedGeneration"] != int64(1) {
						return fmt.Errorf("%v", c)
					}
					diffed, err := s.object(1, "diffedPlacements", "Deployment")
					if err == nil && diffed["targetClusterObservedGeneration"] != int64(1) {
						err = fmt.Errorf("%v", diffed)
					}
					return err
				})
			})
		}
	}
}

// Under ReportDiff, an object that a member lacks differs as a whole. No difference is reported for
// a member that no run has reached.
func TestDifferencesAreReportedOfMembersThatARunHasReached(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.strategy("", gate)
	s.apply(strategyOf("first", "{name: s1, labelSelector: {matchLabels: {stage: s1}}, "+gate+"}, {name: s2, labelSelector: {matchLabels: {stage: s2}}}"))
	s.place("type: External, applyStrategy: {type: ReportDiff}")
	s.scheduled()
	undiffed := func(member int) error {
		c, err := s.statusOf(member)
		if err == nil && (c.Object["diffedPlacements"] != nil || c.Object["differencesTotal"] != nil) {
			err = fmt.Errorf("%v", c.Object)
		}
		return err
	}
	s.stays("nothing is told before a run", 3*time.Second, func() error {
		if _, err := s.statusOf(1); err != nil {
			return nil //nolint:nilerr // a missing status is expected before a run
		}
		return errors.Join(undiffed(1), undiffed(2))
	})
	s.apply(runOf("a", "placementName: NAME, stagedRolloutStrategyName: NAME-first, state: Run"))
	s.seen("careq/NAME-a-s1")
	s.eventually("what the first lacks", func() error {
		diffed, err := s.object(1, "diffedPlacements", "ConfigMap")
		if err != nil {
			return err
		}
		want := []any{map[string]any{"path": "/", "valueInHub": "(the whole object)"}}
		if _, has := diffed["targetClusterObservedGeneration"]; has || fmt.Sprint(diffed["observedDiffs"]) != fmt.Sprint(want) {
			return fmt.Errorf("%v", diffed)
		}
		return nil
	})
	s.stays("nothing is told of the second", 2*time.Second, func() error { return undiffed(2) })
	s.approved("careq/NAME-a-s1")
	s.comes("csur/NAME-a", "Succeeded", "True", "")
	s.eventually("what the second lacks", func() error { _, err := s.object(2, "diffedPlacements", "ConfigMap"); return err })
}

// rollout checks the condition RolloutStarted of a member.
func (s *scenario) rollout(member int, want string) func() error {
	return func() error {
		c, err := s.statusOf(member)
		if err != nil {
			return err
		}
		list, _, _ := unstructured.NestedSlice(c.Object, "conditions")
		for _, one := range list {
			if one := one.(map[string]any); one["type"] == "RolloutStarted" {
				if got := fmt.Sprint(one["status"], " ", one["reason"]); got != want || c.Object["observedResourceIndex"] != "0" {
					return fmt.Errorf("member %d is %s at index %v, want %s", member, got, c.Object["observedResourceIndex"], want)
				}
				return nil
			}
		}
		return fmt.Errorf("%v", list)
	}
}

// As in KubeFleet, members that were up to date become Unknown when the policy of an External
// placement changes. They stay so until a run reaches them, whatever the outcome of the previous
// run is.
func TestAChangedPolicyOfAnExternalPlacementWaitsForARun(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.strategy("", "")
	s.place("type: External")
	s.scheduled()
	s.run("a", "state: Run")
	s.comes("csur/NAME-a", "Succeeded", "True", "")
	both := func(want string) func() error {
		return func() error { return errors.Join(s.rollout(1, want)(), s.rollout(2, want)()) }
	}
	s.eventually("both to be rolled out", both("True RolloutStarted"))
	s.patch("crp/NAME", `{spec: {policy: {affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchLabels: {story: NAME}}}, {labelSelector: {matchLabels: {story: other}}}]}}}}}}`)
	s.eventually("both to wait for a run", both("Unknown RolloutStartedUnknown"))
	s.comes("crp/NAME", "ClusterResourcePlacementRolloutStarted", "Unknown", "RolloutControlledByExternalController")
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "", "")
	s.remove("csur/NAME-a")
	s.patch("crp/NAME", `{metadata: {labels: {look: again}}}`)
	s.stays("both wait", 2*time.Second, both("Unknown RolloutStartedUnknown"))
	s.run("b", `resourceSnapshotIndex: "0", state: Run`)
	s.comes("csur/NAME-b", "Succeeded", "True", "")
	s.eventually("both to be rolled out", both("True RolloutStarted"))
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
}
