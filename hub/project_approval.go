package hub

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// approvalFacts are what the object of a request is made of.
type approvalFacts struct {
	// Run, Namespace and RunUID are those of the run's object.
	Run, Namespace string
	RunUID         types.UID
	Request        *approval.Request
}

// approvalSpec is the spec of a ClusterApprovalRequest. All but the first two
// fields are Slipway's own: they bind an answer to one attempt at one gate of
// one run of one plan. A spec cannot be changed, so what is asked again is
// another object.
type approvalSpec struct {
	Run     string       `json:"parentStageRollout"`
	Stage   string       `json:"targetStage"`
	RunUID  string       `json:"runUID,omitempty"`
	Plan    string       `json:"planDigest,omitempty"`
	Attempt int64        `json:"attempt,omitempty"`
	Expires *metav1.Time `json:"expires,omitempty"`
}

// approvalObject is the object by which people are asked. It belongs to the run,
// and goes with it.
func approvalObject(f *approvalFacts) (*unstructured.Unstructured, error) {
	in, r := scope(f.Namespace != ""), f.Request
	spec, err := toMap(f.spec())
	if err != nil {
		return nil, err
	}
	task := taskAfter
	if r.When == approval.Before {
		task = taskBefore
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(in.gvk(approvalKind))
	u.SetNamespace(f.Namespace)
	u.SetName(approval.RequestName(f.Run, r.Stage, r.When))
	u.SetLabels(map[string]string{
		labelRun: f.Run, labelStage: r.Stage, labelTask: task, labelLatestApproval: "true",
	})
	u.SetOwnerReferences([]metav1.OwnerReference{ownedBy(in, runKind, f.Run, f.RunUID)})
	return u, nil
}

func (f *approvalFacts) spec() *approvalSpec {
	r := f.Request
	s := &approvalSpec{Run: f.Run, Stage: r.Stage, RunUID: r.RunUID, Plan: r.Binding.Plan, Attempt: int64(r.Attempt)}
	if r.Policy.Expires > 0 {
		s.Expires = secondsOrNil(stages.At(r.Opened.Add(r.Policy.Expires)))
	}
	return s
}

// ownedBy is the reference to the object of which others are made.
func ownedBy(in scope, base, name string, uid types.UID) metav1.OwnerReference {
	yes := true
	gvk := in.gvk(base)
	return metav1.OwnerReference{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: name, UID: uid,
		Controller: &yes, BlockOwnerDeletion: &yes,
	}
}

// answer is what a request's status says.
type answer struct {
	// Verdict is empty where nobody has answered yet.
	Verdict approval.Verdict
	// By is empty where nobody vouches for who it was.
	By      approval.Identity
	Comment string
}

// approvalStatus is the status of a ClusterApprovalRequest, as far as it is read.
type approvalStatus struct {
	Conditions []approvalCondition `json:"conditions,omitempty"`
	// Decisions are the first answers of either kind that each person gave, written
	// by the admission policy from what the API server authenticated.
	Decisions []stampedDecision `json:"decisions,omitempty"`
}

// stampedDecision is an answer with who gave it.
type stampedDecision struct {
	Verdict approval.Verdict `json:"verdict"`
	By      approver         `json:"by"`
	Comment string           `json:"comment,omitempty"`
}

// approvalCondition is a condition without when it changed: people write that
// themselves, and it says nothing.
type approvalCondition struct {
	Type               string                 `json:"type"`
	Status             metav1.ConditionStatus `json:"status"`
	Reason             string                 `json:"reason"`
	Message            string                 `json:"message"`
	ObservedGeneration int64                  `json:"observedGeneration"`
}

// approver is who an API server authenticated.
type approver struct {
	Username string   `json:"username"`
	UID      string   `json:"uid,omitempty"`
	Groups   []string `json:"groups,omitempty"`
}

// answerOf reads the answer that stands in the conditions of a request. Nobody
// vouches for who gave it.
//
// Approved=True approves. Approved=False is "not yet", as in KubeFleet, unless
// its reason is Rejected: then it rejects, as Rejected=True does. Conditions of
// another generation are no answer to this object.
func answerOf(obj *unstructured.Unstructured, s *approvalStatus) answer {
	var out answer
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if !c.isAbout(obj) {
			continue
		}
		if v := verdictOf(c); v == approval.Reject || v != "" && out.Verdict == "" {
			out = answer{Verdict: v, Comment: printable(c.Message, longestComment)}
		}
	}
	return out
}

// isAbout reports whether a condition is about the object as it is: its observedGeneration is the object's. It may be
// missing, where KubeFleet counts nothing: the spec of a request never changes, so there is no other generation.
func (c *approvalCondition) isAbout(obj *unstructured.Unstructured) bool {
	return c.ObservedGeneration == 0 || c.ObservedGeneration == obj.GetGeneration()
}

