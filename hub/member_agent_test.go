package hub_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// agentOf returns the report of a member's agent: its conditions with their reasons, and the time
// of the last heartbeat.
func (s *scenario) agentOf(member string) (said string, heard time.Time) {
	s.Helper()
	u, err := s.get("mc/" + member)
	if err != nil {
		return err.Error(), heard
	}
	agents, _, _ := unstructured.NestedSlice(u.Object, "status", "agentStatus")
	for _, a := range agents {
		m := a.(map[string]any)
		said += fmt.Sprint(m["type"])
		conditions, _, _ := unstructured.NestedSlice(m, "conditions")
		for _, c := range conditions {
			c := c.(map[string]any)
			said += fmt.Sprintf(" %v=%v %v", c["type"], c["status"], c["reason"])
		}
		heard, _ = time.Parse(time.RFC3339, fmt.Sprint(m["lastReceivedHeartbeat"]))
	}
	return said, heard
}

// TestAMemberReportsAsItsAgentWould: the hub writes the status of an agent that does not exist, and
// the measurements of the member, but no field that another client reports. After that, the object
// does not change until the next heartbeat. The status of an unreachable member reports that, and
// keeps the time of the last heartbeat.
func TestAMemberReportsAsItsAgentWould(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.eventually("the agent of the member to report", func() error {
		if said, _ := s.agentOf("NAME-1"); said != "MemberAgent Joined=True InternalMemberClusterJoined Healthy=True InternalMemberClusterHealthy" {
			return errors.New(said)
		}
		return nil
	})
	_, heard := s.agentOf("NAME-1")
	if age := time.Since(heard); age < -2*time.Second || age > 5*time.Minute {
		t.Errorf("it was last heard of %v ago", age)
	}
	u, err := s.get("mc/NAME-1")
	if err != nil {
		t.Fatal(err)
	}
	nodes, _, _ := unstructured.NestedString(u.Object, "status", "properties", "kubernetes-fleet.io/node-count", "value")
	cpu, _, _ := unstructured.NestedString(u.Object, "status", "resourceUsage", "allocatable", "cpu")
	if nodes != "0" || cpu != "0" {
		t.Errorf("%q nodes with %q cpus, want none: %v", nodes, cpu, u.Object["status"])
	}
	if _, found, _ := unstructured.NestedMap(u.Object, "status", "namespaces"); found {
		t.Error("namespaces are listed, which was not asked for")
	}

	s.eventually("the member to rest", func() error {
		before, err := s.get("mc/NAME-1")
		if err != nil {
			return err
		}
		time.Sleep(12 * time.Second) // longer than the hub waits before it corrects a status
		after, err := s.get("mc/NAME-1")
		if err == nil && after.GetResourceVersion() != before.GetResourceVersion() {
			err = errors.New("it was written")
		}
		return err
	})
	if _, err := s.admin.Resource(s.resourceOf("mc")).Patch(t.Context(), s.own("NAME-1"), mergePatch,
		[]byte(`{"status": {"properties": {"kubernetes-fleet.io/node-count": {"value": "7", "observationTime": "2026-01-01T00:00:00Z"}}}}`),
		metav1.PatchOptions{FieldManager: "another"}, "status"); err != nil {
		t.Fatal(err)
	}

	_, heard = s.agentOf("NAME-1")
	away := s.way(1)
	away.Host = "https://127.0.0.1:1"
	s.route.set(s.own("NAME-1"), away)
	s.route.lose(s.own("NAME-1"))
	s.patch("mc/NAME-1", `{metadata: {labels: {asked: again}}}`)
	s.eventually("the agent of a member that is away to say so", func() error {
		if said, _ := s.agentOf("NAME-1"); said != "MemberAgent Joined=True InternalMemberClusterJoined Healthy=False InternalMemberClusterUnhealthy" {
			return errors.New(said)
		}
		return nil
	})
	if _, now := s.agentOf("NAME-1"); !now.Equal(heard) {
		t.Errorf("it was last heard of at %v, and at %v before it was away", now, heard)
	}
	if u, err = s.get("mc/NAME-1"); err != nil {
		t.Fatal(err)
	}
	if nodes, _, _ := unstructured.NestedString(u.Object, "status", "properties", "kubernetes-fleet.io/node-count", "value"); nodes != "7" {
		t.Errorf("%s nodes, and another client reports 7", nodes)
	}
}
