package hub_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	admission "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/hub/manifests"
)

// weakened is a hub whose policies are removed and installed again.
var weakened sharedCluster

func openWeakened(t *testing.T) *sharedCluster {
	return weakened.open(t, "weakened", neverSecrets(), installAll)
}

func installAll(ctx context.Context, cfg *rest.Config) error {
	return manifests.Install(ctx, cfg, manifests.Options{Timeout: patience, Hub: &manifests.HubOptions{}})
}

const rightsPolicy = "slipway-approval-rights"

// weakenings remove the protection that keeps users without the approve right from answering. lets
// reports whether the API server then accepts such an answer. If it does not, the test cannot
// check whether the hub refuses a further answer.
var weakenings = []struct {
	name string
	do   func(context.Context, admission.AdmissionregistrationV1Interface) error
	lets bool
	says string
}{
	{"policy deleted", func(ctx context.Context, api admission.AdmissionregistrationV1Interface) error {
		return api.ValidatingAdmissionPolicies().Delete(ctx, rightsPolicy, metav1.DeleteOptions{})
	}, true, "ValidatingAdmissionPolicy slipway-approval-rights is missing"},
	{"binding deleted", func(ctx context.Context, api admission.AdmissionregistrationV1Interface) error {
		return api.ValidatingAdmissionPolicyBindings().Delete(ctx, rightsPolicy, metav1.DeleteOptions{})
	}, true, "ValidatingAdmissionPolicyBinding slipway-approval-rights is missing"},
	{
		"audited only", patchBinding(`{"spec":{"validationActions":["Audit"]}}`), true,
		"ValidatingAdmissionPolicyBinding slipway-approval-rights was changed: spec.validationActions",
	},
	{"everything deleted", func(ctx context.Context, api admission.AdmissionregistrationV1Interface) error {
		return errors.Join(
			api.ValidatingAdmissionPolicyBindings().DeleteCollection(ctx, metav1.DeleteOptions{}, hubPolicies),
			api.ValidatingAdmissionPolicies().DeleteCollection(ctx, metav1.DeleteOptions{}, hubPolicies),
			api.MutatingAdmissionPolicyBindings().DeleteCollection(ctx, metav1.DeleteOptions{}, hubPolicies),
			api.MutatingAdmissionPolicies().DeleteCollection(ctx, metav1.DeleteOptions{}, hubPolicies),
		)
	}, true, "ValidatingAdmissionPolicy slipway-approval-rights is missing"},
	{
		"failures ignored", patchPolicy(`{"spec":{"failurePolicy":"Ignore"}}`), false,
		"ValidatingAdmissionPolicy slipway-approval-rights was changed: spec.failurePolicy",
	},
	{
		"matches nothing", patchPolicy(`{"spec":{"matchConstraints":{"objectSelector":{"matchLabels":{"no":"such"}}}}}`), true,
		"ValidatingAdmissionPolicy slipway-approval-rights was changed: spec.matchConstraints",
	},
	{
		"a condition that never holds", patchPolicy(`{"spec":{"matchConditions":[{"name":"never","expression":"false"}]}}`), true,
		"ValidatingAdmissionPolicy slipway-approval-rights was changed: spec.matchConditions",
	},
}

// hubPolicies are the policies of the hub.
var hubPolicies = metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=slipway"}

