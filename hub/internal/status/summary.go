package status

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// summary returns the summary of the run. Its message is the message of the condition that explains
// why the run does not progress or did not succeed.
func (p *runBuilder) summary(all []metav1.Condition) *v1beta1.UpdateRunSummary {
	s := &v1beta1.UpdateRunSummary{
		State: string(p.Run.State), StartTime: api.SecondsOrNil(p.Run.Started), EndTime: api.SecondsOrNil(p.Run.Ended),
	}
	if i := p.Run.Form(runstate.Key{}).Stage; i >= 0 && i < len(p.Plan.Stages) {
		s.Stage = p.Plan.Stages[i].Name
	}
	progressing, succeeded := conditionOf(all, api.ConditionProgressing), conditionOf(all, api.ConditionSucceeded)
	switch {
	case succeeded.Status == metav1.ConditionFalse:
		s.Message = succeeded.Message
	case succeeded.Status == "" && progressing.Status != metav1.ConditionTrue:
		s.Message = progressing.Message
	}
	return s
}

func conditionOf(all []metav1.Condition, kind string) metav1.Condition {
	for _, c := range all {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// runMetadata holds the metadata of a run's object that a list uses.
type runMetadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Annotations map[string]string `json:"annotations"`
	Labels      map[string]string `json:"labels"`
	Created     metav1.Time       `json:"creationTimestamp"`
}

// readSummary returns the summary that the object of a run shows, for people with access to the
// objects of a hub and not to its store. Name and Placement are the names of the objects, Holder is
// unknown, and Reason is a message for people. If the run has no record any more, State is empty
// and Problem has the reason. The same applies to a status with conditions and no summary, which an
// earlier version of the hub wrote.
func readSummary(s *v1beta1.UpdateRunSummary, of *runMetadata, placement, index string, counts *v1beta1.ClusterCounts, hasConditions bool) fleet.RunSummary {
	_, uid, _ := strings.Cut(of.Annotations[api.AnnotationRunUID], "/")
	out := fleet.RunSummary{
		Name: of.Name, UID: uid, Placement: placement, Created: of.Created.UTC(), State: stages.State(s.State), Stage: s.Stage, Reason: s.Message,
		Clusters: int(counts.Total), Completed: int(counts.Completed), Failed: int(counts.Failed), Skipped: int(counts.Skipped),
	}
	if out.Index, _ = strconv.Atoi(index); index == "" {
		out.Index = -1
	}
	if s.StartTime != nil {
		out.Started = s.StartTime.UTC()
	}
	if s.EndTime != nil {
		out.Ended = s.EndTime.UTC()
	}
	switch {
	case *s == (v1beta1.UpdateRunSummary{}) && hasConditions:
		out.Problem = "an earlier version of the hub wrote its status, and its record is gone: see the conditions of the object"
	case *s == (v1beta1.UpdateRunSummary{}): // the hub has not processed the object yet
		out.State = stages.NotStarted
	case s.State == "":
		out.Problem, out.Reason = s.Message, ""
	}
	return out
}

// RunSummary returns the summary that the object of a run shows.
func RunSummary(obj *unstructured.Unstructured) (fleet.RunSummary, error) {
	var r struct {
		Metadata runMetadata           `json:"metadata"`
		Spec     v1beta1.UpdateRunSpec `json:"spec"`
		Status   struct {
			Conditions []json.RawMessage        `json:"conditions"`
			Summary    v1beta1.UpdateRunSummary `json:"summary"`
			Index      string                   `json:"resourceSnapshotIndexUsed"`
			Counts     v1beta1.ClusterCounts    `json:"clusterCounts"`
		} `json:"status"`
	}
	text, err := json.Marshal(obj.Object)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return readSummary(&r.Status.Summary, &r.Metadata, r.Spec.PlacementName, r.Status.Index, &r.Status.Counts, len(r.Status.Conditions) > 0), err
}

// Unrecorded returns the summary of a run that has no record, and the reason, with the remedy if
// there is one. By the setting of KubeFleet 0.18 a run that was refused is taken again after a
// change of its spec.
func Unrecorded(obj *unstructured.Unstructured, setting compat.Setting) (s fleet.RunSummary, why string, err error) {
	if s, err = RunSummary(obj); err != nil {
		return s, "", err
	}
	final := setting.Behaviour().RefusedForGood
	if api.InitializeFailed(obj) && !final && api.ConditionOf(obj, api.ConditionInitialized).ObservedGeneration < obj.GetGeneration() {
		s.State, s.Reason, s.Ended = stages.NotStarted, "", time.Time{}
		return s, "the hub has not taken its new state yet", nil
	}
	reasons := func(prefix string) string {
		return strings.ReplaceAll(strings.TrimPrefix(s.Reason, prefix), "\n", "; ")
	}
	switch {
	case api.InitializeFailed(obj):
		why = "the hub refused it: " + reasons(invalidRun) + "; correct that, "
		if !final {
			why += "and change its spec.state, or "
		}
		why += "delete the run and create it again"
	case s.Problem != "":
		why = s.Problem
	case api.IsBegun(obj) || api.HasEnded(obj):
		why = strings.TrimPrefix(reasons("")+"; ", "; ") + "the hub has no record of it any more: only its object shows it"
	case s.Reason != "":
		why = "the hub cannot plan it yet and tries again: " + reasons(triedAgain)
	default:
		why = "the hub has not taken it yet"
	}
	return s, why, nil
}

// Leaderless returns the time since which no hub renews the lease of the leader. It is zero if a
// hub renews the lease.
func Leaderless(lease *unstructured.Unstructured, now time.Time) time.Time {
	var spec coordinationv1.LeaseSpec
	if err := api.FromMap(lease, "spec", &spec); err != nil || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return time.Time{}
	}
	released := spec.HolderIdentity == nil || *spec.HolderIdentity == ""
	if !released && now.Before(spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds)*time.Second)) {
		return time.Time{}
	}
	return spec.RenewTime.UTC()
}

