package status

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/stages"
)

// summary reads the current object of the run.
func (r *rig) summary() fleet.RunSummary {
	r.t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"name": "example-run", "creationTimestamp": "2025-07-22T21:28:08Z",
			"annotations": map[string]any{api.AnnotationRunUID: "o1/u1"},
		},
		"spec":   map[string]any{"placementName": "example-placement"},
		"status": r.status(),
	}}
	s, err := RunSummary(obj)
	if err != nil {
		r.t.Fatal(err)
	}
	rows, err := RunTable(tableOf(r.t, obj))
	if err != nil || len(rows) != 1 {
		r.t.Fatalf("%d rows, %v", len(rows), err)
	}
	if diff := cmp.Diff(s, rows[0].RunSummary); diff != "" {
		r.t.Errorf("-object +row:\n%s", diff)
	}
	return s
}

// tableOf returns the table that an API server makes from the object of a run, with the columns of
// its definition.
func tableOf(t *testing.T, obj *unstructured.Unstructured) []byte {
	t.Helper()
	at := func(path ...string) any {
		v, _, err := unstructured.NestedFieldNoCopy(obj.Object, path...)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	columns := map[string]any{
		"Name": obj.GetName(), "Placement": at("spec", "placementName"), "Snapshot": at("status", "resourceSnapshotIndexUsed"),
		"Initialized": "True", "State": at("status", "summary", "state"), "Stage": at("status", "summary", "stage"), "Message": at("status", "summary", "message"),
		"Started": at("status", "summary", "startTime"), "Ended": at("status", "summary", "endTime"),
		"Clusters": at("status", "clusterCounts", "total"), "Completed": at("status", "clusterCounts", "completed"),
		"Failed": at("status", "clusterCounts", "failed"), "Skipped": at("status", "clusterCounts", "skipped"),
	}
	var definitions, cells []any
	for name, cell := range columns {
		definitions, cells = append(definitions, map[string]any{"name": name}), append(cells, cell)
	}
	object := map[string]any{"kind": "PartialObjectMetadata", "metadata": obj.Object["metadata"]}
	text, err := json.Marshal(map[string]any{"columnDefinitions": definitions, "rows": []any{map[string]any{"cells": cells, "object": object}}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A table without the columns, from a hub with older definitions, must not be read as a list of
// runs that have not started.
func TestATableWithoutTheColumnsIsRefused(t *testing.T) {
	text := `{"columnDefinitions":[{"name":"Name"},{"name":"Placement"}],"rows":[{"cells":["a","web"],"object":{"metadata":{"name":"a"}}}]}`
	if rows, err := RunTable([]byte(text)); err == nil || !strings.Contains(err.Error(), "install") {
		t.Errorf("%v, %v", rows, err)
	}
}

// A run whose record is gone has no state, and says why. A run that cannot be planned has failed. A
// run that the hub has not seen has not started.
func TestTheSummaryOfARunWithoutARecord(t *testing.T) {
	at := stages.At(clock(t, "10:00:00"))
	for _, c := range []struct {
		status *v1beta1.UpdateRunStatus
		want   fleet.RunSummary
	}{
		{nil, fleet.RunSummary{State: stages.NotStarted}},
		{
			&v1beta1.UpdateRunStatus{Conditions: []metav1.Condition{{Type: api.ConditionInitialized, Status: metav1.ConditionTrue}}},
			fleet.RunSummary{Problem: "an earlier version of the hub wrote its status, and its record is gone: see the conditions of the object"},
		},
		{Forgotten(true, 1, at, errors.New("it is gone")), fleet.RunSummary{Problem: "it is gone"}},
		{Initializing(true, 1, at, errors.New("later")), fleet.RunSummary{State: stages.NotStarted, Reason: "the updateRun is tried again: later"}},
		{InitializeFailed(true, 1, at, errors.New("no stage")), fleet.RunSummary{
			State: stages.Failed, Reason: "cannot continue the updateRun: failed to validate the updateRun: no stage", Ended: clock(t, "10:00:00"),
		}},
	} {
		obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a", "creationTimestamp": "2025-07-22T10:00:00Z"}}}
		if c.status != nil {
			m, err := api.ToMap(c.status)
			if err != nil {
				t.Fatal(err)
			}
			obj.Object["status"] = m
		}
		got, err := RunSummary(obj)
		c.want.Name, c.want.Created, c.want.Index = "a", got.Created, -1
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("-want +got (%v):\n%s", err, diff)
		}
	}
}

// A summary from the object of a run equals the run's own summary at every step of the tutorial.
func TestASummaryIsReadBackFromTheStatus(t *testing.T) {
	strategy, clusters := tutorial()
	r := newRig(t, "21:28:08", strategy, false, clusters...)
	is := func(at string, state stages.State, stage string, completed int) {
		t.Helper()
		got := r.summary()
		want := fleet.RunSummary{
			Name: "example-run", UID: "u1", Placement: "example-placement", State: state, Stage: stage, Index: 1, Clusters: 3, Completed: completed,
			Created: clock(t, "21:28:08"), Started: r.run.Started.Time(), Ended: r.run.Ended.Time(), Reason: got.Reason,
		}
		if diff := cmp.Diff(want, got); diff != "" || state != r.run.State {
			t.Errorf("%s: the run is %s (-want +got):\n%s", at, r.run.State, diff)
		}
	}
	is("before it begins", stages.NotStarted, "staging", 0)
	r.step("", stages.Input{})
	is("as it begins", stages.Running, "staging", 0)
	r.finish("21:28:23", "member2")
	is("while it waits", stages.Running, "staging", 1)
	r.step("21:29:23", stages.Input{})
	r.command("21:29:25", stages.Command{Verb: stages.Stop})
	is("while it stops", stages.Stopping, "canary", 1)
	r.finish("21:29:38", "member3")
	is("stopped", stages.Stopped, "canary", 2)
	r.command("21:29:40", stages.Command{Verb: stages.Start})
	r.finish("21:29:53", "member1")
	is("while it is asked for", stages.Running, "canary", 3)
	r.decide("21:30:00", approval.Approve)
	is("at the end", stages.Completed, "", 3)
}

// A run that did not complete, or waits, has a message.
func TestASummarySaysWhyARunDidNotComplete(t *testing.T) {
	rejected := tutorialRig(t)
	rejected.decide("21:30:00", approval.Reject)
	aborted := tutorialRig(t)
	aborted.command("21:30:00", stages.Command{Verb: stages.Abort})
	strategy, clusters := tutorial()
	queued := newRig(t, "21:28:08", strategy, false, clusters...)
	queued.step("", stages.Input{Blocked: "other"})
	for want, r := range map[stages.State]*rig{stages.Failed: rejected, stages.Aborted: aborted, stages.Pending: queued} {
		if s := r.summary(); s.State != want || s.State != r.run.State || s.Reason == "" || s.Ended.IsZero() != (want == stages.Pending) {
			t.Errorf("%s: %+v", want, s)
		}
	}
}

// A client's answer is a condition that the hub reads; the conditions of others stay. The answer of
// a second client with the same words is a new condition.
func TestAnAnswerIsAddedToARequest(t *testing.T) {
	obj := answered(t, map[string]any{})
	now := clock(t, "10:00:00")
	answer := func(v approval.Verdict, comment string) map[string]any {
		t.Helper()
		s, err := WithAnswer(obj, v, comment, now)
		if err != nil {
			t.Fatal(err)
		}
		obj.Object["status"] = s
		return s
	}
	first := answer(approval.Approve, "fine")
	if got, err := AnswersOf(obj, false); err != nil || len(got) != 1 || got[0].Verdict != approval.Approve || got[0].Comment != "fine" {
		t.Errorf("%+v, %v", got, err)
	}
	second := answer(approval.Approve, "fine")
	if cmp.Equal(first, second) {
		t.Error("the second approval is the first one")
	}
	answer(approval.Reject, "no")
	if got, err := AnswersOf(obj, false); err != nil || len(got) != 1 || got[0].Verdict != approval.Reject {
		t.Errorf("%+v, %v", got, err)
	}
	if api.ConditionOf(obj, "Approved").Status != "True" {
		t.Error("a rejection takes the approval of another one back")
	}
}

// A refusal is about its own author, not about a person whose name ends like the author's.
func TestARefusalIsAboutItsAuthor(t *testing.T) {
	obj, err := ApprovalRequest(tutorialRequest(t))
	if err != nil {
		t.Fatal(err)
	}
	s, err := WithCondition(obj, RefusedCondition(1, "joann: not in the group; bob: approved already", clock(t, "10:00:00")))
	if err != nil {
		t.Fatal(err)
	}
	obj.Object["status"] = s
	for user, want := range map[string]bool{"ann": false, "joann": true, "bob": true, "": true} {
		if _, refusal := AnswerOutcome(obj, user); (refusal != "") != want {
			t.Errorf("to %q the refusal is %q", user, refusal)
		}
	}
}

// A request is open until it is decided, and has the answers so far.
func TestARequestIsReadBackFromItsObject(t *testing.T) {
	facts := tutorialRequest(t)
	obj, err := ApprovalRequest(facts)
	if err != nil {
		t.Fatal(err)
	}
	got, open, err := OpenRequest(obj)
	if err != nil || !open || got.Binding != facts.Request.Binding || got.Run != facts.Run || got.Name != "example-run-canary" {
		t.Errorf("%+v, open %t, %v; want the binding %+v", got, open, err, facts.Request.Binding)
	}
	obj.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Approved", "status": "True"}}, "decisions": []any{
		map[string]any{"verdict": "Approve", "by": map[string]any{"username": "ann", "groups": []any{"leads"}}, "comment": "fine"},
	}}
	if got, _, _ := OpenRequest(obj); len(got.Decisions) != 1 || got.Decisions[0].By.Name != "ann" || got.Decisions[0].Comment != "fine" {
		t.Errorf("decisions %+v", got.Decisions)
	}
	at := clock(t, "10:00:00")
	for want, write := range map[string]func() (map[string]any, error){
		"accepted": func() (map[string]any, error) { return WithCondition(obj, AcceptedCondition(1, at)) },
		"rejected": func() (map[string]any, error) { return WithCondition(obj, RejectedCondition(1, "ann", at)) },
		"refused": func() (map[string]any, error) {
			return WithCondition(obj, RefusedCondition(1, "ann: not in the group", at))
		},
		"unvouched": func() (map[string]any, error) { return WithCondition(obj, UnvouchedCondition(1, "policies", at)) },
	} {
		s, err := write()
		if err != nil {
			t.Fatal(err)
		}
		now := obj.DeepCopy()
		now.Object["status"] = s
		_, open, _ := OpenRequest(now)
		decided, refusal := AnswerOutcome(now, "ann")
		_, others := AnswerOutcome(now, "joe")
		if open == decided || decided != (want == "accepted" || want == "rejected") || (refusal != "") == decided || (others != "") != (want == "unvouched") {
			t.Errorf("%s: open %t, decided %t, %q, to another one %q", want, open, decided, refusal, others)
		}
	}
}

// The status of a run without a record has the cause and the remedy. They are all problems if the
// run is refused, and the last error if the run is tried again. If no hub has seen the run, the cause
// is that the hub has not taken it yet.
func TestTheReasonOfARunWithoutARecord(t *testing.T) {
	at := stages.At(clock(t, "10:00:00"))
	succeeded := &v1beta1.UpdateRunStatus{
		Conditions: []metav1.Condition{{Type: api.ConditionSucceeded, Status: metav1.ConditionTrue}}, Summary: &v1beta1.UpdateRunSummary{State: string(stages.Completed)},
	}
	refused := InitializeFailed(true, 1, at, errors.Join(errors.New("no stage"), errors.New("no placement")))
	for _, c := range []struct {
		status     *v1beta1.UpdateRunStatus
		setting    compat.Setting
		generation int64
		state      stages.State
		want       string
	}{
		{nil, "", 1, stages.NotStarted, "the hub has not taken it yet"},
		{Initializing(true, 1, at, errors.New("later")), "", 1, stages.NotStarted, "the hub cannot plan it yet and tries again: later"},
		{refused, "", 1, stages.Failed, "the hub refused it: no stage; no placement; correct that, delete the run and create it again"},
		{refused, "", 2, stages.Failed, "the hub refused it: no stage; no placement; correct that, delete the run and create it again"},
		{
			refused, compat.KubeFleet018, 1, stages.Failed,
			"the hub refused it: no stage; no placement; correct that, and change its spec.state, or delete the run and create it again",
		},
		{refused, compat.KubeFleet018, 2, stages.NotStarted, "the hub has not taken its new state yet"},
		{Forgotten(true, 1, at, errors.New("it is gone")), "", 1, "", "it is gone"},
		{succeeded, "", 1, stages.Completed, "the hub has no record of it any more: only its object shows it"},
	} {
		obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}}}
		obj.SetGeneration(c.generation)
		if c.status != nil {
			m, err := api.ToMap(c.status)
			if err != nil {
				t.Fatal(err)
			}
			obj.Object["status"] = m
		}
		if s, why, err := Unrecorded(obj, c.setting); err != nil || s.State != c.state || why != c.want {
			t.Errorf("%s, %q (%v), want %s, %q", s.State, why, err, c.state, c.want)
		}
	}
}

