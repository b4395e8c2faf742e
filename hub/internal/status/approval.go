package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/stages"
)

// RequestsOfStages removes the requests of groups. No strategy of the API has any, and the object
// of a group's request would have the name of its stage's.
func RequestsOfStages(open []approval.Request) []approval.Request {
	return slices.DeleteFunc(open, func(r approval.Request) bool { return r.Group != "" })
}

// RequestName returns the name of the object of a request: the engine's name of the request, but
// starting with the name of the run's object.
func RequestName(run string, r *approval.Request) string {
	return run + strings.TrimPrefix(r.Name, r.Run)
}

// ApprovalFacts are the input of [ApprovalRequest].
type ApprovalFacts struct {
	// Run, Namespace and RunUID identify the object of the run.
	Run, Namespace string
	RunUID         types.UID
	Request        *approval.Request
}

// ApprovalRequest returns the object that asks people for an approval. The run owns it, so it is
// deleted with the run.
func ApprovalRequest(f *ApprovalFacts) (*unstructured.Unstructured, error) {
	in, r := api.Scope(f.Namespace != ""), f.Request
	u, err := api.New(in.GVK(api.ApprovalKind), f.spec())
	if err != nil {
		return nil, err
	}
	task := api.TaskAfter
	if r.When == approval.Before {
		task = api.TaskBefore
	}
	u.SetNamespace(f.Namespace)
	u.SetName(RequestName(f.Run, r))
	u.SetLabels(map[string]string{
		api.LabelRun: f.Run, api.LabelStage: r.Stage, api.LabelTask: task, api.LabelLatestApproval: "true",
	})
	u.SetOwnerReferences([]metav1.OwnerReference{OwnedBy(in, api.RunKind, f.Run, f.RunUID)})
	return u, nil
}

// spec returns a spec that binds an answer to one attempt at one gate of one run of one plan. The
// spec of a request cannot be changed, so a question that is asked again is a new object.
func (f *ApprovalFacts) spec() *v1beta1.ApprovalRequestSpec {
	r := f.Request
	s := &v1beta1.ApprovalRequestSpec{
		TargetUpdateRun: f.Run, TargetStage: r.Stage, RunUID: r.RunUID, PlanDigest: r.Binding.Plan, Attempt: int32(r.Attempt),
	}
	if r.Starter.Name != "" {
		s.StartedBy = &v1beta1.Identity{Username: r.Starter.Name}
	}
	if p := r.Policy; len(p.Quorums) > 0 || p.ForbidStarter || p.DistinctApprovers || p.RequireBinding {
		s.Policy = &v1beta1.ApprovalPolicy{ForbidStarter: p.ForbidStarter, DistinctApprovers: p.DistinctApprovers, RequireBinding: p.RequireBinding}
		for _, q := range p.Quorums {
			s.Policy.Quorums = append(s.Policy.Quorums, v1beta1.ApprovalQuorum{Group: q.Group, Count: int32(q.Count)})
		}
	}
	if r.Policy.Expires.Duration > 0 {
		s.Expires = api.SecondsOrNil(stages.At(r.Opened.Add(r.Policy.Expires.Duration)))
	}
	return s
}

func quorumsOf(p *v1beta1.ApprovalPolicy) (out []approval.Quorum) {
	for _, q := range p.Quorums {
		out = append(out, approval.Quorum{Group: q.Group, Count: int(q.Count)})
	}
	return out
}

// OwnedBy returns a controller reference to the owner, an object of the kind base.
func OwnedBy(in api.Scope, base, name string, uid types.UID) metav1.OwnerReference {
	yes := true
	gvk := in.GVK(base)
	return metav1.OwnerReference{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: name, UID: uid,
		Controller: &yes, BlockOwnerDeletion: &yes,
	}
}

// Answer is one answer in the status of a request.
type Answer struct {
	// Verdict is empty if there is no answer yet.
	Verdict approval.Verdict
	// By is empty if the API server did not record the author.
	By      approval.Identity
	Comment string
}

