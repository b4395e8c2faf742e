package status

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// RunObject is the object of a run as far as a list of runs shows it: what stands in it of single clusters, which is
// most of it, is not decoded.
type RunObject struct {
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		Annotations map[string]string `json:"annotations"`
		Created     metav1.Time       `json:"creationTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Placement string `json:"placementName"`
	} `json:"spec"`
	Status struct {
		Conditions    []metav1.Condition `json:"conditions"`
		ResourceIndex string             `json:"resourceSnapshotIndexUsed"`
		Stages        []stageSummary     `json:"stagesStatus"`
		Deletion      *stageSummary      `json:"deletionStageStatus"`
		Counts        clusterCounts      `json:"clusterCounts"`
	} `json:"status"`
}

// stageSummary is what a list needs of a stageStatus.
type stageSummary struct {
	Name       string             `json:"stageName"`
	Start      *metav1.Time       `json:"startTime"`
	Conditions []metav1.Condition `json:"conditions"`
	Counts     *clusterCounts     `json:"clusterCounts"`
}

// RunSummary is the summary of a [RunObject].
func RunSummary(obj *unstructured.Unstructured) (fleet.RunSummary, error) {
	var r RunObject
	text, err := json.Marshal(obj.Object)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r.Summary(), err
}

// Summary reads back what the object of a run shows of it, for those who may read the objects of a hub and not its
// store. Name and Placement are the names of the objects, and Holder is not known; Reason is a message for people. The
// object of a run that has no record any more has no State, and says so in Problem.
func (r *RunObject) Summary() fleet.RunSummary {
	_, uid, _ := strings.Cut(r.Metadata.Annotations[api.AnnotationRunUID], "/")
	counts := &r.Status.Counts
	out := fleet.RunSummary{
		Name: r.Metadata.Name, UID: uid, Placement: r.Spec.Placement, Created: r.Metadata.Created.UTC(),
		Clusters: counts.Total, Completed: counts.Completed, Failed: counts.Failed, Skipped: counts.Skipped,
	}
	out.Index, _ = strconv.Atoi(r.Status.ResourceIndex)
	all := r.Status.Stages
	if d := r.Status.Deletion; d != nil && d.Counts != nil {
		all = append(slices.Clip(all), *d)
	}
	for i := range all {
		if at := all[i].Start; at != nil && (out.Started.IsZero() || at.Time.Before(out.Started)) {
			out.Started = at.UTC()
		}
		if out.Stage == "" && conditionOf(all[i].Conditions, api.ConditionSucceeded).Status != metav1.ConditionTrue {
			out.Stage = all[i].Name
		}
	}
	r.summarizeConditions(&out)
	return out
}

// summarizeConditions says what state the conditions of a run tell of, why, and when it ended.
func (r *RunObject) summarizeConditions(out *fleet.RunSummary) {
	all := r.Status.Conditions
	initialized, progressing, succeeded := conditionOf(all, api.ConditionInitialized), conditionOf(all, api.ConditionProgressing), conditionOf(all, api.ConditionSucceeded)
	switch {
	case succeeded.Status == metav1.ConditionTrue:
		out.State, out.Ended = stages.Completed, succeeded.LastTransitionTime.UTC()
	case succeeded.Status == metav1.ConditionFalse:
		states := map[string]stages.State{api.ReasonRunAborted: stages.Aborted, api.ReasonRunSuperseded: stages.Superseded}
		out.State, out.Reason = cmp.Or(states[succeeded.Reason], stages.Failed), succeeded.Message
		out.Ended = succeeded.LastTransitionTime.UTC()
	case succeeded.Status != "":
		out.Problem = succeeded.Message
	case initialized.Status == metav1.ConditionFalse:
		out.State, out.Reason, out.Ended = stages.Failed, initialized.Message, initialized.LastTransitionTime.UTC()
	case progressing.Status == "":
		out.State = stages.NotStarted
		if initialized.Status == metav1.ConditionUnknown {
			out.Reason = initialized.Message
		}
	case progressing.Reason == api.ReasonRunStopping:
		out.State, out.Reason = stages.Stopping, progressing.Message
	case progressing.Reason == api.ReasonRunStopped:
		out.State, out.Reason = stages.Stopped, progressing.Message
	case progressing.Reason == api.ReasonRunWaiting && strings.HasPrefix(progressing.Message, queuedMessage):
		out.State, out.Reason = stages.Pending, progressing.Message
	case progressing.Status == metav1.ConditionTrue:
		out.State = stages.Running
	default:
		out.State, out.Reason = stages.Running, progressing.Message
	}
}

func conditionOf(all []metav1.Condition, kind string) metav1.Condition {
	for _, c := range all {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// OpenRequest reads back the approval that an object asks for; open is false where it was decided. Name and Run are
// the names of the objects; what stands in the object of the run, and the policy, is not known.
func OpenRequest(obj *unstructured.Unstructured) (r approval.Request, open bool, err error) {
	var spec ApprovalSpec
	var s approvalStatus
	if err := api.FromMap(obj, "spec", &spec); err != nil {
		return r, false, err
	}
	if err := api.FromMap(obj, "status", &s); err != nil {
		return r, false, err
	}
	r = approval.Request{
		Name: obj.GetName(), Run: spec.Run, Opened: obj.GetCreationTimestamp().UTC(),
		Binding: approval.Binding{RunUID: spec.RunUID, Stage: spec.Stage, When: approval.After, Attempt: int(spec.Attempt), Plan: spec.Plan},
	}
	if obj.GetLabels()[api.LabelTask] == api.TaskBefore {
		r.When = approval.Before
	}
	for _, d := range s.Decisions {
		by := approval.Identity{Name: d.By.Username, Groups: d.By.Groups}
		r.Decisions = append(r.Decisions, approval.Decision{Verdict: d.Verdict, By: by, Comment: d.Comment})
	}
	accepted := api.ConditionOf(obj, api.ConditionAccepted)
	return r, accepted.Status != "True" && accepted.Reason != api.ReasonRequestRejected, nil
}

// WithAnswer is the status of a request with the answer of the client that writes it: the admission policies write
// down who that is. They tell the answers of two clients apart by their conditions, so one of the same words has
// another time.
func WithAnswer(obj *unstructured.Unstructured, v approval.Verdict, comment string, at time.Time) (map[string]any, error) {
	kind := api.ConditionApproved
	if v == approval.Reject {
		kind = api.ConditionRejected
	}
	if before := api.ConditionOf(obj, kind).Since; !before.IsZero() && at.Before(before.Add(time.Second)) {
		at = before.Add(time.Second)
	}
	status, _, _ := unstructured.NestedMap(obj.Object, "status")
	others, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	others = slices.DeleteFunc(others, func(item any) bool {
		m, ok := item.(map[string]any)
		return ok && m["type"] == kind
	})
	c := conditions{observedGeneration: obj.GetGeneration()}.isTrue(kind, kind, comment, stages.At(at))
	next, err := api.ToMap(&c)
	if err != nil {
		return nil, err
	}
	if status == nil {
		status = map[string]any{}
	}
	status["conditions"] = append(others, next)
	return status, nil
}

// AnswerOutcome says what the hub made of the answer of a user that a request has: the request is decided, or why the
// answer does not count, or neither yet.
func AnswerOutcome(obj *unstructured.Unstructured, user string) (decided bool, refusal string) {
	c := api.ConditionOf(obj, api.ConditionAccepted)
	switch c.Reason {
	case api.ReasonAccepted, api.ReasonRequestRejected:
		return true, ""
	case api.ReasonUnvouched:
		return false, c.Message
	case api.ReasonRefused:
		if user == "" || strings.Contains(c.Message, user+": ") {
			return false, c.Message
		}
	}
	return false, ""
}

// RollbackOutcome says what the hub made of the state Rollback that a run has in a generation of its spec: the name of
// the run that takes it back, or why none does. It is not answered before the hub has said either.
func RollbackOutcome(obj *unstructured.Unstructured, generation int64) (by, refusal string, answered bool) {
	switch c := api.ConditionOf(obj, api.ConditionRollback); {
	case c.Is("False", generation):
		return "", c.Message, true
	case c.Is("True", generation):
		by, _, _ = unstructured.NestedString(obj.Object, "status", "rollbackRunName")
		return by, "", true
	}
	return "", "", false
}

// SnapshotSummary reads back what the metadata of an object shows of a snapshot: its placement, by the name of the
// object, its index and when it was taken. It is not ok for an object that shows a further part of a snapshot.
func SnapshotSummary(obj metav1.Object) (s snapshot.Snapshot, ok bool) {
	index, err := strconv.Atoi(obj.GetLabels()[api.LabelResourceIndex])
	if err != nil || obj.GetAnnotations()[api.AnnotationParts] == "" {
		return s, false
	}
	return snapshot.Snapshot{Placement: obj.GetLabels()[api.LabelParent], Index: index, TakenAt: obj.GetCreationTimestamp().UTC()}, true
}
