package hub_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/hub/internal/api"
)

// TestInitFailuresAreReportedTogetherAndFinal: if a run cannot be planned, one condition
// Initialized=False names all causes. The condition stays after the causes are corrected: another
// run is needed.
func TestInitFailuresAreReportedTogetherAndFinal(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.place("type: External")
	s.scheduled()
	s.strategy("", "")
	s.apply(strategyOf("lonely", `{name: s1, labelSelector: {matchLabels: {stage: s1}}}`))
	s.apply(strategyOf("twice", `{name: s1, labelSelector: {matchLabels: {story: NAME}}}, {name: s2, labelSelector: {matchLabels: {stage: s2}}}`))
	s.apply(strategyOf("unsorted", `{name: s1, labelSelector: {matchLabels: {story: NAME}}, sortingLabelKey: stage}`))
	s.apply(strategyOf("hasty", `{name: s1, labelSelector: {}, afterStageTasks: [{type: TimedWait, waitTime: 0s}]}`))
	for name, c := range map[string]struct{ spec, want string }{
		"no-placement": {"placementName: NAME-none, stagedRolloutStrategyName: NAME", "parent placement not found|NAME-none"},
		"no-strategy":  {"placementName: NAME, stagedRolloutStrategyName: NAME-none", "referenced updateStrategy not found|NAME-none"},
		"neither":      {"placementName: NAME-none, stagedRolloutStrategyName: NAME-nope", "parent placement not found|NAME-none|referenced updateStrategy not found|NAME-nope"},
		"lonely":       {"placementName: NAME, stagedRolloutStrategyName: NAME-lonely", "NAME-2"},
		"twice":        {"placementName: NAME, stagedRolloutStrategyName: NAME-twice", "NAME-2|s1|s2"},
		"unsorted":     {"placementName: NAME, stagedRolloutStrategyName: NAME-unsorted", "NAME-1|NAME-2|stage"},
		"hasty":        {"placementName: NAME, stagedRolloutStrategyName: NAME-hasty", "spec.stages[0].afterStageTasks[0].waitTime|more than 0s"},
		"nameless":     {"placementName: '', stagedRolloutStrategyName: ''", "spec.placementName|spec.stagedRolloutStrategyName"},
		"no-index":     {"placementName: NAME, stagedRolloutStrategyName: NAME, resourceSnapshotIndex: '7'", "7"},
	} {
		t.Run(name, func(t *testing.T) {
			run := "csur/NAME-" + name
			s := s.scene(t)
			s.apply(runOf(name, c.spec))
			for want := range strings.SplitSeq(c.want, "|") {
				s.comes(run, "Initialized", "False", want)
			}
			if warned := s.events(run, "UpdateRunInitializedFailed"); len(warned) != 1 {
				s.eventually("an Event that tells it", func() error { return s.told(run, "UpdateRunInitializedFailed") })
			}
		})
	}
	s.apply(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterStagedUpdateStrategy, metadata: {name: NAME-none}, spec: {stages: [{name: all, labelSelector: {}}]}}`)
	s.stays("it is the end", time.Second, s.condition("csur/NAME-no-strategy", "Initialized", "False", ""))
	s.apply(runOf("again", "placementName: NAME, stagedRolloutStrategyName: NAME-none"))
	s.comes("csur/NAME-again", "Succeeded", "True", "")
}

// TestARefusedRunAfterAChangeOfItsState: a run that was refused stays refused, whatever its state is
// set to. With the setting of KubeFleet 0.18 such a change plans it again.
func TestARefusedRunAfterAChangeOfItsState(t *testing.T) {
	refused := func(t *testing.T, open func(*testing.T) *sharedCluster) *scenario {
		t.Helper()
		s := newScenario(t, open, 1)
		s.put("v1")
		s.place("type: External")
		s.scheduled()
		s.apply(runOf("a", "placementName: NAME, stagedRolloutStrategyName: NAME, state: Initialize"))
		s.comes("csur/NAME-a", "Initialized", "False", "referenced updateStrategy not found")
		s.strategy("")
		s.patch("csur/NAME-a", `{spec: {state: Run}}`)
		return s
	}
	t.Run("stays refused", func(t *testing.T) {
		s := refused(t, openVouched)
		s.eventually("the condition of the new generation", func() error {
			u, err := s.get("csur/NAME-a")
			if err == nil && api.ConditionOf(u, api.ConditionInitialized).ObservedGeneration != u.GetGeneration() {
				err = errors.New("it is of an earlier one")
			}
			return err
		})
		s.stays("it is the end", time.Second, s.condition("csur/NAME-a", "Initialized", "False", ""))
	})
	t.Run("is planned again", func(t *testing.T) {
		s := refused(t, openKubeFleet018)
		s.comes("csur/NAME-a", "Succeeded", "True", "")
	})
}

// TestInitOfARollingPlacementIsRefused: runs are only for placements whose strategy is External.
func TestInitOfARollingPlacementIsRefused(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.place("type: RollingUpdate")
	s.strategy("")
	s.run("a", "")
	s.comes("csur/NAME-a", "Initialized", "False", "parent placement does not have an external rollout strategy, current strategy: RollingUpdate")
}

// TestInitWaitsForSnapshotAndClusters: a run that is created together with its placement, before
// there is a snapshot or a cluster, is planned as soon as these exist.
func TestInitWaitsForSnapshotAndClusters(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.place("type: External")
	s.strategy("")
	s.run("a", "")
	s.comes("csur/NAME-a", "Succeeded", "True", "")
	s.eventually("the member to have it", s.has(1, "config", "v1"))
}

// TestT25NamespacedObjectsReferToTheirOwnNamespace is threat T25: the names in a run, a placement
// or an override refer only to objects of their own namespace.
func TestT25NamespacedObjectsReferToTheirOwnNamespace(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.twins("NAME")
	s.apply(`{apiVersion: v1, kind: Namespace, metadata: {name: NAME-evil}}`)
	for _, c := range []struct{ name, placement, strategy, want string }{
		{"by-name", "NAME", "NAME", "parent placement not found|referenced updateStrategy not found"},
		{"by-path", "NAME/NAME", "NAME/NAME", "spec.placementName|spec.stagedRolloutStrategyName"},
		{"by-dots", "NAME.NAME", "NAME.NAME", "parent placement not found|referenced updateStrategy not found"},
		{"by-engine-name", "n.NAME.NAME", "n.NAME.NAME", "parent placement not found|referenced updateStrategy not found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s.scene(t)
			err := s.applyTo(s.admin, s.objects(fmt.Sprintf(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: StagedUpdateRun, metadata: {name: %s, namespace: NAME-evil},
  spec: {placementName: %s, stagedRolloutStrategyName: %s}}`, c.name, c.placement, c.strategy))[0])
			if err != nil {
				return // the API server refuses it already
			}
			for want := range strings.SplitSeq(c.want, "|") {
				s.eventually("a refusal", s.condition("sur/NAME-evil/"+c.name, "Initialized", "False", want))
			}
		})
	}
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceOverride
metadata: {name: other, namespace: NAME-evil}
spec:
  placement: {name: NAME, scope: Namespaced}
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: config}]
  policy: {overrideRules: [{overrideType: JSONPatch, jsonPatchOverrides: [{op: replace, path: /data/key, value: evil}]}]}`)
	s.apply(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: StagedUpdateRun, metadata: {name: own, namespace: NAME}, spec: {placementName: NAME, stagedRolloutStrategyName: NAME, state: Run}}`)
	s.approved("areq/NAME/own-s1")
	s.eventually("the run to succeed", s.condition("sur/NAME/own", "Succeeded", "True", ""))
	s.eventually("the member to have what was placed, unchanged", s.has(1, "config", "v1"))
	u, err := s.get("rss/NAME/NAME-0-snapshot")
	if err != nil || u.GetNamespace() != s.name {
		t.Errorf("the snapshot is not shown in its namespace: %v", err)
	}
	s.delete("rp/NAME/NAME")
	s.eventually("the placement to be gone", s.gone(s.admin, "rp/NAME/NAME"))
	if err := s.has(1, "config", "")(); err != nil {
		t.Error(err)
	}
}

