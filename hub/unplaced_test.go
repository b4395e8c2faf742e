package hub_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A duplicate object, and an object with the wrong scope, are on no member; the other objects of
// the envelopes are. The placement names each of them with its envelope and the reason, KubeFleet's
// if there is one, and an event names the remedy.
func TestObjectsThatCannotBeInTheirEnvelopes(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("selected")
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceEnvelope
metadata: {name: a, namespace: NAME}
data:
  again.yaml: {apiVersion: v1, kind: ConfigMap, metadata: {name: config, namespace: NAME}, data: {key: enveloped}}
  fine.yaml: {apiVersion: v1, kind: ConfigMap, metadata: {name: fine, namespace: NAME}, data: {key: first}}
  role.yaml: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: NAME-role}, rules: []}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceEnvelope
metadata: {name: b, namespace: NAME}
data:
  fine.yaml: {apiVersion: v1, kind: ConfigMap, metadata: {name: fine, namespace: NAME}, data: {key: second}}
  more.yaml: {apiVersion: v1, kind: ConfigMap, metadata: {name: more, namespace: NAME}, data: {key: v1}}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourceEnvelope
metadata: {name: NAME-c}
data:
  cm.yaml: {apiVersion: v1, kind: ConfigMap, metadata: {name: elsewhere, namespace: NAME}, data: {key: v1}}
  ns.yaml: {apiVersion: v1, kind: Namespace, metadata: {name: NAME-placed}}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: NAME}
spec:
  resourceSelectors:
  - {group: "", version: v1, kind: Namespace, name: NAME}
  - {group: placement.kubernetes-fleet.io, version: v1beta1, kind: ClusterResourceEnvelope, name: NAME-c}
  policy:
    affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchLabels: {story: NAME}}}]}}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, unavailablePeriodSeconds: 0}}`)
	for name, value := range map[string]string{"config": "selected", "fine": "first", "more": "v1"} {
		s.eventually(name+" on the member", s.has(1, name, value))
	}
	s.eventually("the objects to be named", s.failing("ClusterRole <nil>/NAME-role Applied=False WrongScope in ResourceEnvelope NAME/a; "+
		"ConfigMap NAME/config Applied=False Duplicated in ResourceEnvelope NAME/a; "+
		"ConfigMap NAME/elsewhere Applied=False WrongScope in ClusterResourceEnvelope <nil>/NAME-c; "+
		"ConfigMap NAME/fine Applied=False Duplicated in ResourceEnvelope NAME/b",
		"Namespace NAME; ConfigMap config; ClusterResourceEnvelope NAME-c; ResourceEnvelope a; ResourceEnvelope b"))
	s.comes("crp/NAME", "ClusterResourcePlacementScheduled", "True", "")
	s.comes("crp/NAME", "ClusterResourcePlacementApplied", "False", "")
	if _, err := s.read(s.member(1), "ns/NAME-placed"); err != nil {
		t.Errorf("the other object of the ClusterResourceEnvelope: %v", err)
	}
	if err := s.gone(s.member(1), "cm/NAME/elsewhere")(); err != nil {
		t.Error(err)
	}
	s.eventually("the events", func() (missing error) {
		events := strings.Join(s.events("crp/NAME", "LeftOut"), "\n")
		for _, want := range []string{
			"ConfigMap.v1 NAME/config in ResourceEnvelope.v1.placement.kubernetes-fleet.io NAME/a: the placement has this object already, selected",
			"ConfigMap.v1 NAME/fine in ResourceEnvelope.v1.placement.kubernetes-fleet.io NAME/b: the placement has this object already, in ResourceEnvelope",
			"NAME-role in ResourceEnvelope.v1.placement.kubernetes-fleet.io NAME/a: a ClusterRole is in no namespace; put it into a ClusterResourceEnvelope",
			"NAME/elsewhere in ClusterResourceEnvelope.v1beta1.placement.kubernetes-fleet.io NAME-c: a ClusterResourceEnvelope carries",
		} {
			if !strings.Contains(events, s.own(want)) {
				missing = errors.Join(missing, fmt.Errorf("no event %q in %s", s.own(want), events))
			}
		}
		return missing
	})
	s.patch("re/NAME/a", `{data: {again.yaml: null, role.yaml: null}}`)
	s.patch("re/NAME/b", `{data: {fine.yaml: null}}`)
	s.patch("cre/NAME-c", `{data: {cm.yaml: null}}`)
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
	s.eventually("nothing to fail", s.failing("", "Namespace NAME; ConfigMap config; ClusterResourceEnvelope NAME-c; ResourceEnvelope a; ResourceEnvelope b"))
}

// failing checks the failed objects of all clusters in the status of the placement, ascending, each
// with its condition and its envelope, and the selected objects.
func (s *scenario) failing(failed, selected string) func() error {
	return func() error {
		u, err := s.get("crp/NAME")
		if err != nil {
			return err
		}
		var named []string
		clusters, _, _ := unstructured.NestedSlice(u.Object, "status", "placementStatuses")
		for _, c := range clusters {
			objects, _, _ := unstructured.NestedSlice(c.(map[string]any), "failedPlacements")
			for _, o := range objects {
				m := o.(map[string]any)
				condition, envelope := m["condition"].(map[string]any), m["envelope"].(map[string]any)
				named = append(named, fmt.Sprintf("%v %v/%v %v=%v %v in %v %v/%v", m["kind"], m["namespace"], m["name"],
					condition["type"], condition["status"], condition["reason"], envelope["type"], envelope["namespace"], envelope["name"]))
			}
		}
		var picked []string
		resources, _, _ := unstructured.NestedSlice(u.Object, "status", "selectedResources")
		for _, r := range resources {
			m := r.(map[string]any)
			picked = append(picked, fmt.Sprintf("%v %v", m["kind"], m["name"]))
		}
		slices.Sort(named)
		if a, b := strings.Join(named, "; "), strings.Join(picked, "; "); a != s.own(failed) || b != s.own(selected) {
			return fmt.Errorf("failed: %s; selected: %s", a, b)
		}
		return nil
	}
}
