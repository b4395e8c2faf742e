package hub

import (
	"errors"
	"testing"
	"time"
)

func TestAMemberHasJoinedOnceItWasReached(t *testing.T) {
	ready := "ReadyToJoin=True MemberClusterReadyToJoin: The hub takes the cluster as a member"
	created, joined := clock(t, "10:00:00"), clock(t, "10:00:05")
	for name, tc := range map[string]struct {
		facts memberFacts
		want  []string
	}{
		"new": {memberFacts{}, []string{
			"Joined=Unknown MemberClusterNotReachedYet: The API server of the cluster has not been asked yet",
			"Healthy=Unknown MemberClusterNotReachedYet: The API server of the cluster has not been asked yet",
		}},
		"never reached": {memberFacts{Err: errors.New("connection refused"), Since: joined}, []string{
			"Joined=False MemberClusterUnreachable: connection refused", "Healthy=False MemberClusterUnreachable: connection refused",
		}},
		"reached": {memberFacts{Joined: joined, Since: joined}, []string{
			"Joined=True MemberClusterJoined: The API server of the cluster was reached", "Healthy=True MemberClusterHealthy: The API server of the cluster answers",
		}},
		"away": {memberFacts{Joined: joined, Err: errors.New("timeout"), Since: joined.Add(time.Hour)}, []string{
			"Joined=True MemberClusterJoined: The API server of the cluster was reached", "Healthy=False MemberClusterUnreachable: timeout",
		}},
	} {
		tc.facts.Created, tc.facts.Generation = created, 1
		wantTold(t, name, jsonOf(t, projectMember(&tc.facts))["conditions"], append([]string{ready}, tc.want...)...)
	}
}
