package hub_test

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// failedAs checks that a placement reports an object that it could not apply, with the reason.
func (s *scenario) failedAs(what, kind, reason string) error {
	u, err := s.get(what)
	if err != nil {
		return err
	}
	clusters, _, _ := unstructured.NestedSlice(u.Object, "status", "placementStatuses")
	for _, c := range clusters {
		failed, _, _ := unstructured.NestedSlice(c.(map[string]any), "failedPlacements")
		for _, f := range failed {
			obj := f.(map[string]any)
			got, _, _ := unstructured.NestedString(obj, "condition", "reason")
			if obj["kind"] == kind && got == reason {
				return nil
			}
		}
	}
	return fmt.Errorf("no %s failed as %s: %v", kind, reason, clusters)
}

// TestOneObjectIsOfOnePlacement: the second placement of an object is held back, even with
// allowCoOwnership, as in KubeFleet, and its status says so. It gets the object once the first
// placement is gone.
func TestOneObjectIsOfOnePlacement(t *testing.T) {
	for name, allows := range map[string]string{"by default": "", "with co-ownership": ", applyStrategy: {allowCoOwnership: true}"} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(t, openVouched, 1)
			s.put("v1")
			s.place("type: RollingUpdate" + allows)
			s.eventually("the member to have it", s.has(1, "config", "v1"))
			s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: NAME-second}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: NAME}]
  policy: {placementType: PickFixed, clusterNames: [NAME-1]}
  strategy: {type: RollingUpdate` + allows + `}`)
			s.comes("crp/NAME-second", "ClusterResourcePlacementApplied", "False", "ApplyFailed")
			s.eventually("both objects to be named", func() error {
				return errors.Join(
					s.failedAs("crp/NAME-second", "Namespace", "FailedToTakeOver"), s.failedAs("crp/NAME-second", "ConfigMap", "FailedToTakeOver"))
			})
			s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
			s.delete("crp/NAME")
			s.eventually("the first to be gone", s.gone(s.admin, "crp/NAME"))
			s.comes("crp/NAME-second", "ClusterResourcePlacementAvailable", "True", "")
			if err := s.has(1, "config", "v1")(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOwnedObjectIsNotTakenOver: an object that has an owner on the member is held back unless
// co-ownership is allowed; the other objects are applied.
func TestOwnedObjectIsNotTakenOver(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.found(1, foundNamespace, `{apiVersion: v1, kind: ConfigMap, metadata: {name: config, namespace: NAME,
  ownerReferences: [{apiVersion: example.com/v1, kind: Tenant, name: t, uid: u}]}, data: {key: found}}`)
	s.put("v1")
	s.apply(`{apiVersion: v1, kind: ConfigMap, metadata: {name: other, namespace: NAME}, data: {key: v1}}`)
	s.place("type: RollingUpdate")
	s.comes("crp/NAME", "ClusterResourcePlacementApplied", "False", "ApplyFailed")
	s.eventually("the object to be named", func() error { return s.failedAs("crp/NAME", "ConfigMap", "FailedToTakeOver") })
	if err := errors.Join(s.has(1, "config", "found")(), s.has(1, "other", "v1")()); err != nil {
		t.Error(err)
	}
	s.delete("crp/NAME")
	s.eventually("the placement to be gone", s.gone(s.admin, "crp/NAME"))
	if err := errors.Join(s.has(1, "config", "found")(), s.has(1, "other", "")()); err != nil {
		t.Error(err)
	}
}
