package manifests_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// exchange is one request and the changes of people to its status.
type exchange struct {
	t    *testing.T
	s    *kubeenv.Server
	k    requestKind
	name string
}

func newExchange(t *testing.T) *exchange {
	t.Helper()
	s := kubeFleetServer(t)
	people(t, s)
	k := requestKinds(t, s)[0]
	return &exchange{t: t, s: s, k: k, name: k.create(t, clientFor(t, s.Config())).GetName()}
}

// patch merges status into the status as a user. Refusal is a part of the expected error, empty for
// none.
func (e *exchange) patch(user string, status map[string]any, refusal string) {
	e.t.Helper()
	body, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		e.t.Fatal(err)
	}
	c := e.k.client(clientFor(e.t, configOf(e.s, user)))
	_, err = c.Patch(e.t.Context(), e.name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	switch {
	case refusal == "" && err != nil:
		e.t.Fatalf("%s: %v", user, err)
	case refusal != "" && err == nil:
		e.t.Fatalf("%s: %v was taken, want %q", user, status, refusal)
	case refusal != "" && !strings.Contains(err.Error(), refusal):
		e.t.Fatalf("%s: %v, want %q", user, err, refusal)
	}
}

func (e *exchange) status() map[string]any {
	e.t.Helper()
	status, _ := e.k.get(e.t, clientFor(e.t, e.s.Config()), e.name).Object["status"].(map[string]any)
	return status
}

// want compares the approver, the rejecter, and the decisions as "alice Approve, bob Reject".
func (e *exchange) want(approved, rejected, decisions string) {
	e.t.Helper()
	status := e.status()
	a, _, _ := unstructured.NestedString(status, "approvedBy", "username")
	r, _, _ := unstructured.NestedString(status, "rejectedBy", "username")
	var all []string
	list, _, _ := unstructured.NestedSlice(status, "decisions")
	for _, d := range list {
		d := d.(map[string]any)
		by, _, _ := unstructured.NestedString(d, "by", "username")
		all = append(all, by+" "+d["verdict"].(string))
	}
	if diff := cmp.Diff([]string{approved, rejected, decisions}, []string{a, r, strings.Join(all, ", ")}); diff != "" {
		e.t.Fatalf("approved by, rejected by, decisions (-want +got):\n%s", diff)
	}
}

func conditions(all ...map[string]any) map[string]any {
	list := make([]any, len(all))
	for i, c := range all {
		list[i] = c
	}
	return map[string]any{"conditions": list}
}

var approvedByAlice = condition("Approved", "True", "lgtm")

// The policy overwrites claims about an identity. An update that leaves the answer unchanged is an
// approval by its sender.
func TestPolicyOverwritesClaimedIdentities(t *testing.T) {
	const refusal = "needs the RBAC verb approve"
	for user, c := range map[string]struct{ refusal, decisions string }{
		hubUser: {refusal, "alice Approve"}, "mallory": {refusal, "alice Approve"}, "bob": {"", "alice Approve, bob Approve"},
	} {
		e := newExchange(t)
		e.patch("alice", conditions(approvedByAlice), "")
		e.patch(user, map[string]any{"approvedBy": map[string]any{"username": user}, "decisions": nil}, c.refusal)
		e.patch(user, map[string]any{"approvedBy": nil, "rejectedBy": map[string]any{"username": user}}, c.refusal)
		e.want("alice", "", c.decisions)
	}
}

func TestTheHubAcceptsWithoutBecomingTheApprover(t *testing.T) {
	e := newExchange(t)
	e.patch("alice", conditions(approvedByAlice), "")
	accepted := condition("ApprovalAccepted", "True", "accepted")
	e.patch("bob", conditions(approvedByAlice, accepted), "ApprovalAccepted is set by the hub")
	e.patch(hubUser, conditions(approvedByAlice, accepted), "")
	e.want("alice", "", "alice Approve")
}

func TestAnAcceptedApprovalCannotBeReverted(t *testing.T) {
	e := newExchange(t)
	accepted := condition("ApprovalAccepted", "True", "accepted")
	e.patch("alice", conditions(approvedByAlice), "")
	e.patch(hubUser, conditions(approvedByAlice, accepted), "")
	const refusal = "the approval has been accepted and cannot be reverted"
	for name, status := range map[string]map[string]any{
		"withdrawn": conditions(accepted), "all removed": {"conditions": nil}, "refused": conditions(condition("Approved", "False", "no"), accepted),
		"accepted no more": conditions(approvedByAlice), "another message": conditions(condition("Approved", "True", "me too"), accepted),
		"rejected": conditions(approvedByAlice, accepted, condition("Rejected", "True", "no")),
	} {
		t.Run(name, func(t *testing.T) { (&exchange{t: t, s: e.s, k: e.k, name: e.name}).patch("admin", status, refusal) })
	}
	e.want("alice", "", "alice Approve")
}