// otherGenerations says of each condition that would be an answer to another generation of a request why it is none.
func otherGenerations(obj *unstructured.Unstructured) []string {
	var s approvalStatus
	if fromMap(obj, "status", &s) != nil {
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

// isConcluded reports whether a request says that it was approved, which only the hub can write.
func isConcluded(obj *unstructured.Unstructured) bool {
	return conditionOf(obj, conditionAccepted).Status == "True"
}

// untaken are the answers in a request that are not among the decisions that were taken. A request that says what came
// of it has none. Authors are those that the request names, whatever vouches for them.
func untaken(obj *unstructured.Unstructured, taken []approval.Decision) []answer {
	if isConcluded(obj) {
		return nil
	}
	answers, err := answersOf(obj, true)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(answers, func(a answer) bool {
		return slices.ContainsFunc(taken, func(d approval.Decision) bool {
			return d.Verdict == a.Verdict && (d.By.Name == a.By.Name || d.By.Name == anybody().Name)
		})
	})
}

// answersOf reads all answers to a request out of the object: those of each person
// where the admission policy vouches for who they are, and else the one that
// stands there.
func answersOf(obj *unstructured.Unstructured, stamped bool) ([]answer, error) {
	var s approvalStatus
	if err := fromMap(obj, "status", &s); err != nil {
		return nil, err
	}
	if !stamped || len(s.Decisions) == 0 {
		if a := answerOf(obj, &s); a.Verdict != "" {
			return []answer{a}, nil
		}
		return nil, nil
	}
	stands := slices.ContainsFunc(s.Conditions, func(c approvalCondition) bool {
		return verdictOf(&c) == approval.Approve && c.isAbout(obj)
	})
	out := make([]answer, 0, len(s.Decisions))
	for _, d := range s.Decisions {
		if d.Verdict == approval.Approve && !stands {
			continue // it was taken back
		}
		by := approval.Identity{Name: d.By.Username, Groups: d.By.Groups}
		out = append(out, answer{Verdict: d.Verdict, By: by, Comment: printable(d.Comment, longestComment)})
	}
	return out, nil
}

// longestComment is how long a comment package approval takes, in bytes.
const longestComment = 1024

func verdictOf(c *approvalCondition) approval.Verdict {
	switch {
	case c.Type == conditionApproved && c.Status == metav1.ConditionTrue:
		return approval.Approve
	case c.Type == conditionRejected && c.Status == metav1.ConditionTrue,
		c.Type == conditionApproved && c.Status == metav1.ConditionFalse && c.Reason == reasonRejected:
		return approval.Reject
	default:
		return ""
	}
}

// anybodyMayDecide reports whether a policy does not ask who decides, so that an
// answer counts of which nobody knows whose it is.
func anybodyMayDecide(p approval.Policy) bool {
	for _, q := range p.Quorums {
		if q.Group != "" || q.Count > 1 {
			return false
		}
	}
	return !p.ForbidStarter
}

// anybody stands for whoever answered where nobody vouches for who it was.
func anybody() approval.Identity { return approval.Identity{Name: "system:unknown"} }

// acceptedCondition reports that a request was approved, and that it stays so.
func acceptedCondition(generation int64, at time.Time) metav1.Condition {
	return teller{generation: generation}.yes(conditionAccepted, reasonAccepted,
		"The approval request has been approved and cannot be reverted", stages.At(at))
}

// rejectedCondition reports that a request was rejected, and that it stays so.
func rejectedCondition(generation int64, by string, at time.Time) metav1.Condition {
	return teller{generation: generation}.no(conditionAccepted, reasonRequestRejected,
		"The approval request has been rejected by "+by+" and cannot be reverted", stages.At(at))
}

// refusedCondition tells why an answer does not count. Another one may.
func refusedCondition(generation int64, why string, at time.Time) metav1.Condition {
	return teller{generation: generation}.no(conditionAccepted, reasonRefused, why, stages.At(at))
}

// unvouchedCondition tells why no answer counts, whosever it is.
func unvouchedCondition(generation int64, why string, at time.Time) metav1.Condition {
	return teller{generation: generation}.no(conditionAccepted, reasonUnvouched, why, stages.At(at))
}

// withCondition is the status of a request with one condition of the hub's, and
// everything else as it is. It is nil where the object says the same already,
// whenever it began to.
func withCondition(obj *unstructured.Unstructured, c metav1.Condition) (map[string]any, error) {
	next, err := toMap(&c)
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

// fromMap reads a field of an object into v, by its JSON tags. What v does not
// have is left out.
func fromMap(obj *unstructured.Unstructured, name string, v any) error {
	b, err := json.Marshal(obj.Object[name])
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %s: %w", obj.GetKind(), obj.GetName(), name, err)
	}
	return nil
}
