package hub_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// mirroring is a placement of the namespace NAME on the cluster NAME-1, with its status reported to
// a destination.
func mirroring(destination string) string {
	return `
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: NAME}]
  policy: {placementType: PickFixed, clusterNames: [NAME-1]}
  strategy: {type: External, reportBackStrategy: {type: Mirror, destination: ` + destination + `}}`
}

// runsReplicas sets the status of the Deployment on the first member.
func (s *scenario) runsReplicas(replicas int64) {
	s.Helper()
	s.eventually("the status of the Deployment on the member", func() error {
		u, err := s.read(s.member(1), "deploy/NAME/app")
		if err != nil {
			return err
		}
		u.Object["status"] = map[string]any{
			"observedGeneration": u.GetGeneration(), "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
			"conditions": []any{
				map[string]any{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "it runs"},
				map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "it runs"},
			},
		}
		return s.writeStatus(s.member(1), "deploy/NAME/app", u)
	})
}

// replicas returns the replicas in the status of the Deployment on the hub, or -1 without a status.
func (s *scenario) replicas() int64 {
	u, err := s.get("deploy/NAME/app")
	if err != nil {
		return -1
	}
	n, ok, _ := unstructured.NestedInt64(u.Object, "status", "availableReplicas")
	if !ok {
		return -1
	}
	return n
}

func (s *scenario) reports(want int64) func() error {
	return func() error {
		if got := s.replicas(); got != want {
			return fmt.Errorf("the Deployment on the hub reports %d replicas, want %d", got, want)
		}
		return nil
	}
}

// TestAStatusComesBackToItsOriginal: with reportBackStrategy OriginalResource, the object on the
// hub receives the status that it has on the one cluster, and nothing else of it changes. The
// status follows until the placement no longer requests it. An object that was created again
// receives nothing until it is on the cluster.
func TestAStatusComesBackToItsOriginal(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.apply(deployment)
	s.strategy("")
	s.apply(mirroring("OriginalResource"))
	s.scheduled()
	before, err := s.get("deploy/NAME/app")
	if err != nil {
		t.Fatal(err)
	}
	s.run("a", "")
	s.runsReplicas(1)
	s.eventually("the status to come", s.reports(1))
	after, err := s.get("deploy/NAME/app")
	if err != nil {
		t.Fatal(err)
	}
	there, err := s.read(s.member(1), "deploy/NAME/app")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(there.Object["status"], after.Object["status"]); diff != "" {
		t.Errorf("the status is another one (-member +hub):\n%s", diff)
	}
	for _, u := range []*unstructured.Unstructured{before, after} {
		u.SetManagedFields(nil)
		u.SetResourceVersion("")
		delete(u.Object, "status")
	}
	if diff := cmp.Diff(before.Object, after.Object); diff != "" {
		t.Errorf("more than the status was changed:\n%s", diff)
	}
	s.comes("csur/NAME-a", "Succeeded", "True", "")
	s.runsReplicas(2)
	s.eventually("the status to follow", s.reports(2))

	s.delete("deploy/NAME/app")
	s.apply(strings.Replace(deployment, "replicas: 1", "replicas: 5", 1))
	s.runsReplicas(3)
	s.stays("another object to get nothing", 4*time.Second, s.reports(-1))

	s.run("b", "")
	s.eventually("the other object to be on the cluster", func() error {
		u, err := s.read(s.member(1), "deploy/NAME/app")
		if err != nil {
			return err
		}
		if n, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas"); n != 5 {
			return fmt.Errorf("it has %d replicas", n)
		}
		return nil
	})
	s.runsReplicas(5)
	s.eventually("it to get its status", s.reports(5))

	s.patch("crp/NAME", `{spec: {strategy: {reportBackStrategy: {type: Disabled, destination: null}}}}`)
	s.comes("crp/NAME", "ClusterResourcePlacementScheduled", "True", "")
	s.runsReplicas(6)
	s.stays("the status to stay", 4*time.Second, s.reports(5))
}

// TestAStatusThatDoesNotComeBackIsReported: if a policy may pick more than one cluster, and with
// WorkAPI, nothing is written, and an Event of the placement gives the reason. The placement is
// served all the same.
func TestAStatusThatDoesNotComeBackIsReported(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.strategy("")
	s.apply(mirroring("WorkAPI"))
	told := func(words string) func() error {
		return func() error {
			for _, e := range s.events("crp/NAME", "StatusNotReportedBack") {
				if strings.Contains(e, words) {
					return nil
				}
			}
			return errors.New("no Event has the words " + words)
		}
	}
	s.eventually("an Event about WorkAPI", told("no Work objects"))
	s.comes("crp/NAME", "ClusterResourcePlacementScheduled", "True", "")
	s.patch("crp/NAME", `{spec: {strategy: {reportBackStrategy: {destination: OriginalResource}}, policy: {clusterNames: [NAME-1, NAME-2]}}}`)
	s.eventually("an Event about the policy", told("names one cluster"))
}
