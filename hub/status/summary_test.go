package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/stages"
)

// summary reads back the object of the run as it is now.
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
	return s
}

// A summary that is read from the object of a run says what the run itself does, at every step of the tutorial.
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

// What ended otherwise than completed, and what waits, says why.
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

// An answer that a client writes is one of the conditions that the hub reads, beside those of others; that of a second
// client is another one, though it says the same.
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

// A request is open until it was decided, and says who answered so far.
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
	obj.Object["status"] = map[string]any{"decisions": []any{
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