func patchPolicy(patch string) func(context.Context, admission.AdmissionregistrationV1Interface) error {
	return func(ctx context.Context, api admission.AdmissionregistrationV1Interface) error {
		_, err := api.ValidatingAdmissionPolicies().Patch(ctx, rightsPolicy, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
}

func patchBinding(patch string) func(context.Context, admission.AdmissionregistrationV1Interface) error {
	return func(ctx context.Context, api admission.AdmissionregistrationV1Interface) error {
		_, err := api.ValidatingAdmissionPolicyBindings().Patch(ctx, rightsPolicy, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
}

// Without the policy of approval rights, everyone with the right to write the status could approve.
// Then no answer counts, even at a gate that any approver may open, and the request names the
// missing policy. After the policy is installed again, only users with the right may answer. An
// answer from the time without the policy is lost, and an Event names its author.
func TestNoAnswerCountsWhileTheRightsPolicyIsNotInForce(t *testing.T) {
	s := newScenario(t, openWeakened, 1)
	s.logged.May("approvals do not count")
	s.put("v1")
	s.place("type: External")
	s.strategy(gate)
	s.scheduled()
	api := kubernetes.NewForConfigOrDie(s.server.Config()).AdmissionregistrationV1()
	mallory, alice := s.as("mallory", "status-only"), s.as("alice", "slipway-approver")
	for i, w := range weakenings {
		t.Run(w.name, func(t *testing.T) {
			s := &scenario{T: t, sharedCluster: s.sharedCluster, name: s.name, admin: s.admin}
			installed := false
			t.Cleanup(func() { // so that later subtests test only their own case
				if installed {
					return
				}
				if err := installAll(context.WithoutCancel(t.Context()), s.server.Config()); err != nil {
					t.Error(err)
				}
			})
			run, request := fmt.Sprintf("csur/NAME-%d", i), fmt.Sprintf("careq/NAME-%d-s1", i)
			s.run(fmt.Sprint(i), "")
			asked := s.seen(request)
			if err := w.do(t.Context(), api); err != nil {
				t.Fatal(err)
			}
			by := mallory
			if !w.lets {
				by = alice
			}
			s.eventually("an answer", func() error { return s.again(by, request) })
			s.comes(request, "ApprovalAccepted", "False", w.says)
			s.comes(request, "ApprovalAccepted", "False", "install the admission policies")
			s.stays("the run waits", 500*time.Millisecond, s.condition(run, "Succeeded", "", ""))
			if err := installAll(t.Context(), s.server.Config()); err != nil {
				t.Fatal(err)
			}
			installed = true
			s.eventually("another request in its place", func() error { return s.other(request, asked.GetUID()) })
			s.stays("the run waits", 300*time.Millisecond, s.condition(run, "Succeeded", "", ""))
			name := "by alice"
			if w.lets {
				name = "by mallory"
				if w.name == "everything deleted" {
					name = "by " // the policy that records the author may be gone
				}
				if err := s.again(mallory, request); err == nil {
					t.Error("mallory is not refused")
				}
			}
			s.eventually("an Event that says whose answer is lost", func() error {
				for _, about := range []string{run, request} {
					if all := strings.Join(s.events(about, "AnswerNotCounted"), "\n"); !strings.Contains(all, name) {
						return errors.New(about + ": " + all)
					}
				}
				return nil
			})
			s.eventually("alice to approve", func() error { return s.again(alice, request) })
			s.comes(run, "Succeeded", "True", "")
		})
	}
}

// other returns an error unless the request exists and has another UID than the given one.
func (s *scenario) other(what string, uid types.UID) error {
	u, err := s.get(what)
	if err == nil && u.GetUID() == uid {
		err = errors.New("it is still the old one")
	}
	return err
}

// An answer that was given while the policies were different does not count, even if the policies
// are as before when the hub reads it: a hub that was away in between makes a new request.
func TestAnswerUnderOtherPoliciesDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 1)
	w.place("v1")
	w.staged("Approval")
	first := w.start("first")
	w.run("a-"+w.name, "")
	request := "a-" + w.name + "-canary"
	var asked types.UID
	w.eventually("the request", func() error {
		obj, err := w.at("careq").Get(t.Context(), request, metav1.GetOptions{})
		if err == nil {
			asked = obj.GetUID()
		}
		return err
	})
	w.end(first)
	w.createText(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $NAME-status}
rules: [{apiGroups: [placement.kubernetes-fleet.io], resources: [clusterapprovalrequests, clusterapprovalrequests/status], verbs: [get, patch, update]}]`)
	w.createText(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $NAME-status}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $NAME-status}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: mallory}]`)
	t.Cleanup(func() {
		if err := manifests.Install(context.WithoutCancel(t.Context()), w.server.Config(), manifests.Options{}); err != nil {
			t.Error(err)
		}
	})
	if err := patchBinding(`{"spec":{"validationActions":["Audit"]}}`)(t.Context(), w.kube.AdmissionregistrationV1()); err != nil {
		t.Fatal(err)
	}
	mallory, _ := clientsFor(t, w.server.ConfigFor("mallory"))
	w.eventually("mallory to be let through", func() error {
		_, err := w.on(mallory, "careq", "").Patch(t.Context(), request, mergePatch, []byte(approval), metav1.PatchOptions{}, "status")
		return err
	})
	if err := manifests.Install(t.Context(), w.server.Config(), manifests.Options{}); err != nil {
		t.Fatal(err)
	}
	w.start("second")
	w.eventually("another request in its place", func() error {
		obj, err := w.at("careq").Get(t.Context(), request, metav1.GetOptions{})
		if err == nil && obj.GetUID() == asked {
			err = errors.New("it is still the old one")
		}
		return errors.Join(err, w.condition("csur", "a-"+w.name, "Succeeded", ""))
	})
	w.approve(request)
	w.await("csur", "a-"+w.name, "Succeeded", "True")
}