// approvalStatus holds the fields that are read from the status of a ClusterApprovalRequest.
type approvalStatus struct {
	Conditions []approvalCondition `json:"conditions,omitempty"`
	// Decisions are the first approval and the first rejection of each person. The admission policy
	// writes them with the identity that the API server authenticated.
	Decisions []v1beta1.ApprovalDecision `json:"decisions,omitempty"`
}

// approvalCondition is a condition without lastTransitionTime: people write that time themselves,
// so it proves nothing.
type approvalCondition struct {
	Type               string                 `json:"type"`
	Status             metav1.ConditionStatus `json:"status"`
	Reason             string                 `json:"reason"`
	Message            string                 `json:"message"`
	ObservedGeneration int64                  `json:"observedGeneration"`
}

// answerOf returns the answer in the conditions of a request, without its author.
//
// Approved=True approves. Approved=False means "not yet", as in KubeFleet, unless its reason is
// Rejected: then it rejects, and so does Rejected=True. A condition of another generation is no
// answer to this object.
func answerOf(obj *unstructured.Unstructured, s *approvalStatus) Answer {
	var out Answer
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if !c.isAbout(obj) {
			continue
		}
		if v := verdictOf(c); v == approval.Reject || v != "" && out.Verdict == "" {
			out = Answer{Verdict: v, Comment: api.Printable(c.Message, longestComment)}
		}
	}
	return out
}

// isAbout reports whether a condition has the generation of the object or none. KubeFleet ignores a
// condition without observedGeneration; here it counts, because the spec of a request never changes
// and so there is only one generation.
func (c *approvalCondition) isAbout(obj *unstructured.Unstructured) bool {
	return c.ObservedGeneration == 0 || c.ObservedGeneration == obj.GetGeneration()
}

// OtherGenerations returns a text for each condition that would be an answer but has another
// generation than the request. The text says why the condition does not count.
func OtherGenerations(obj *unstructured.Unstructured) []string {
	var s approvalStatus
	if api.FromMap(obj, "status", &s) != nil {
		return nil
	}
	var out []string
	for i := range s.Conditions {
		if c := &s.Conditions[i]; verdictOf(c) != "" && !c.isAbout(obj) {
			out = append(out, fmt.Sprintf("condition %s has the observedGeneration %d and the request the generation %d: it answers something else; write %d, or leave it out",
				c.Type, c.ObservedGeneration, obj.GetGeneration(), obj.GetGeneration()))
		}
	}
	return out
}

// IsConcluded reports whether a request says that it was approved. Only the hub can write that.
func IsConcluded(obj *unstructured.Unstructured) bool {
	return api.ConditionOf(obj, api.ConditionAccepted).Status == "True"
}

// Untaken returns the answers in a request that are not among the decisions in taken; none if the
// request says that it was approved. The authors are the ones in the request, whether or not the
// admission policy vouches for them.
func Untaken(obj *unstructured.Unstructured, taken []approval.Decision) []Answer {
	if IsConcluded(obj) {
		return nil
	}
	answers, err := AnswersOf(obj, true)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(answers, func(a Answer) bool {
		return slices.ContainsFunc(taken, func(d approval.Decision) bool {
			return d.Verdict == a.Verdict && (d.By.Name == a.By.Name || d.By.Name == Anybody().Name)
		})
	})
}

