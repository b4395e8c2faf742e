package status

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

func tutorialRequest(t *testing.T) *ApprovalFacts {
	r := tutorialRig(t)
	open := step.Requests(r.plan, &r.run)
	return &ApprovalFacts{Run: "example-run", RunUID: "run-object", Request: &open[0]}
}

func askedOf(t *testing.T, f *ApprovalFacts) *unstructured.Unstructured {
	t.Helper()
	obj, err := ApprovalRequest(f)
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestApprovalRequestObject(t *testing.T) {
	f := tutorialRequest(t)
	f.Request.Policy = approval.Policy{Expires: metav1.Duration{Duration: time.Hour}, ForbidStarter: true, Quorums: []approval.Quorum{{Group: "sre", Count: 2}}}
	want := map[string]any{
		"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterApprovalRequest",
		"metadata": map[string]any{
			"name": "example-run-canary",
			"labels": map[string]any{
				"kubernetes-fleet.io/targetUpdateRun": "example-run", "kubernetes-fleet.io/targetUpdatingStage": "canary",
				"kubernetes-fleet.io/taskType": "afterStage", "kubernetes-fleet.io/isLatestUpdateRunApproval": "true",
			},
			"ownerReferences": []any{map[string]any{
				"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterStagedUpdateRun", "name": "example-run", "uid": "run-object",
				"controller": true, "blockOwnerDeletion": true,
			}},
		},
		"spec": map[string]any{
			"parentStageRollout": "example-run", "targetStage": "canary",
			"runUID": "u1", "planDigest": f.Request.Binding.Plan, "attempt": int64(1), "expires": "2025-07-22T22:29:53Z",
			"startedBy": map[string]any{"username": "sam"}, "policy": map[string]any{"forbidStarter": true, "quorums": []any{map[string]any{"group": "sre", "count": int64(2)}}},
		},
	}
	if diff := cmp.Diff(want, askedOf(t, f).Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNamespacedRequestIsNamedAfterTheRunObject(t *testing.T) {
	f := tutorialRequest(t)
	f.Namespace, f.Request.When = "web", approval.Before
	f.Request.Name, f.Request.Run = "n.web.example-run-before-canary", "n.web.example-run"
	obj := askedOf(t, f)
	got := []string{obj.GetKind(), obj.GetNamespace(), obj.GetName(), obj.GetLabels()[api.LabelTask], obj.GetOwnerReferences()[0].Kind}
	want := []string{"ApprovalRequest", "web", "example-run-before-canary", "beforeStage", "StagedUpdateRun"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// answered returns the object of a request with a status.
func answered(t *testing.T, status map[string]any) *unstructured.Unstructured {
	obj := askedOf(t, tutorialRequest(t))
	obj.SetGeneration(1)
	obj.Object["status"] = status
	return obj
}

func approvedBy(name string, groups ...any) map[string]any {
	return map[string]any{"username": name, "uid": "1", "groups": groups}
}

func TestAnswersOfTheTutorialAreRead(t *testing.T) {
	// The tutorial's approval.json, with a time, which is ignored.
	tutorialAnswer := func(change map[string]any) map[string]any {
		c := map[string]any{
			"lastTransitionTime": "no time at all", "message": "lgtm", "observedGeneration": int64(1),
			"reason": "testPassed", "status": "True", "type": "Approved",
		}
		maps.Copy(c, change)
		if c["observedGeneration"] == nil {
			delete(c, "observedGeneration")
		}
		return map[string]any{"conditions": []any{c}, "approvedBy": approvedBy("ann", "sre")}
	}
	yes := []Answer{{Verdict: approval.Approve, Comment: "lgtm"}}
	no := []Answer{{Verdict: approval.Reject, Comment: "no"}}
	for name, tc := range map[string]struct {
		status map[string]any
		want   []Answer
	}{
		"as printed":             {status: tutorialAnswer(nil), want: yes},
		"without a generation":   {status: tutorialAnswer(map[string]any{"observedGeneration": nil}), want: yes},
		"of another generation":  {status: tutorialAnswer(map[string]any{"observedGeneration": int64(2)})},
		"not yet":                {status: tutorialAnswer(map[string]any{"status": "False"})},
		"unknown":                {status: tutorialAnswer(map[string]any{"status": "Unknown"})},
		"rejected by its reason": {status: tutorialAnswer(map[string]any{"status": "False", "reason": "Rejected", "message": "no"}), want: no},
		"rejected by its type":   {status: tutorialAnswer(map[string]any{"type": "Rejected", "message": "no"}), want: no},
		"a long comment":         {status: tutorialAnswer(map[string]any{"message": strings.Repeat("é", 600)}), want: []Answer{{Verdict: approval.Approve, Comment: strings.Repeat("é", 510) + "…"}}},
		"nothing":                {},
		"of another kind":        {status: map[string]any{"conditions": []any{map[string]any{"type": "ApprovalAccepted", "status": "True"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := AnswersOf(answered(t, tc.status), false)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The author is the one in the admission policy's decisions if the policy is in force; otherwise
// the author is unknown, whatever the status says.
func TestAuthorsOfAnswersComeFromTheStamp(t *testing.T) {
	status := map[string]any{
		"conditions": []any{map[string]any{"type": "Approved", "status": "True", "message": "fine"}},
		"approvedBy": approvedBy("mallory"),
		"decisions": []any{
			map[string]any{"verdict": "Approve", "by": approvedBy("ann", "sre"), "comment": "fine"},
			map[string]any{"verdict": "Reject", "by": approvedBy("bob"), "comment": "wait"},
		},
	}
	want := []Answer{
		{Verdict: approval.Approve, By: approval.Identity{Name: "ann", Groups: []string{"sre"}}, Comment: "fine"},
		{Verdict: approval.Reject, By: approval.Identity{Name: "bob"}, Comment: "wait"},
	}
	for stamped, want := range map[bool][]Answer{true: want, false: {{Verdict: approval.Approve, Comment: "fine"}}} {
		got, err := AnswersOf(answered(t, status), stamped)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("stamped %v (-want +got):\n%s", stamped, diff)
		}
	}
	delete(status, "decisions")
	got, err := AnswersOf(answered(t, status), true)
	if err != nil || len(got) != 1 || got[0].By.Name != "" {
		t.Errorf("an answer that was given before the policy was in force: %v, %v", got, err)
	}
}

// An approval needs a condition with the request's generation or without one. This also applies to
// an approval that the policies recorded.
func TestAnApprovalOfAnotherGenerationDoesNotStand(t *testing.T) {
	for _, tc := range []struct {
		generation any
		stands     bool
		why        string
	}{
		{int64(1), true, ""},
		{nil, true, ""},
		{int64(0), true, ""},
		{int64(2), false, "condition Approved has the observedGeneration 2 and the request the generation 1: it answers something else; write 1, or leave it out"},
	} {
		c := map[string]any{"type": "Approved", "status": "True"}
		if tc.generation != nil {
			c["observedGeneration"] = tc.generation
		}
		obj := answered(t, map[string]any{
			"conditions": []any{c},
			"decisions":  []any{map[string]any{"verdict": "Approve", "by": approvedBy("ann")}},
		})
		for _, stamped := range []bool{true, false} {
			got, err := AnswersOf(obj, stamped)
			if err != nil || (len(got) == 1) != tc.stands {
				t.Errorf("generation %v, stamped %v: %+v, %v", tc.generation, stamped, got, err)
			}
		}
		if got := strings.Join(OtherGenerations(obj), "; "); got != tc.why {
			t.Errorf("generation %v: %q, want %q", tc.generation, got, tc.why)
		}
	}
}

// A deleted request loses the answers that are not among the decisions of its gate. An accepted
// request loses none.
func TestAnswersLostWithADeletedRequest(t *testing.T) {
	status := func(more ...any) map[string]any {
		return map[string]any{
			"conditions": append([]any{map[string]any{"type": "Approved", "status": "True", "message": "fine"}}, more...),
			"decisions": []any{
				map[string]any{"verdict": "Approve", "by": approvedBy("ann")}, map[string]any{"verdict": "Approve", "by": approvedBy("bob")},
			},
		}
	}
	taken := func(names ...string) (out []approval.Decision) {
		for _, n := range names {
			out = append(out, approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: n}})
		}
		return out
	}
	accepted := map[string]any{"type": "ApprovalAccepted", "status": "True", "reason": "ApprovalRequestApprovalAccepted"}
	refused := map[string]any{"type": "ApprovalAccepted", "status": "False", "reason": "ApprovalRequestApprovalRefused"}
	for name, tc := range map[string]struct {
		status map[string]any
		taken  []approval.Decision
		want   []string
	}{
		"nothing was answered":  {nil, nil, nil},
		"nothing was taken":     {status(), nil, []string{"ann", "bob"}},
		"one was taken":         {status(), taken("ann"), []string{"bob"}},
		"all were taken":        {status(), taken("ann", "bob"), nil},
		"it counted as anyones": {map[string]any{"conditions": status()["conditions"]}, taken(Anybody().Name), nil},
		"an unknown author":     {map[string]any{"conditions": status()["conditions"]}, nil, []string{""}},
		"accepted":              {status(accepted), nil, nil},
		"refused":               {status(refused), nil, []string{"ann", "bob"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, a := range Untaken(answered(t, tc.status), tc.taken) {
				got = append(got, a.By.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnAnswerThatCannotBeReadIsAnError(t *testing.T) {
	_, err := AnswersOf(answered(t, map[string]any{"conditions": "yes"}), true)
	if err == nil || !strings.Contains(err.Error(), "ClusterApprovalRequest example-run-canary: status") {
		t.Errorf("got %v", err)
	}
}

func TestAPolicyThatNamesDecidersRefusesUnknownIdentities(t *testing.T) {
	for name, tc := range map[string]struct {
		policy approval.Policy
		want   bool
	}{
		"none":        {want: true},
		"one of all":  {policy: approval.Policy{Quorums: []approval.Quorum{{Count: 1}}}, want: true},
		"two":         {policy: approval.Policy{Quorums: []approval.Quorum{{Count: 2}}}},
		"of a group":  {policy: approval.Policy{Quorums: []approval.Quorum{{Group: "sre", Count: 1}}}},
		"not starter": {policy: approval.Policy{ForbidStarter: true}},
	} {
		if got := AnybodyMayDecide(tc.policy); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	f := tutorialRequest(t)
	d := approval.Decision{Verdict: approval.Approve, By: Anybody(), At: f.Request.Opened, Binding: f.Request.Binding}
	if _, outcome, err := approval.Evaluate(*f.Request, d, f.Request.Opened); outcome != approval.Accepted {
		t.Errorf("the answer of anybody: %s, %v", outcome, err)
	}
}

func TestWithConditionKeepsOtherFields(t *testing.T) {
	obj := answered(t, map[string]any{"conditions": []any{
		map[string]any{"type": "ApprovalAccepted", "status": "False", "reason": "ApprovalRequestApprovalRefused", "message": "x"},
		map[string]any{"type": "Approved", "status": "True"},
	}, "approvedBy": approvedBy("ann")})
	at := clock(t, "10:00:00")
	got, err := WithCondition(obj, AcceptedCondition(1, at))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"conditions": []any{
		map[string]any{"type": "Approved", "status": "True"},
		map[string]any{
			"type": "ApprovalAccepted", "status": "True", "reason": "ApprovalRequestApprovalAccepted", "observedGeneration": int64(1),
			"message": "The approval request has been approved and cannot be reverted", "lastTransitionTime": "2025-07-22T10:00:00Z",
		},
	}, "approvedBy": approvedBy("ann")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	obj.Object["status"] = got
	if again, err := WithCondition(obj, AcceptedCondition(1, at.Add(time.Hour))); again != nil || err != nil {
		t.Errorf("what it says already is written again: %v, %v", again, err)
	}
	for _, c := range []string{RejectedCondition(1, "ann", at).Message, RefusedCondition(1, "ann is in none of the groups", at).Message} {
		if !strings.Contains(c, "ann") {
			t.Errorf("%q does not say who", c)
		}
	}
}

// An approval that was withdrawn before it counted does not count; a withdrawn rejection does.
func TestAWithdrawnApprovalDoesNotCount(t *testing.T) {
	for status, want := range map[string]int{"True": 2, "False": 1, "": 1} {
		obj := &unstructured.Unstructured{Object: map[string]any{}}
		s := map[string]any{"decisions": []any{
			map[string]any{"verdict": "Approve", "by": map[string]any{"username": "alice"}},
			map[string]any{"verdict": "Reject", "by": map[string]any{"username": "bob"}},
		}}
		if status != "" {
			s["conditions"] = []any{map[string]any{"type": "Approved", "status": status, "reason": "NotYet"}}
		}
		obj.Object["status"] = s
		got, err := AnswersOf(obj, true)
		if err != nil || len(got) != want || got[len(got)-1].Verdict != approval.Reject {
			t.Errorf("Approved=%s: %+v (%v), want %d answers", status, got, err, want)
		}
	}
}

// Only the task whose request is blocked says that its name is taken, and not a task at the same
// side of another stage or at the other side of the stage.
func TestBlockedRequestAffectsOnlyItsTask(t *testing.T) {
	asks := []stages.Task{{Type: stages.Approval}}
	var s stages.Strategy
	var clusters []placement.Cluster
	for _, name := range []string{"one", "two"} {
		s.Stages = append(s.Stages, stages.Stage{Name: name, Selector: inStage(name), Before: asks, After: asks})
		clusters = append(clusters, placement.Cluster{Name: name, Labels: map[string]string{"environment": name}})
	}
	r := newRig(t, "10:00:00", s, false, clusters...)
	r.step("", stages.Input{})
	r.decide("10:01:00", approval.Approve)
	r.finish("10:02:00", "one")
	task := func(stage int, side string) any {
		return stageAt(r.status(), stage)[side].([]any)[0].(map[string]any)["conditions"]
	}
	r.facts.Blocked = []BlockedRequest{{Stage: "one", When: approval.After, Why: "taken"}}
	wantTold(t, "before one, while after one is blocked", task(0, "beforeStageTaskStatus"),
		"ApprovalRequestCreated=True BeforeStageTaskApprovalRequestCreated: ClusterApprovalRequest is created",
		"ApprovalRequestApproved=True BeforeStageTaskApprovalRequestApproved: ClusterApprovalRequest is approved")
	wantTold(t, "after one, blocked", task(0, "afterStageTaskStatus"),
		"ApprovalRequestCreated=False AfterStageTaskApprovalRequestNameTaken: taken")
	r.decide("10:03:00", approval.Approve)
	r.facts.Blocked = []BlockedRequest{{Stage: "two", When: approval.Before, Why: "taken"}}
	wantTold(t, "before one", task(0, "beforeStageTaskStatus"),
		"ApprovalRequestCreated=True BeforeStageTaskApprovalRequestCreated: ClusterApprovalRequest is created",
		"ApprovalRequestApproved=True BeforeStageTaskApprovalRequestApproved: ClusterApprovalRequest is approved")
	wantTold(t, "after one", task(0, "afterStageTaskStatus"),
		"ApprovalRequestCreated=True AfterStageTaskApprovalRequestCreated: ClusterApprovalRequest is created",
		"ApprovalRequestApproved=True AfterStageTaskApprovalRequestApproved: ClusterApprovalRequest is approved")
	wantTold(t, "before two", task(1, "beforeStageTaskStatus"),
		"ApprovalRequestCreated=False BeforeStageTaskApprovalRequestNameTaken: taken")
}