func TestEveryAnswerIsADecisionOfItsOwn(t *testing.T) {
	e := newExchange(t)
	e.patch("alice", conditions(approvedByAlice), "")
	e.patch("bob", conditions(condition("Approved", "True", "me too")), "")
	e.want("bob", "", "alice Approve, bob Approve")
	e.patch("alice", conditions(condition("Approved", "True", "again")), "")
	e.want("alice", "", "alice Approve, bob Approve")
	e.patch("bob", conditions(condition("Rejected", "True", "stop")), "")
	e.want("", "bob", "alice Approve, bob Reject")
}

func TestAWithdrawnApprovalDoesNotReturnWithAnother(t *testing.T) {
	e := newExchange(t)
	e.patch("alice", conditions(approvedByAlice), "")
	e.patch("alice", conditions(), "")
	e.want("", "", "")
	e.patch("bob", conditions(condition("Approved", "True", "me")), "")
	e.patch("alice", conditions(), "") // bob's answer stays his, and does not count while nothing is approved
	e.want("", "", "bob Approve")
}

func TestARequestIsRejectedByEitherCondition(t *testing.T) {
	refusal := condition("Approved", "False", "no")
	refusal["reason"] = "Rejected"
	for name, c := range map[string]map[string]any{"Rejected": condition("Rejected", "True", "no"), "Approved": refusal} {
		t.Run(name, func(t *testing.T) {
			e := newExchange(t)
			e.patch("mallory", conditions(c), "needs the RBAC verb approve on clusterapprovalrequests.placement.kubernetes-fleet.io, which user mallory does not have")
			e.patch("alice", conditions(c), "")
			e.want("", "alice", "alice Reject")
		})
	}
}

func TestARequestIsNotBothApprovedAndRejected(t *testing.T) {
	e := newExchange(t)
	e.patch("alice", conditions(approvedByAlice, condition("Rejected", "True", "no")), "a request cannot be both Approved and Rejected")
}

// An answer to another generation is none. It is not recorded, so that it cannot count later beside
// a correct answer. It requires the right to approve all the same.
func TestAnAnswerToAnotherGenerationIsNotRecorded(t *testing.T) {
	at := func(kind string, generation int64) map[string]any {
		c := condition(kind, "True", "fine")
		c["observedGeneration"] = generation
		return c
	}
	for _, kind := range []string{"Approved", "Rejected"} {
		t.Run(kind, func(t *testing.T) {
			e := newExchange(t)
			said := func(decisions string) {
				t.Helper()
				approved, rejected := "", ""
				if decisions != "" && kind == "Approved" {
					approved = "bob"
				} else if decisions != "" {
					rejected = "bob"
				}
				e.want(approved, rejected, decisions)
			}
			e.patch("mallory", conditions(at(kind, 2)), "needs the RBAC verb approve")
			e.patch("alice", conditions(at(kind, 2)), "")
			said("")
			e.patch(hubUser, conditions(at(kind, 2), condition("ApprovalAccepted", "False", "not counted")), "")
			said("")
			verdict := map[string]string{"Approved": "Approve", "Rejected": "Reject"}[kind]
			e.patch("bob", conditions(at(kind, 1)), "")
			said("bob " + verdict)
			if kind == "Approved" {
				e.patch("bob", conditions(at(kind, 2)), "") // he withdraws it
				said("")
			}
		})
	}
}

