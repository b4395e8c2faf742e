package status

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/stages"
)

func TestAMemberHasJoinedOnceItWasReached(t *testing.T) {
	ready := "ReadyToJoin=True MemberClusterReadyToJoin: The hub takes the cluster as a member"
	created, joined := clock(t, "10:00:00"), clock(t, "10:00:05")
	for name, tc := range map[string]struct {
		facts MemberFacts
		want  []string
	}{
		"new": {MemberFacts{}, []string{
			"Joined=Unknown MemberClusterNotReachedYet: The API server of the cluster has not been asked yet",
			"Healthy=Unknown MemberClusterNotReachedYet: The API server of the cluster has not been asked yet",
		}},
		"not reached at first": {MemberFacts{Err: errors.New("connection refused"), Since: joined, Now: joined.Add(memberJoins - 1)}, []string{
			"Joined=Unknown MemberClusterNotReachedYet: The API server of the cluster has not been reached yet: connection refused",
			"Healthy=False MemberClusterUnreachable: connection refused",
		}},
		"never reached": {MemberFacts{Err: errors.New("connection refused"), Since: joined, Now: joined.Add(memberJoins)}, []string{
			"Joined=False MemberClusterUnreachable: connection refused", "Healthy=False MemberClusterUnreachable: connection refused",
		}},
		"reached": {MemberFacts{Joined: joined, Since: joined}, []string{
			"Joined=True MemberClusterJoined: The API server of the cluster was reached", "Healthy=True MemberClusterHealthy: The API server of the cluster answers",
		}},
		"away": {MemberFacts{Joined: joined, Err: errors.New("timeout"), Since: joined.Add(time.Hour)}, []string{
			"Joined=True MemberClusterJoined: The API server of the cluster was reached", "Healthy=False MemberClusterUnreachable: timeout",
		}},
	} {
		tc.facts.Created, tc.facts.Generation = created, 1
		wantTold(t, name, jsonOf(t, Member(&tc.facts))["conditions"], append([]string{ready}, tc.want...)...)
	}
}

// A new member that is not reached at first is soon checked again.
func TestMemberCheckInterval(t *testing.T) {
	since, away := clock(t, "10:00:00"), errors.New("timeout")
	for name, tc := range map[string]struct {
		facts MemberFacts
		want  time.Duration
	}{
		"reached":                    {MemberFacts{Joined: since, Since: since, Now: since}, memberCheck},
		"not reached at first":       {MemberFacts{Err: away, Since: since, Now: since}, memberJoin},
		"never reached":              {MemberFacts{Err: away, Since: since, Now: since.Add(memberJoins)}, memberRecheck},
		"reached, namespaces unread": {MemberFacts{Joined: since, Since: since, Now: since, Unmeasured: true}, memberRecheck},
		"away":                       {MemberFacts{Joined: since, Err: away, Since: since, Now: since}, memberRecheck},
	} {
		if got := tc.facts.Again(0.5); got != tc.want {
			t.Errorf("%s: again after %v, want %v", name, got, tc.want)
		}
	}
}

func TestMemberStatusKeepsForeignFields(t *testing.T) {
	obj := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"properties":  map[string]any{"kubernetes-fleet.io/node-count": map[string]any{"value": "3"}},
		"agentStatus": []any{map[string]any{"type": "ServiceExportImportAgent"}},
		"conditions":  []any{map[string]any{"type": "Joined", "status": "False"}, map[string]any{"type": "Patched", "status": "True"}},
	}}}
	before := obj.DeepCopy()
	got, err := MemberStatusOf(obj, &MemberFacts{Created: clock(t, "10:00:00"), Joined: clock(t, "10:00:05"), Since: clock(t, "10:00:05")})
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, c := range got["conditions"].([]any) {
		types = append(types, fmt.Sprint(c.(map[string]any)["type"], "=", c.(map[string]any)["status"]))
	}
	if diff := cmp.Diff([]string{"ReadyToJoin=True", "Joined=True", "Healthy=True", "Patched=True"}, types); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	delete(got, "conditions")
	want := before.Object["status"].(map[string]any)
	delete(want, "conditions")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Because members have no agent, the hub writes the agent's status. It begins with the first
// contact with the member, and the heartbeat is the time of the last contact.
func TestAgentStatus(t *testing.T) {
	joined, heard := clock(t, "10:00:05"), clock(t, "10:06:00")
	for name, tc := range map[string]struct {
		facts MemberFacts
		want  string
	}{
		"never reached": {MemberFacts{Err: errors.New("timeout"), Since: joined, Now: joined}, ""},
		"reached": {
			MemberFacts{Joined: joined, Since: joined, Heartbeat: heard},
			"MemberAgent 10:06:00 Joined=True InternalMemberClusterJoined 10:00:05, Healthy=True InternalMemberClusterHealthy 10:00:05",
		},
		"away": {
			MemberFacts{Joined: joined, Since: heard.Add(time.Minute), Err: errors.New("timeout"), Heartbeat: heard},
			"MemberAgent 10:06:00 Joined=True InternalMemberClusterJoined 10:00:05, Healthy=False InternalMemberClusterUnhealthy 10:07:00",
		},
	} {
		tc.facts.Created, tc.facts.Generation = clock(t, "10:00:00"), 1
		got := ""
		for _, a := range Member(&tc.facts).AgentStatus {
			got = string(a.Type) + " " + a.LastReceivedHeartbeat.UTC().Format(time.TimeOnly)
			for i, c := range a.Conditions {
				got += []string{" ", ", "}[min(i, 1)] + fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.LastTransitionTime.UTC().Format(time.TimeOnly))
			}
		}
		if got != tc.want {
			t.Errorf("%s:\n%q, want\n%q", name, got, tc.want)
		}
	}
}

