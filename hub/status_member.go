package hub

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/stages"
)

// memberFacts are what the status of a MemberCluster is made of.
type memberFacts struct {
	Generation int64
	Created    time.Time
	// Joined is when the cluster was first reached; zero for never.
	Joined time.Time
	// Err is why it could not be reached the last time, which was at Now, nil where
	// it could, and Since is since when that is so; zero where nobody has tried.
	Err        error
	Since, Now time.Time
}

// memberJoins is how long a new member may not be reached before it counts as one
// that has not joined.
const memberJoins = time.Minute

// joining reports whether a member was never reached, and not for long.
func (f *memberFacts) joining() bool {
	return f.Joined.IsZero() && f.Err != nil && f.Now.Before(f.Since.Add(memberJoins))
}

// memberStatus is the status of a MemberCluster.
type memberStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// projectMember is the status of a member. There is no agent on it that would
// report: it has joined once it could be reached with the credentials that the
// hub has for it, and is healthy as long as it can.
func projectMember(f *memberFacts) *memberStatus {
	t := teller{generation: f.Generation, birth: max(stages.At(f.Created), 1)}
	return &memberStatus{Conditions: []metav1.Condition{
		t.yes(conditionReadyToJoin, reasonReadyToJoin, "The hub takes the cluster as a member", 0),
		f.joined(t), f.healthy(t),
	}}
}

func (f *memberFacts) joined(t teller) metav1.Condition {
	switch {
	case !f.Joined.IsZero():
		return t.yes(conditionJoined, reasonJoined, "The API server of the cluster was reached", stages.At(f.Joined))
	case f.joining():
		return t.unknown(conditionJoined, reasonNotReached, "The API server of the cluster has not been reached yet: "+f.Err.Error(), stages.At(f.Since))
	case f.Err != nil:
		return t.no(conditionJoined, reasonUnreachable, f.Err.Error(), stages.At(f.Since.Add(memberJoins)))
	default:
		return t.unknown(conditionJoined, reasonNotReached, "The API server of the cluster has not been asked yet", 0)
	}
}

func (f *memberFacts) healthy(t teller) metav1.Condition {
	switch {
	case f.Err != nil:
		return t.no(conditionHealthy, reasonUnreachable, f.Err.Error(), stages.At(f.Since))
	case f.Since.IsZero():
		return t.unknown(conditionHealthy, reasonNotReached, "The API server of the cluster has not been asked yet", 0)
	default:
		return t.yes(conditionHealthy, reasonHealthy, "The API server of the cluster answers", stages.At(f.Since))
	}
}