// twins creates a placement of a ConfigMap in the story's namespace, and its strategy with an
// approval.
func (s *scenario) twins(namespace string) {
	s.Helper()
	s.put("v1")
	for i := range s.members {
		_ = s.applyTo(s.member(i+1), s.objects(`{apiVersion: v1, kind: Namespace, metadata: {name: NAME}}`)[0])
	}
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourcePlacement
metadata: {name: NAME, namespace: ` + namespace + `}
spec:
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: config}]
  policy: {placementType: PickAll, affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchLabels: {story: NAME}}}]}}}}
  strategy: {type: External}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: StagedUpdateStrategy
metadata: {name: NAME, namespace: ` + namespace + `}
spec: {stages: [{name: s1, labelSelector: {}, afterStageTasks: [{type: Approval}]}]}`)
}

func strategyOf(name, stages string) string {
	return `{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterStagedUpdateStrategy, metadata: {name: NAME-` + name + `}, spec: {stages: [` + stages + `]}}`
}

func runOf(name, spec string) string {
	if !strings.Contains(spec, "state: ") {
		spec += ", state: Run"
	}
	return `{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterStagedUpdateRun, metadata: {name: NAME-` + name + `}, spec: {` + spec + `}}`
}

// scene returns a part of a story that runs on its own.
func (s *scenario) scene(t *testing.T) *scenario {
	out := *s
	out.T = t
	return &out
}

// told checks that there is an Event with that reason about an object.
func (s *scenario) told(what, reason string) error {
	if len(s.events(what, reason)) == 0 {
		return errors.New("there is no Event " + reason + " about " + what)
	}
	return nil
}