// No hub leads if the lease was released, or was not renewed for its duration. The answer is the
// last renewal.
func TestTimeWithoutALeader(t *testing.T) {
	renewed := clock(t, "10:00:00")
	for _, c := range []struct {
		what, holder string
		after        time.Duration
		leads        bool
	}{
		{"a lease that is renewed", "one", 14 * time.Second, true},
		{"a lease that is old", "one", 15 * time.Second, false},
		{"a released lease", "", time.Second, false},
	} {
		spec := map[string]any{"holderIdentity": c.holder, "leaseDurationSeconds": int64(15), "renewTime": renewed.Format("2006-01-02T15:04:05.000000Z07:00")}
		want := renewed
		if c.leads {
			want = time.Time{}
		}
		if got := Leaderless(&unstructured.Unstructured{Object: map[string]any{"spec": spec}}, renewed.Add(c.after)); !got.Equal(want) {
			t.Errorf("%s: no hub leads since %s, want %s", c.what, got, want)
		}
	}
	if got := Leaderless(&unstructured.Unstructured{Object: map[string]any{}}, renewed); !got.IsZero() {
		t.Errorf("a lease without times: %s", got)
	}
}

// A run that was rolled back names its last rollback. A label alone proves no rollback: anyone may
// write it, and the seal is the hub's.
func TestARunInATableNamesItsRollback(t *testing.T) {
	row := func(name, of, seal, created string) map[string]any {
		return map[string]any{"cells": make([]any, 12), "object": map[string]any{"metadata": map[string]any{
			"name": name, "creationTimestamp": created, "labels": map[string]any{api.LabelRollbackOf: of}, "annotations": map[string]any{api.AnnotationSeal: seal},
		}}}
	}
	var columns []any
	for _, name := range []string{"Placement", "Snapshot", "Initialized", "State", "Stage", "Started", "Ended", "Message", "Clusters", "Completed", "Failed", "Skipped"} {
		columns = append(columns, map[string]any{"name": name})
	}
	text, err := json.Marshal(map[string]any{"columnDefinitions": columns, "rows": []any{
		row("a", "", "", "2025-07-22T10:00:00Z"), row("a-rollback-2", "a", "s", "2025-07-22T12:00:00Z"), row("a-rollback", "a", "s", "2025-07-22T11:00:00Z"),
		row("b", "", "", "2025-07-22T10:00:00Z"), row("forged", "b", "", "2025-07-22T11:00:00Z"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := RunTable(text)
	if err != nil || len(rows) != 5 || rows[0].RolledBackBy != "a-rollback-2" || rows[3].RolledBackBy != "" {
		t.Errorf("%+v, %v", rows, err)
	}
}
