package hub_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// If a placement takes objects from one namespace and that namespace does not exist, Scheduled
// reports it until the namespace is created. Members keep their objects while the selection is
// invalid.
func TestMissingNamespaceOfASelection(t *testing.T) {
	for _, strategy := range []string{"type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, unavailablePeriodSeconds: 0}", "type: External"} {
		t.Run(strategy, func(t *testing.T) {
			s := newScenario(t, openVouched, 1)
			s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: NAME}
spec:
  resourceSelectors:
  - {group: "", version: v1, kind: Namespace, name: NAME-shop, selectionScope: NamespaceWithResourceSelectors}
  - {group: "", version: v1, kind: ConfigMap, name: config}
  policy:
    affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchLabels: {story: NAME}}}]}}}
  strategy: {` + strategy + `}`)
			s.comes("crp/NAME", "ClusterResourcePlacementScheduled", "False", "InvalidResourceSelectors: ")
			s.comes("crp/NAME", "ClusterResourcePlacementScheduled", "False", `selectors[0].name: Not found: "NAME-shop": there is no Namespace of this name`)
			s.stays("that it is not Available", time.Second, func() error {
				if s.condition("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")() == nil {
					return errors.New("it is Available")
				}
				return nil
			})
			s.apply(`{apiVersion: v1, kind: Namespace, metadata: {name: NAME-shop}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: config, namespace: NAME-shop}, data: {key: v1}}`)
			s.comes("crp/NAME", "ClusterResourcePlacementScheduled", "True", "")
			if strategy == "type: External" {
				return
			}
			s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
			if _, err := s.read(s.member(1), "cm/NAME-shop/config"); err != nil {
				t.Error(err)
			}
			s.delete("ns/NAME-shop")
			s.comes("crp/NAME", "ClusterResourcePlacementScheduled", "False", `"NAME-shop": there is no Namespace of this name, or it is being deleted`)
			s.stays("the object on the member", time.Second, func() error {
				_, err := s.read(s.member(1), "cm/NAME-shop/config")
				return err
			})
		})
	}
}

// A placement of a whole Namespace is empty once the Namespace is deleted on the hub. As in
// KubeFleet, members lose their objects of it, and Scheduled and an event give the reason.
func TestANamespaceThatIsDeletedOnTheHub(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.place("type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, unavailablePeriodSeconds: 0}")
	s.eventually("the object", s.has(1, "config", "v1"))
	s.delete("ns/NAME")
	s.eventually("the object to go from the member", func() error {
		if _, err := s.read(s.member(1), "cm/NAME/config"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	s.comes("crp/NAME", "ClusterResourcePlacementScheduled", "True", "1 Namespace left out, NAME: a selector names it, and it does not exist or is being deleted")
	s.eventually("an event", func() error {
		if events := s.events("crp/NAME", "LeftOut"); !slices.ContainsFunc(events, func(e string) bool { return strings.Contains(e, s.own("NAME: a selector names it")) }) {
			return fmt.Errorf("events %q", events)
		}
		return nil
	})
}