// AnswersOf returns all answers in a request. If the admission policy stamps requests and recorded
// decisions, these are the decisions of each person; otherwise it is the answer in the conditions,
// without its author.
func AnswersOf(obj *unstructured.Unstructured, stamped bool) ([]Answer, error) {
	var s approvalStatus
	if err := api.FromMap(obj, "status", &s); err != nil {
		return nil, err
	}
	if !stamped || len(s.Decisions) == 0 {
		if a := answerOf(obj, &s); a.Verdict != "" {
			return []Answer{a}, nil
		}
		return nil, nil
	}
	stands := slices.ContainsFunc(s.Conditions, func(c approvalCondition) bool {
		return verdictOf(&c) == approval.Approve && c.isAbout(obj)
	})
	out := make([]Answer, 0, len(s.Decisions))
	for _, d := range s.Decisions {
		verdict := approval.Verdict(d.Verdict)
		if verdict == approval.Approve && !stands {
			continue // withdrawn
		}
		by := approval.Identity{Name: d.By.Username, Groups: d.By.Groups}
		out = append(out, Answer{Verdict: verdict, By: by, Comment: api.Printable(d.Comment, longestComment)})
	}
	return out, nil
}

// longestComment is the longest comment that package approval accepts, in bytes.
const longestComment = 1024

func verdictOf(c *approvalCondition) approval.Verdict {
	switch {
	case c.Type == api.ConditionApproved && c.Status == metav1.ConditionTrue:
		return approval.Approve
	case c.Type == api.ConditionRejected && c.Status == metav1.ConditionTrue,
		c.Type == api.ConditionApproved && c.Status == metav1.ConditionFalse && c.Reason == api.ReasonRejected:
		return approval.Reject
	default:
		return ""
	}
}

// AnybodyMayDecide reports whether a policy accepts an answer without an author.
func AnybodyMayDecide(p approval.Policy) bool {
	for _, q := range p.Quorums {
		if q.Group != "" || q.Count > 1 {
			return false
		}
	}
	return !p.ForbidStarter
}

// Anybody returns the identity for an answer without an author: the API server did not record one.
func Anybody() approval.Identity { return approval.Identity{Name: "system:unknown"} }

// AcceptedCondition returns the condition of a request that was approved. This is final.
func AcceptedCondition(generation int64, at time.Time) metav1.Condition {
	return conditions{observedGeneration: generation}.isTrue(api.ConditionAccepted, api.ReasonAccepted,
		"The approval request has been approved and cannot be reverted", stages.At(at))
}

// RejectedCondition returns the condition of a request that was rejected. This is final.
func RejectedCondition(generation int64, by string, at time.Time) metav1.Condition {
	return conditions{observedGeneration: generation}.isFalse(api.ConditionAccepted, api.ReasonRequestRejected,
		"The approval request has been rejected by "+by+" and cannot be reverted", stages.At(at))
}

// RefusedCondition returns the condition that says why an answer does not count. Another answer may
// count.
func RefusedCondition(generation int64, why string, at time.Time) metav1.Condition {
	return conditions{observedGeneration: generation}.isFalse(api.ConditionAccepted, api.ReasonRefused, why, stages.At(at))
}

// UnvouchedCondition returns the condition that says why no answer counts, from any author.
func UnvouchedCondition(generation int64, why string, at time.Time) metav1.Condition {
	return conditions{observedGeneration: generation}.isFalse(api.ConditionAccepted, api.ReasonUnvouched, why, stages.At(at))
}

// WithCondition returns the status of a request with the condition c of the hub and all its other
// fields. It returns nil if the request already has a condition with the same status, reason and
// message, whatever its time.
func WithCondition(obj *unstructured.Unstructured, c metav1.Condition) (map[string]any, error) {
	next, err := api.ToMap(&c)
	if err != nil {
		return nil, err
	}
	status, _, _ := unstructured.NestedMap(obj.Object, "status")
	if status == nil {
		status = map[string]any{}
	}
	list, _ := status["conditions"].([]any)
	var rest []any
	for _, item := range list {
		m, ok := item.(map[string]any)
		switch {
		case !ok || m["type"] != c.Type:
			rest = append(rest, item)
		case m["status"] == next["status"] && m["reason"] == next["reason"] && m["message"] == next["message"]:
			return nil, nil
		}
	}
	status["conditions"] = append(rest, next)
	return status, nil
}