// TestHeartbeatsStayFresh simulates 5,000 members for an hour; one check in fifty fails. No
// heartbeat may become 5 minutes old, because an inventory then gives the member nothing new. The
// hub may write about 42 heartbeats a second, and at most twice as many in any second after the
// first checks, which are simultaneous.
func TestHeartbeatsStayFresh(t *testing.T) {
	const members, hour, settled = 5000, time.Hour, 30 * time.Minute
	random := rand.New(rand.NewPCG(1, 2))
	seconds := make([]int, int(hour/time.Second)+1)
	var oldest time.Duration
	for range members {
		heard := time.Duration(0)
		for at, failed := time.Duration(0), false; at < hour; {
			f := MemberFacts{Joined: time.Unix(1, 0)}
			if failed = !failed && random.IntN(50) == 0; failed {
				f.Err = errors.New("timeout")
				at += 10 * time.Second // the duration of the failed check
			} else {
				seconds[at/time.Second]++
				oldest, heard = max(oldest, at-heard), at
			}
			at += f.Again(random.Float64())
		}
	}
	if oldest >= 5*time.Minute {
		t.Errorf("a member was last heard of %v ago", oldest)
	}
	written, most := 0, 0
	for _, n := range seconds[settled/time.Second:] {
		written, most = written+n, max(most, n)
	}
	average := float64(written) / (hour - settled).Seconds()
	t.Logf("%.1f heartbeats a second, at most %d; the oldest was %v", average, most, oldest)
	if average > 45 || most > 90 {
		t.Errorf("%.1f heartbeats a second, at most %d", average, most)
	}
}

// One measurement of a member, beside a property of another client.
func TestMemberMeasurementsAreWritten(t *testing.T) {
	nodes, now := 3, clock(t, "10:06:00")
	amounts := func(cpu, memory string) map[string]resource.Quantity {
		return map[string]resource.Quantity{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	}
	f := MemberFacts{
		Created: now, Joined: now, Since: now, Now: now, Heartbeat: now, Generation: 1,
		Measured: &MemberMeasurement{Nodes: &nodes, Capacity: amounts("6", "12Gi"), Allocatable: amounts("5500m", "10Gi"), Available: amounts("500m", "0"), Namespaces: []string{"a", "b"}},
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"properties": map[string]any{"example.com/gpus": map[string]any{"value": "8"}},
		"namespaces": map[string]any{"gone": ""},
	}}}
	got, err := MemberStatusOf(obj, &f)
	if err != nil {
		t.Fatal(err)
	}
	wantTold(t, "conditions", got["conditions"],
		"ReadyToJoin=True MemberClusterReadyToJoin: The hub takes the cluster as a member",
		"Joined=True MemberClusterJoined: The API server of the cluster was reached", "Healthy=True MemberClusterHealthy: The API server of the cluster answers",
		"NamespaceCollectionSucceeded=True Succeeded: All namespaces of the cluster are listed")
	delete(got, "conditions")
	delete(got, "agentStatus")
	at := api.Seconds(stages.At(now)).UTC().Format(time.RFC3339)
	want := map[string]any{
		"properties": map[string]any{
			"example.com/gpus": map[string]any{"value": "8"}, "kubernetes-fleet.io/node-count": map[string]any{"value": "3", "observationTime": at},
		},
		"resourceUsage": map[string]any{
			"capacity": map[string]any{"cpu": "6", "memory": "12Gi"}, "allocatable": map[string]any{"cpu": "5500m", "memory": "10Gi"},
			"available": map[string]any{"cpu": "500m", "memory": "0"}, "observationTime": at,
		},
		"namespaces": map[string]any{"a": "", "b": ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Namespaces that are no longer collected are removed if a hub wrote them; namespaces of another
// client stay.
func TestNamespacesThatAreNotCollectedAnyMoreGo(t *testing.T) {
	for message, want := range map[string]any{allNamespaces: nil, "collected by another client": map[string]any{"a": ""}} {
		obj := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
			"conditions": []any{map[string]any{"type": "NamespaceCollectionSucceeded", "status": "True", "message": message}},
			"namespaces": map[string]any{"a": ""},
		}}}
		got, err := MemberStatusOf(obj, &MemberFacts{Uncollected: true})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got["namespaces"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", message, diff)
		}
		if n := len(got["conditions"].([]any)); (n == 4) != (want != nil) {
			t.Errorf("%s: %d conditions", message, n)
		}
	}
}