// The generation that counts is the generation of the object, not the one in the answer.
func TestTheGenerationOfARequestIsNotTheClients(t *testing.T) {
	e := newExchange(t)
	u := e.k.get(t, clientFor(t, e.s.Config()), e.name)
	u.SetGeneration(2)
	c := condition("Approved", "True", "fine")
	c["observedGeneration"] = int64(2)
	u.Object["status"] = conditions(c)
	if _, err := e.k.client(clientFor(t, configOf(e.s, "alice"))).UpdateStatus(t.Context(), u, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.want("", "", "")
}

func TestOnlyApproversAndTheHubRevokeAnAnswer(t *testing.T) {
	e := newExchange(t)
	e.patch("alice", conditions(approvedByAlice), "")
	e.patch("mallory", conditions(), "taking an answer back needs the RBAC verb approve")
	e.patch(hubUser, conditions(condition("Approved", "False", "one more is needed")), "")
	e.want("", "", "alice Approve")
	e.patch("bob", conditions(approvedByAlice), "")
	e.want("bob", "", "alice Approve, bob Approve")
}

func TestALongMessageIsCutInTheDecision(t *testing.T) {
	e := newExchange(t)
	e.patch("alice", conditions(condition("Approved", "True", strings.Repeat("ö", 2000))), "")
	d := e.status()["decisions"].([]any)[0].(map[string]any)
	if got := len([]rune(d["comment"].(string))); got != 1024 {
		t.Errorf("the comment has %d characters, want 1024", got)
	}
}

func TestARunSaysWhoCreatedIt(t *testing.T) {
	s := kubeFleetServer(t)
	bind(t, s, "slipway-cluster-editor", "carol", "dave")
	for _, version := range []string{"v1", "v1beta1"} {
		k := requestKind{kind: "ClusterStagedUpdateRun", gvr: placementResource(version, "clusterstagedupdateruns")}
		u := k.request()
		u.Object["spec"] = map[string]any{"placementName": "p", "stagedRolloutStrategyName": "s", "state": "Run"}
		u.SetAnnotations(map[string]string{"slipway.dev/created-by": "root", "slipway.dev/created-by-uid": "0", "note": "kept"})
		got, err := k.client(clientFor(t, configOf(s, "carol"))).Create(t.Context(), u, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		wantAnnotations(t, got)
		changeCreator(t, s, k, got)
	}
}

// The requester of a rollback is the last user that set spec.state to Rollback. Other changes and
// claims have no effect.
func TestARunSaysWhoAskedForItsRollback(t *testing.T) {
	s := installedServer(t)
	bind(t, s, "slipway-cluster-editor", "carol", "dave")
	k := requestKind{kind: "ClusterStagedUpdateRun", gvr: placementResource("v1beta1", "clusterstagedupdateruns")}
	u := k.request()
	u.Object["spec"] = map[string]any{"placementName": "p", "stagedRolloutStrategyName": "s", "state": "Run"}
	u.SetAnnotations(map[string]string{manifests.RollbackBy: "root"})
	u, err := k.client(clientFor(t, configOf(s, "carol"))).Create(t.Context(), u, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ user, patch, want string }{
		{"carol", `{"metadata":{"annotations":{"slipway.dev/rollback-by":"root"}}}`, ""},
		{"dave", `{"spec":{"state":"Rollback"},"metadata":{"annotations":{"slipway.dev/rollback-by":"root"}}}`, "dave"},
		{"carol", `{"spec":{"state":"Rollback"},"metadata":{"annotations":{"slipway.dev/rollback-by":null}}}`, "dave"},
		{"carol", `{"spec":{"state":"Run"}}`, "dave"},
		{"carol", `{"spec":{"state":"Rollback"}}`, "carol"},
	} {
		got, err := k.client(clientFor(t, configOf(s, step.user))).Patch(t.Context(), u.GetName(), types.MergePatchType, []byte(step.patch), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if by := manifests.Requester(got).Name; by != step.want {
			t.Errorf("%s patches %s: the rollback is by %q, want %q", step.user, step.patch, by, step.want)
		}
	}
}

// changeCreator tries to change the creator of a run.
func changeCreator(t *testing.T, s *kubeenv.Server, k requestKind, u *unstructured.Unstructured) {
	t.Helper()
	c := k.client(clientFor(t, configOf(s, "dave")))
	for _, annotations := range []string{`{"slipway.dev/created-by":"dave","slipway.dev/created-by-uid":"1"}`, `{"slipway.dev/created-by":null}`} {
		body := `{"metadata":{"annotations":` + annotations + `}}`
		got, err := c.Patch(t.Context(), u.GetName(), types.MergePatchType, []byte(body), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		wantAnnotations(t, got)
	}
	u = k.get(t, clientFor(t, s.Config()), u.GetName())
	u.SetAnnotations(nil)
	got, err := c.Update(t.Context(), u, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if by := got.GetAnnotations()["slipway.dev/created-by"]; by != "carol" {
		t.Errorf("after an update without annotations created by %q, want carol", by)
	}
}

func wantAnnotations(t *testing.T, got *unstructured.Unstructured) {
	t.Helper()
	want := map[string]string{"slipway.dev/created-by": "carol", "note": "kept"}
	if diff := cmp.Diff(want, got.GetAnnotations()); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}