// RunRow is a run in a table of runs, with the namespace of its object.
type RunRow struct {
	fleet.RunSummary
	Namespace string
	// RollsBack is the name of the run that this run rolls back, empty if it is no rollback.
	RollsBack string
}

// RunTable reads the table that an API server returns for objects of runs: a meta.k8s.io/v1 Table
// that includes their metadata. The summaries are the same as the ones of [RunSummary].
func RunTable(text []byte) ([]RunRow, error) {
	var table struct {
		Columns []struct{ Name string } `json:"columnDefinitions"`
		Rows    []struct {
			Cells  []json.RawMessage `json:"cells"`
			Object struct {
				Metadata runMetadata `json:"metadata"`
			} `json:"object"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(text, &table); err != nil {
		return nil, err
	}
	var s v1beta1.UpdateRunSummary
	var counts v1beta1.ClusterCounts
	var placement, index, initialized string
	columns := []struct {
		name string
		to   any
	}{
		{"Placement", &placement},
		{"Snapshot", &index},
		{"Initialized", &initialized},
		{"State", &s.State},
		{"Stage", &s.Stage},
		{"Started", &s.StartTime},
		{"Ended", &s.EndTime},
		{"Message", &s.Message},
		{"Clusters", &counts.Total},
		{"Completed", &counts.Completed},
		{"Failed", &counts.Failed},
		{"Skipped", &counts.Skipped},
	}
	at := map[string]int{}
	for i, c := range table.Columns {
		at[c.Name] = i
	}
	out := make([]RunRow, 0, len(table.Rows))
	for i := range table.Rows {
		r := &table.Rows[i]
		s, counts, placement, index, initialized = v1beta1.UpdateRunSummary{}, v1beta1.ClusterCounts{}, "", "", ""
		for _, c := range columns {
			n, there := at[c.name]
			if !there || n >= len(r.Cells) {
				return nil, fmt.Errorf("the table of runs has no column %s: the installed definitions have another version, install them again", c.name)
			}
			if err := json.Unmarshal(r.Cells[n], c.to); err != nil {
				return nil, fmt.Errorf("run %s: column %s: %w", r.Object.Metadata.Name, c.name, err)
			}
		}
		row := RunRow{RunSummary: readSummary(&s, &r.Object.Metadata, placement, index, &counts, initialized != ""), Namespace: r.Object.Metadata.Namespace}
		if r.Object.Metadata.Annotations[api.AnnotationSeal] != "" { // the hub made the object
			row.RollsBack = r.Object.Metadata.Labels[api.LabelRollbackOf]
		}
		out = append(out, row)
	}
	noteRollbacks(out)
	return out, nil
}

// noteRollbacks sets RolledBackBy of each run that another row rolls back.
func noteRollbacks(rows []RunRow) {
	type key struct{ namespace, name string }
	last := map[key]*RunRow{}
	for i := range rows {
		r := &rows[i]
		k := key{r.Namespace, r.RollsBack}
		if before := last[k]; r.RollsBack != "" && (before == nil || before.Created.Before(r.Created)) {
			last[k] = r
		}
	}
	for i := range rows {
		if by := last[key{rows[i].Namespace, rows[i].Name}]; by != nil {
			rows[i].RolledBackBy = by.Name
		}
	}
}

// OpenRequest returns the approval that an object asks for; open is false if the request was
// decided. Name and Run are the names of the objects. The placement and the snapshot are not set,
// because only the object of the run has them. Decisions are the answers that the policy accepts.
func OpenRequest(obj *unstructured.Unstructured) (r approval.Request, open bool, err error) {
	var spec v1beta1.ApprovalRequestSpec
	if err := api.FromMap(obj, "spec", &spec); err != nil {
		return r, false, err
	}
	r = approval.Request{
		Name: obj.GetName(), Run: spec.TargetUpdateRun, Opened: obj.GetCreationTimestamp().UTC(),
		Binding: approval.Binding{RunUID: spec.RunUID, Stage: spec.TargetStage, When: approval.After, Attempt: int(spec.Attempt), Plan: spec.PlanDigest},
	}
	if obj.GetLabels()[api.LabelTask] == api.TaskBefore {
		r.When = approval.Before
	}
	if spec.StartedBy != nil {
		r.Starter.Name = spec.StartedBy.Username
	}
	if p := spec.Policy; p != nil {
		r.Policy = approval.Policy{Quorums: quorumsOf(p), ForbidStarter: p.ForbidStarter, DistinctApprovers: p.DistinctApprovers, RequireBinding: p.RequireBinding}
	}
	answers, err := AnswersOf(obj, true)
	if err != nil {
		return r, false, err
	}
	for _, a := range answers {
		d := approval.Decision{Verdict: a.Verdict, By: a.By, Comment: a.Comment, At: r.Opened, Binding: r.Binding}
		if next, _, err := approval.Evaluate(r, d, r.Opened); err == nil { // a refused answer does not count
			r = next
		}
	}
	accepted := api.ConditionOf(obj, api.ConditionAccepted)
	return r, accepted.Status != "True" && accepted.Reason != api.ReasonRequestRejected, nil
}

// WithAnswer returns the status of a request with an answer of the client that writes it; the
// admission policies record the client's identity. The policies compare the condition to detect a
// new answer, so WithAnswer makes its time at least one second later than before.
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

// AnswerOutcome returns the hub's decision on the answer of a user in a request: decided is true if
// the request is decided; refusal is the reason if the answer does not count. Neither is set if the
// hub has not decided yet. An empty user stands for all users.
func AnswerOutcome(obj *unstructured.Unstructured, user string) (decided bool, refusal string) {
	c := api.ConditionOf(obj, api.ConditionAccepted)
	switch c.Reason {
	case api.ReasonAccepted, api.ReasonRequestRejected:
		return true, ""
	case api.ReasonUnvouched:
		return false, c.Message
	case api.ReasonRefused:
		// The hub joins the refusals of all answers, each with its author first.
		if user == "" || slices.ContainsFunc(strings.Split(c.Message, "; "), func(of string) bool { return strings.HasPrefix(of, user+": ") }) {
			return false, c.Message
		}
	}
	return false, ""
}

// RollbackOutcome returns the hub's answer to the state Rollback in a generation of a run's spec:
// the name of the rollback run, or the reason why there is none. Answered is false if the hub has
// not answered yet.
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

// SnapshotSummary returns the placement, the index and the time of the snapshot that an object
// shows, from the object's metadata; the placement is the name of its object. It is not ok for an
// object that shows a later part of a snapshot.
func SnapshotSummary(obj metav1.Object) (s snapshot.Snapshot, ok bool) {
	index, err := strconv.Atoi(obj.GetLabels()[api.LabelResourceIndex])
	if err != nil || obj.GetAnnotations()[api.AnnotationParts] == "" {
		return s, false
	}
	return snapshot.Snapshot{Placement: obj.GetLabels()[api.LabelParent], Index: index, TakenAt: obj.GetCreationTimestamp().UTC()}, true
}

// EvictionOutcome returns the hub's answer to an eviction, and its reason. Answered is false if the
// hub has not answered yet.
func EvictionOutcome(obj *unstructured.Unstructured) (executed bool, why string, answered bool) {
	if c := api.ConditionOf(obj, api.ConditionValid); c.Status == "False" {
		return false, c.Message, true
	}
	c := api.ConditionOf(obj, api.ConditionExecuted)
	return c.Status == "True", c.Message, c.Status != ""
}

// PlacedOn returns the clusters in the status of a placement.
func PlacedOn(obj *unstructured.Unstructured) (clusters []string) {
	for _, c := range api.Status[v1beta1.PlacementStatus](obj).PerClusterPlacementStatuses {
		if c.ClusterName != "" {
			clusters = append(clusters, c.ClusterName)
		}
	}
	return clusters
}

// BoundTo returns the cluster and the placement of a binding; both are empty if the binding is
// being deleted.
func BoundTo(obj *unstructured.Unstructured) (cluster, placement string) {
	if obj.GetDeletionTimestamp() != nil {
		return "", ""
	}
	return api.Spec[v1beta1.ResourceBindingSpec](obj).TargetCluster, obj.GetLabels()[api.LabelParent]
}
