package hub_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

const gate = `afterStageTasks: [{type: Approval}]`

// gated begins a run with a gate after its first stage, and waits for the request.
func gated(t *testing.T, w func(*testing.T) *sharedCluster, task string) *scenario {
	s := newScenario(t, w, 1)
	s.put("v1")
	s.place("type: External")
	s.strategy(task)
	s.scheduled()
	s.run("a", "")
	s.asked()
	return s
}

func (s *scenario) asked() {
	s.Helper()
	s.eventually("the request", func() error { _, err := s.get("careq/NAME-a-s1"); return err })
}

// as returns a client of a user with the role: to approve, or only to write the status.
func (s *scenario) as(user, role string, groups ...string) dynamic.Interface {
	s.Helper()
	s.apply(fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: status-only}
rules: [{apiGroups: [placement.kubernetes-fleet.io], resources: [clusterapprovalrequests, clusterapprovalrequests/status], verbs: [get, patch, update]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NAME-%s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %s}]`, user, role, user))
	return s.client(s.server.ConfigFor(user, groups...))
}

// TestT1ApprovalCountsForTheAuthenticatedUser is threat T1: an approval counts for the
// authenticated user, and claims in the patch have no effect. A user without the right to approve
// is refused.
func TestT1ApprovalCountsForTheAuthenticatedUser(t *testing.T) {
	s := gated(t, openVouched, gate)
	mallory, alice := s.as("mallory", "status-only"), s.as("alice", "slipway-approver")
	claim := strings.Replace(approvalFile, `{"status":{`, `{"status":{"approvedBy":{"username":"root"},"decisions":[{"verdict":"Approve","by":{"username":"root"}}],`, 1)
	s.eventually("mallory to be refused", func() error {
		for _, patch := range []string{approvalFile, claim} {
			if err := s.tryPatch(mallory, "careq/NAME-a-s1", patch, "status"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "approve") {
				return fmt.Errorf("the answer is %v", err)
			}
		}
		return nil
	})
	s.stays("the run waits", 500*time.Millisecond, s.condition("csur/NAME-a", "Progressing", "False", "UpdateRunWaiting"))
	s.eventually("alice to approve", func() error { return s.tryPatch(alice, "careq/NAME-a-s1", claim, "status") })
	s.comes("careq/NAME-a-s1", "ApprovalAccepted", "True", "")
	s.comes("csur/NAME-a", "Succeeded", "True", "")
	s.eventually("an Event that names her", func() error {
		if all := strings.Join(s.events("csur/NAME-a", ""), "\n"); !strings.Contains(all, "alice") || strings.Contains(all, "root") {
			return errors.New(all)
		}
		return nil
	})
}

// TestApprovalFileIsGoodForTheNextRunToo: the tutorial's approval.json, with its old time, works
// for two runs.
func TestApprovalFileIsGoodForTheNextRunToo(t *testing.T) {
	s := gated(t, openVouched, gate)
	s.approved("careq/NAME-a-s1")
	s.comes("csur/NAME-a", "Succeeded", "True", "")
	s.run("b", "")
	s.approved("careq/NAME-b-s1")
	s.comes("csur/NAME-b", "Succeeded", "True", "")
}

// TestT3NoApprovalCountsBeforeTheGateOpens is threat T3: a request that a user creates and approves
// before the run reaches the gate, or before the run exists, is deleted, and the run makes its own
// request.
func TestT3NoApprovalCountsBeforeTheGateOpens(t *testing.T) {
	t.Parallel()
	for _, w := range []struct {
		name string
		open func(*testing.T) *sharedCluster
	}{{"vouched", openVouched}, {"bare", openBare}} {
		t.Run(w.name, func(t *testing.T) {
			s := newScenario(t, w.open, 1)
			s.put("v1")
			s.place("type: External")
			s.strategy(gate)
			s.scheduled()
			forged := s.forge("")
			s.run("a", "")
			s.eventually("another request in its place", func() error { return s.replaced(forged) })
			s.eventually("an Event on either", func() error {
				return errors.Join(s.told("csur/NAME-a", "AnswerNotCounted"), s.told("careq/NAME-a-s1", "AnswerNotCounted"))
			})
			s.stays("the run waits", 500*time.Millisecond, s.condition("csur/NAME-a", "Succeeded", "", ""))
			s.comes("csur/NAME-a", "Progressing", "False", "UpdateRunWaiting")
			s.approved("careq/NAME-a-s1")
			s.comes("csur/NAME-a", "Succeeded", "True", "")
		})
	}
}

// forge creates the request NAME-a-s1 and approves it.
func (s *scenario) forge(more string) *unstructured.Unstructured {
	s.Helper()
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterApprovalRequest
metadata: {name: NAME-a-s1, labels: {kubernetes-fleet.io/targetUpdateRun: NAME-a, kubernetes-fleet.io/targetUpdatingStage: s1, kubernetes-fleet.io/taskType: afterStage, kubernetes-fleet.io/isLatestUpdateRunApproval: "true"}}
spec: {parentStageRollout: NAME-a, targetStage: s1` + more + `}`)
	if err := s.approve(s.admin, "careq/NAME-a-s1"); err != nil {
		s.Fatal(err)
	}
	u, err := s.get("careq/NAME-a-s1")
	if err != nil {
		s.Fatal(err)
	}
	return u
}

// replaced checks that another object has the name of the request.
func (s *scenario) replaced(old *unstructured.Unstructured) error {
	u, err := s.get("careq/NAME-a-s1")
	if err == nil && u.GetUID() == old.GetUID() {
		err = errors.New("it is still the old one")
	}
	return err
}

// TestT2NoApprovalCountsForARunMadeAgain is threat T2: the request of a deleted run, with its
// approval, does not open the gate of another run with the same name, for any spec of that run.
func TestT2NoApprovalCountsForARunMadeAgain(t *testing.T) {
	s := gated(t, openVouched, gate)
	old, err := s.get("careq/NAME-a-s1")
	if err != nil {
		t.Fatal(err)
	}
	s.approved("careq/NAME-a-s1")
	s.comes("csur/NAME-a", "Succeeded", "True", "")
	s.delete("csur/NAME-a")
	s.eventually("run and request to be gone", func() error {
		return errors.Join(s.gone(s.admin, "csur/NAME-a")(), s.gone(s.admin, "careq/NAME-a-s1")())
	})
	// A copy of the old request with its seal, as restored from a backup.
	copied := &unstructured.Unstructured{Object: map[string]any{"apiVersion": old.GetAPIVersion(), "kind": old.GetKind(), "spec": old.Object["spec"]}}
	copied.SetName(old.GetName())
	copied.SetLabels(old.GetLabels())
	copied.SetAnnotations(old.GetAnnotations())
	r, _ := s.on(s.admin, "careq/NAME-a-s1")
	made, err := r.Create(t.Context(), copied, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.approve(s.admin, "careq/NAME-a-s1"); err != nil {
		t.Fatal(err)
	}
	s.run("a", "")
	s.eventually("another request in its place", func() error { return s.replaced(made) })
	s.stays("the run waits", 500*time.Millisecond, s.condition("csur/NAME-a", "Succeeded", "", ""))
	s.approved("careq/NAME-a-s1")
	s.comes("csur/NAME-a", "Succeeded", "True", "")
}

// TestApprovalRequestThatIsDeletedIsAskedAgain: a request that is deleted before it is answered is
// created again. After the answer it is not.
func TestApprovalRequestThatIsDeletedIsAskedAgain(t *testing.T) {
	s := gated(t, openVouched, gate)
	old, err := s.get("careq/NAME-a-s1")
	if err != nil {
		t.Fatal(err)
	}
	s.delete("careq/NAME-a-s1")
	s.eventually("another request", func() error { return s.replaced(old) })
	s.approved("careq/NAME-a-s1")
	s.comes("csur/NAME-a", "Succeeded", "True", "")
	s.delete("careq/NAME-a-s1")
	s.stays("there is no request", 500*time.Millisecond, s.gone(s.admin, "careq/NAME-a-s1"))
}

// TestApprovalCanBeARejection: Approved=False with the reason Rejected ends the run, and the status
// names the author.
func TestApprovalCanBeARejection(t *testing.T) {
	s := gated(t, openVouched, gate)
	alice := s.as("alice", "slipway-approver")
	s.eventually("alice to reject", func() error {
		return s.tryPatch(alice, "careq/NAME-a-s1", strings.NewReplacer(`"True"`, `"False"`, "testPassed", "Rejected").Replace(approvalFile), "status")
	})
	s.comes("careq/NAME-a-s1", "ApprovalAccepted", "False", "alice")
	s.comes("csur/NAME-a", "Succeeded", "False", "alice")
}

// TestTheSameRejectionOfASecondPersonCounts: a person outside of the groups rejects, which does not
// count. The same file from a person in the group ends the run.
func TestTheSameRejectionOfASecondPersonCounts(t *testing.T) {
	s := gated(t, openVouched, `afterStageTasks: [{type: Approval, approval: {quorums: [{count: 1, group: security}]}}]`)
	trudy, carol := s.as("trudy", "slipway-approver"), s.as("carol", "slipway-approver", "security")
	rejection := strings.NewReplacer(`"True"`, `"False"`, "testPassed", "Rejected").Replace(approvalFile)
	s.eventually("trudy to reject", func() error { return s.tryPatch(trudy, "careq/NAME-a-s1", rejection, "status") })
	s.comes("careq/NAME-a-s1", "ApprovalAccepted", "False", "trudy")
	s.stays("the run waits", 300*time.Millisecond, s.condition("csur/NAME-a", "Succeeded", "", ""))
	s.eventually("carol to reject", func() error { return s.tryPatch(carol, "careq/NAME-a-s1", rejection, "status") })
	s.comes("csur/NAME-a", "Succeeded", "False", "carol")
}

// TestApprovalOfAnotherGenerationDoesNotCount: an answer with another observedGeneration than the
// request's does not count, from any author, and the request explains why. The tutorial's answer
// has 1; an answer without one counts.
func TestApprovalOfAnotherGenerationDoesNotCount(t *testing.T) {
	t.Parallel()
	for _, w := range []struct {
		name string
		open func(*testing.T) *sharedCluster
	}{{"vouched", openVouched}, {"bare", openBare}} {
		t.Run(w.name, func(t *testing.T) {
			s := gated(t, w.open, gate)
			for _, answer := range []string{
				strings.Replace(approvalFile, `"observedGeneration":1`, `"observedGeneration":2`, 1),
				strings.NewReplacer(`"observedGeneration":1`, `"observedGeneration":2`, `"Approved"`, `"Rejected"`).Replace(approvalFile),
			} {
				s.eventually("an answer", func() error { return s.tryPatch(s.admin, "careq/NAME-a-s1", answer, "status") })
				s.comes("careq/NAME-a-s1", "ApprovalAccepted", "False", "has the observedGeneration 2 and the request the generation 1")
				s.stays("the run waits", 300*time.Millisecond, s.condition("csur/NAME-a", "Succeeded", "", ""))
			}
			s.eventually("an answer without a generation", func() error {
				return s.tryPatch(s.admin, "careq/NAME-a-s1", strings.Replace(approvalFile, `"observedGeneration":1,`, "", 1), "status")
			})
			s.comes("careq/NAME-a-s1", "ApprovalAccepted", "True", "")
			s.comes("csur/NAME-a", "Succeeded", "True", "")
		})
	}
}

// TestAnApprovalOnABareServerCountsIfThePolicyAsksNoIdentity: without the admission policies no
// author is certain. The plain gate opens, and a gate with a policy names the missing policies.
func TestAnApprovalOnABareServerCountsIfThePolicyAsksNoIdentity(t *testing.T) {
	t.Parallel()
	t.Run("plain", func(t *testing.T) {
		s := gated(t, openBare, gate)
		s.approved("careq/NAME-a-s1")
		s.comes("csur/NAME-a", "Succeeded", "True", "")
	})
	t.Run("starter", func(t *testing.T) {
		s := newScenario(t, openBare, 1)
		s.put("v1")
		s.place("type: External")
		s.strategy(`afterStageTasks: [{type: Approval, approval: {forbidStarter: true}}]`)
		s.run("a", "")
		s.comes("csur/NAME-a", "Initialized", "False", "who starts the run must be known")
	})
	for name, policy := range map[string]string{"two": "quorums: [{count: 2}]", "group": "quorums: [{count: 1, group: 'system:masters'}]"} {
		t.Run(name, func(t *testing.T) {
			s := gated(t, openBare, `afterStageTasks: [{type: Approval, approval: {`+policy+`}}]`)
			s.approved("careq/NAME-a-s1")
			s.comes("careq/NAME-a-s1", "ApprovalAccepted", "False", "install the admission policies")
			s.stays("the run waits", 500*time.Millisecond, s.condition("csur/NAME-a", "Succeeded", "", ""))
		})
	}
}

// TestApprovalByAQuorum: the quorum needs two different people and one of a group; two answers of
// one person count once. All of them use the same file, so all patches but the first change nothing
// that a client sends.
func TestApprovalByAQuorum(t *testing.T) {
	s := gated(t, openVouched, `afterStageTasks: [{type: Approval, approval: {quorums: [{count: 2}, {count: 1, group: security}]}}]`)
	alice, bob, carol := s.as("alice", "slipway-approver"), s.as("bob", "slipway-approver"), s.as("carol", "slipway-approver", "security")
	waits := s.condition("csur/NAME-a", "Succeeded", "", "")
	for _, who := range []dynamic.Interface{alice, alice, bob} {
		s.eventually("an approval", func() error { return s.tryPatch(who, "careq/NAME-a-s1", approvalFile, "status") })
		s.stays("the run waits", 300*time.Millisecond, waits)
	}
	s.eventually("carol to approve", func() error { return s.tryPatch(carol, "careq/NAME-a-s1", approvalFile, "status") })
	s.comes("csur/NAME-a", "Succeeded", "True", "")
}

// again approves with a unique text, so that the server sees a change.
func (s *scenario) again(who dynamic.Interface, what string) error {
	return s.tryPatch(who, what, strings.Replace(approvalFile, "lgtm", "lgtm "+time.Now().String(), 1), "status")
}

// TestT4ApprovalByTheStarterCanBeForbidden is threat T4: the creator of a run is recorded and
// cannot approve it; another user can.
func TestT4ApprovalByTheStarterCanBeForbidden(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	alice, bob := s.as("alice", "slipway-approver"), s.as("bob", "slipway-approver")
	s.apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NAME-editor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: slipway-cluster-editor}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]`)
	s.put("v1")
	s.place("type: External")
	s.strategy(`beforeStageTasks: [{type: Approval, approval: {forbidStarter: true}}]`)
	s.scheduled()
	run := s.objects(runOf("a", "placementName: NAME, stagedRolloutStrategyName: NAME"))[0]
	run.SetAnnotations(map[string]string{"slipway.dev/created-by": "alice"})
	s.eventually("alice to start it", func() error { return s.applyTo(alice, run) })
	request := "careq/NAME-a-before-s1"
	s.eventually("the request", func() error { _, err := s.get(request); return err })
	s.eventually("alice to say yes", func() error { return s.tryPatch(alice, request, approvalFile, "status") })
	s.comes(request, "ApprovalAccepted", "False", "start")
	s.stays("the answer of the hub is none", 300*time.Millisecond, s.condition("csur/NAME-a", "Succeeded", "", ""))
	s.eventually("bob to say yes with the same file", func() error { return s.tryPatch(bob, request, approvalFile, "status") })
	s.comes("csur/NAME-a", "Succeeded", "True", "")
}

// TestApprovalExpires: a request that is not answered in time is made again, and answers to the old
// one do not count.
func TestApprovalExpires(t *testing.T) {
	s := gated(t, openVouched, `afterStageTasks: [{type: Approval, approval: {expires: 30s, quorums: [{count: 2}]}}]`)
	alice, bob := s.as("alice", "slipway-approver"), s.as("bob", "slipway-approver")
	old, err := s.get("careq/NAME-a-s1")
	if err != nil {
		t.Fatal(err)
	}
	_ = s.again(alice, "careq/NAME-a-s1")
	s.eventually("another request", func() error { return s.replaced(old) })
	s.eventually("an Event that says that what alice answered does not count", func() error {
		if all := strings.Join(s.events("csur/NAME-a", "AnswerNotCounted"), "\n"); !strings.Contains(all, "attempt 1, which has expired") || !strings.Contains(all, "Approve by alice was") {
			return errors.New(all)
		}
		return nil
	})
	s.eventually("both to approve one request", func() error {
		_, _ = s.again(alice, "careq/NAME-a-s1"), s.again(bob, "careq/NAME-a-s1")
		return s.condition("csur/NAME-a", "Succeeded", "True", "")()
	})
}

// TestT3TheExactRequestMadeTooEarlyDoesNotCount is threat T3 at its worst: an attacker knows the
// request of an earlier gate of the run, and the request of the same gate of an earlier run. Before
// the gate opens, the attacker creates exactly the request that the hub will create, and approves
// it.
func TestT3TheExactRequestMadeTooEarlyDoesNotCount(t *testing.T) {
	t.Parallel()
	for _, w := range []struct {
		name string
		open func(*testing.T) *sharedCluster
	}{{"vouched", openVouched}, {"bare", openBare}} {
		t.Run(w.name, func(t *testing.T) {
			s := newScenario(t, w.open, 2)
			s.put("v1")
			s.place("type: External")
			s.strategy(gate, gate)
			s.scheduled()
			s.run("z", "")
			s.approved("careq/NAME-z-s1")
			before := s.seen("careq/NAME-z-s2")
			s.approved("careq/NAME-z-s2")
			s.comes("csur/NAME-z", "Succeeded", "True", "")
			s.run("a", "")
			first := s.seen("careq/NAME-a-s1")
			spec := first.DeepCopy().Object["spec"].(map[string]any)
			spec["targetStage"] = "s2"
			forged := &unstructured.Unstructured{Object: map[string]any{"apiVersion": first.GetAPIVersion(), "kind": first.GetKind(), "spec": spec}}
			forged.SetName(s.own("NAME-a-s2"))
			forged.SetLabels(before.GetLabels())
			forged.SetAnnotations(before.GetAnnotations())
			forged.SetOwnerReferences(first.GetOwnerReferences())
			r, _ := s.on(s.admin, "careq/NAME-a-s2")
			made, err := r.Create(t.Context(), forged, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.approve(s.admin, "careq/NAME-a-s2"); err != nil {
				t.Fatal(err)
			}
			s.approved("careq/NAME-a-s1")
			s.eventually("another request in its place", func() error {
				u, err := s.get("careq/NAME-a-s2")
				if err == nil && u.GetUID() == made.GetUID() {
					err = errors.New("it is still the forged one")
				}
				return err
			})
			s.stays("the run waits", 300*time.Millisecond, s.condition("csur/NAME-a", "Succeeded", "", ""))
			s.approved("careq/NAME-a-s2")
			s.comes("csur/NAME-a", "Succeeded", "True", "")
		})
	}
}

// seen waits for an object and returns it.
func (s *scenario) seen(what string) (out *unstructured.Unstructured) {
	s.Helper()
	s.eventually(what, func() (err error) {
		out, err = s.get(what)
		return err
	})
	return out
}
