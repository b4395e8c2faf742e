package status

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/stages"
)

const (
	// memberCheck is how often a member is asked whether it can be reached,
	// memberRecheck how often one that could not, and memberJoin how often a new one
	// that could not yet.
	memberCheck   = 5 * time.Minute
	memberRecheck = 30 * time.Second
	memberJoin    = 5 * time.Second
)

// Again is when the member is to be asked again.
func (f *MemberFacts) Again() time.Duration {
	switch {
	case f.joining():
		return memberJoin
	case f.Err != nil:
		return memberRecheck
	default:
		return memberCheck
	}
}

// MemberStatusOf is the status of a member with the hub's conditions. What others
// report there stays: properties, usage, their agents and their conditions.
func MemberStatusOf(obj *unstructured.Unstructured, now *MemberStatus) (map[string]any, error) {
	own, err := api.ToMap(now)
	if err != nil {
		return nil, err
	}
	whole, _, _ := unstructured.NestedMap(obj.Object, "status")
	if whole == nil {
		return own, nil
	}
	conditions, _ := own["conditions"].([]any)
	theirs, _, _ := unstructured.NestedSlice(whole, "conditions")
	for _, c := range theirs {
		if m, ok := c.(map[string]any); ok && !slices.ContainsFunc(now.Conditions, func(c metav1.Condition) bool { return c.Type == m["type"] }) {
			conditions = append(conditions, m)
		}
	}
	whole["conditions"] = conditions
	return whole, nil
}

// MemberFactsOf is what is known of a member that was just asked: when it joined
// and since when it is as it is stands in its status.
func MemberFactsOf(obj *unstructured.Unstructured, err error, now time.Time) *MemberFacts {
	f := &MemberFacts{Generation: obj.GetGeneration(), Created: obj.GetCreationTimestamp().Time, Err: err, Since: now, Now: now}
	if joined := api.ConditionOf(obj, api.ConditionJoined); joined.Status == "True" {
		f.Joined = joined.Since
	} else if err == nil {
		f.Joined = now
	}
	if healthy := api.ConditionOf(obj, api.ConditionHealthy); healthy.Status != "" && (healthy.Status == "True") == (err == nil) {
		f.Since = healthy.Since
	}
	return f
}

// MemberFacts are what the status of a MemberCluster is made of.
type MemberFacts struct {
	Generation int64
	Created    time.Time
	// Joined is when the cluster was first reached; zero for never.
	Joined time.Time
	// Err is why it could not be reached the last time, which was at Now, nil where
	// it could, and Since is since when that is so; zero where it was never tried.
	Err        error
	Since, Now time.Time
}

// memberJoins is how long a new member may not be reached before it counts as one
// that has not joined.
const memberJoins = time.Minute

// joining reports whether a member was never reached, and not for long.
func (f *MemberFacts) joining() bool {
	return f.Joined.IsZero() && f.Err != nil && f.Now.Before(f.Since.Add(memberJoins))
}

// MemberStatus is the status of a MemberCluster.
type MemberStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Member is the status of a member. There is no agent on it that would
// report: it has joined once it could be reached with the credentials that the
// hub has for it, and is healthy as long as it can.
func Member(f *MemberFacts) *MemberStatus {
	t := conditions{observedGeneration: f.Generation, created: max(stages.At(f.Created), 1)}
	return &MemberStatus{Conditions: []metav1.Condition{
		t.isTrue(api.ConditionReadyToJoin, api.ReasonReadyToJoin, "The hub takes the cluster as a member", 0),
		f.joined(t), f.healthy(t),
	}}
}

func (f *MemberFacts) joined(t conditions) metav1.Condition {
	switch {
	case !f.Joined.IsZero():
		return t.isTrue(api.ConditionJoined, api.ReasonJoined, "The API server of the cluster was reached", stages.At(f.Joined))
	case f.joining():
		return t.isUnknown(api.ConditionJoined, api.ReasonNotReached, "The API server of the cluster has not been reached yet: "+f.Err.Error(), stages.At(f.Since))
	case f.Err != nil:
		return t.isFalse(api.ConditionJoined, api.ReasonUnreachable, f.Err.Error(), stages.At(f.Since.Add(memberJoins)))
	default:
		return t.isUnknown(api.ConditionJoined, api.ReasonNotReached, "The API server of the cluster has not been asked yet", 0)
	}
}

func (f *MemberFacts) healthy(t conditions) metav1.Condition {
	switch {
	case f.Err != nil:
		return t.isFalse(api.ConditionHealthy, api.ReasonUnreachable, f.Err.Error(), stages.At(f.Since))
	case f.Since.IsZero():
		return t.isUnknown(api.ConditionHealthy, api.ReasonNotReached, "The API server of the cluster has not been asked yet", 0)
	default:
		return t.isTrue(api.ConditionHealthy, api.ReasonHealthy, "The API server of the cluster answers", stages.At(f.Since))
	}
}
