package status

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// A new member that is not reached at first is soon asked again.
func TestHowOftenAMemberIsAsked(t *testing.T) {
	since, away := clock(t, "10:00:00"), errors.New("timeout")
	for name, tc := range map[string]struct {
		facts MemberFacts
		want  time.Duration
	}{
		"reached":              {MemberFacts{Joined: since, Since: since, Now: since}, memberCheck},
		"not reached at first": {MemberFacts{Err: away, Since: since, Now: since}, memberJoin},
		"never reached":        {MemberFacts{Err: away, Since: since, Now: since.Add(memberJoins)}, memberRecheck},
		"away":                 {MemberFacts{Joined: since, Err: away, Since: since, Now: since}, memberRecheck},
	} {
		if got := tc.facts.Again(); got != tc.want {
			t.Errorf("%s: again after %v, want %v", name, got, tc.want)
		}
	}
}

func TestWhatOthersReportOfAMemberStays(t *testing.T) {
	obj := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"properties":  map[string]any{"kubernetes-fleet.io/node-count": map[string]any{"value": "3"}},
		"agentStatus": []any{map[string]any{"type": "MemberAgent"}},
		"conditions":  []any{map[string]any{"type": "Joined", "status": "False"}, map[string]any{"type": "Patched", "status": "True"}},
	}}}
	before := obj.DeepCopy()
	reached := Member(&MemberFacts{Created: clock(t, "10:00:00"), Joined: clock(t, "10:00:05"), Since: clock(t, "10:00:05")})
	got, err := MemberStatusOf(obj, reached)
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
