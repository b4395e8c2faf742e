package hub_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestVersionsOfAnOverride: each of the last ten changes of an override is shown. A version that a
// snapshot has frozen is never dropped, even if the override is deleted. The latest version is
// created again after another client changed or deleted it.
func TestVersionsOfAnOverride(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.override("ResourceOverride", "o", "resourceSelectors", "config", "s1", "/data/b", `"0"`)
	s.eventually("the first version", s.latestVersion(0))
	s.place("type: External")
	s.strategy("")
	s.scheduled()
	s.run("a", "state: Initialize")
	s.eventually("a snapshot with the first version", func() error { _, err := s.get("crs/NAME-0-snapshot"); return err })
	for i := range 11 {
		s.override("ResourceOverride", "o", "resourceSelectors", "config", "none", "/data/b", fmt.Sprintf(`"%d"`, i+1))
		s.eventually("the next version", s.latestVersion(i+1))
	}
	s.eventually("the last ten, and those in snapshots", func() error {
		if got := s.versions(); len(got) < 11 || got[0] != "0" || got[len(got)-1] != "11" {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
	s.patch("ros/NAME/NAME-o-11", `{spec: {overrideHash: YWJj}}`)
	s.eventually("what was changed to be made again", func() error {
		u, err := s.get("ros/NAME/NAME-o-11")
		if err == nil && u.GetGeneration() != 1 {
			err = fmt.Errorf("generation %d", u.GetGeneration())
		}
		return err
	})
	s.delete("ros/NAME/NAME-o-11")
	s.eventually("what was deleted to be made again", s.latestVersion(11))
	s.delete("ro/NAME/NAME-o")
	s.delete("crp/NAME")
	s.eventually("the placement to be gone", s.gone(s.admin, "crp/NAME"))
}

// TestAnEnvelopeAndANamespaceAlone: members receive the content of an envelope, which has no effect
// on the hub. From a namespace with scope NamespaceWithResourceSelectors they receive the objects
// that selectors pick.
func TestAnEnvelopeAndANamespaceAlone(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("not placed")
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceEnvelope
metadata: {name: limits, namespace: NAME}
data:
  cm.yaml: {apiVersion: v1, kind: ConfigMap, metadata: {name: enveloped, namespace: NAME}, data: {key: v5}}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: NAME}
spec:
  resourceSelectors:
  - {group: "", version: v1, kind: Namespace, name: NAME, selectionScope: NamespaceWithResourceSelectors}
  - {group: placement.kubernetes-fleet.io, version: v1beta1, kind: ResourceEnvelope, name: limits}
  policy:
    affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchLabels: {story: NAME}}}]}}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, unavailablePeriodSeconds: 0}}`)
	s.eventually("the object on the member", s.has(1, "enveloped", "v5"))
	if err := s.gone(s.member(1), "cm/NAME/config")(); err != nil {
		t.Errorf("on the member: %v", err)
	}
	if err := s.gone(s.admin, "cm/NAME/enveloped")(); err != nil {
		t.Errorf("on the hub: %v", err)
	}
	s.patch("re/NAME/limits", `{data: {cm.yaml: {data: {key: v7}}}}`)
	s.eventually("a change in the envelope on the member", s.has(1, "enveloped", "v7"))
}

// TestAnObjectWithoutANameInAnEnvelope: an object with generateName and no name is on no member;
// the other objects of its envelope are. The placement names the object, its envelope and
// KubeFleet's reason until the object is removed.
func TestAnObjectWithoutANameInAnEnvelope(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceEnvelope
metadata: {name: limits, namespace: NAME}
data:
  cm.yaml: {apiVersion: v1, kind: ConfigMap, metadata: {name: enveloped, namespace: NAME}, data: {key: v5}}
  unnamed.yaml: {apiVersion: v1, kind: ConfigMap, metadata: {generateName: wrapped-, namespace: NAME}, data: {key: v6}}`)
	s.place("type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, unavailablePeriodSeconds: 1}")
	s.eventually("the named object on the member", s.has(1, "enveloped", "v5"))
	s.comes("crp/NAME", "ClusterResourcePlacementApplied", "False", "")
	const selected = "Namespace NAME; ConfigMap config; ResourceEnvelope limits"
	s.eventually("the object to be named", s.failing("ConfigMap NAME/ Applied=False FoundGenerateName in ResourceEnvelope NAME/limits", selected))
	cms, _ := s.on(s.member(1), "cm/NAME/x")
	if list, err := cms.List(s.Context(), metav1.ListOptions{}); err != nil || slices.ContainsFunc(list.Items, func(u unstructured.Unstructured) bool { return u.GetGenerateName() != "" }) {
		t.Errorf("the member has %v, %v", list, err)
	}
	s.patch("re/NAME/limits", `{data: {unnamed.yaml: null}}`)
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
	s.eventually("nothing to fail", s.failing("", selected))
	s.delete("crp/NAME")
	s.eventually("the placement to be gone", s.gone(s.admin, "crp/NAME"))
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: NAME}]
  policy: {placementType: PickFixed, clusterNames: [nowhere]}`)
	s.eventually("what is selected without a cluster", s.failing("", selected))
}

// versions returns the indexes of the versions of the override NAME-o, ascending.
func (s *scenario) versions() []string {
	ros, _ := s.on(s.admin, "ros/NAME/x")
	list, err := ros.List(context.WithoutCancel(s.Context()), metav1.ListOptions{LabelSelector: s.own("kubernetes-fleet.io/parent-resource-override=NAME-o")})
	if err != nil {
		return nil
	}
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].GetLabels()["kubernetes-fleet.io/override-index"])
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	return out
}

// latestVersion checks that only the version with that index of the override NAME-o is the latest.
func (s *scenario) latestVersion(index int) func() error {
	return func() error {
		ros, _ := s.on(s.admin, "ros/NAME/x")
		list, err := ros.List(s.Context(), metav1.ListOptions{
			LabelSelector: s.own("kubernetes-fleet.io/parent-resource-override=NAME-o,kubernetes-fleet.io/is-latest-snapshot=true"),
		})
		if err != nil {
			return err
		}
		if want := s.own(fmt.Sprintf("NAME-o-%d", index)); len(list.Items) != 1 || list.Items[0].GetName() != want {
			return fmt.Errorf("%d are the latest, want %s alone", len(list.Items), want)
		}
		return nil
	}
}
