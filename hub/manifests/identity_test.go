package manifests_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// claims returns claims of a client about the approver.
func claims(user string) map[string]map[string]any {
	return map[string]map[string]any{
		"nothing": {},
		"itself":  {"approvedBy": map[string]any{"username": user}},
		"another": {
			"approvedBy": map[string]any{"username": "root", "uid": "0", "groups": []any{"system:masters"}},
			"rejectedBy": map[string]any{"username": "root"},
			"decisions": []any{map[string]any{
				"verdict": "Approve", "by": map[string]any{"username": "root"}, "comment": "lgtm", "reason": "testPassed",
			}},
		},
	}
}

// TestT1NobodyApprovesUnderAnotherName is threat T1: through every door and with every claim, the
// status names the authenticated user or no approver.
func TestT1NobodyApprovesUnderAnotherName(t *testing.T) {
	s := kubeFleetServer(t)
	people(t, s)
	for _, k := range requestKinds(t, s) {
		for _, user := range []string{"alice", "mallory", hubUser, "admin"} {
			for _, d := range doors() {
				for claim, status := range claims(user) {
					name := fmt.Sprintf("%s.%s/%s/%s/claims %s", k.gvr.Resource, k.gvr.Version, user, d.name, claim)
					t.Run(name, func(t *testing.T) { knock(t, s, k, user, d, status) })
				}
			}
		}
	}
}

// knock opens a door with a claim and checks the recorded approver.
func knock(t *testing.T, s *kubeenv.Server, k requestKind, user string, d door, claim map[string]any) {
	t.Parallel()
	created := k.create(t, clientFor(t, s.Config()))
	status := map[string]any{"conditions": []any{condition("Approved", "True", "lgtm")}}
	maps.Copy(status, claim)
	err := d.open(t, k.client(clientFor(t, configOf(s, user))), created, status)
	got := k.get(t, clientFor(t, s.Config()), created.GetName())
	approver, _, _ := unstructured.NestedString(got.Object, "status", "approvedBy", "username")
	approves := d.status && (user == "alice" || user == "admin")
	switch {
	case approves && err != nil:
		t.Errorf("%v: who may approve must get through", err)
	case approves && approver != user:
		t.Errorf("approved by %q, want %s", approver, user)
	case approves:
		wantOneDecision(t, got, user)
	case got.Object["status"] != nil:
		t.Errorf("status %v, want none; the answer was %v", got.Object["status"], err)
	case d.status && !apierrors.IsForbidden(err):
		t.Errorf("the answer was %v, want a refusal", err)
	}
}

func wantOneDecision(t *testing.T, got *unstructured.Unstructured, user string) {
	t.Helper()
	by, _, _ := unstructured.NestedMap(got.Object, "status", "approvedBy")
	want := []any{map[string]any{"verdict": "Approve", "by": by, "comment": "lgtm", "reason": "testPassed"}}
	decisions, _, _ := unstructured.NestedSlice(got.Object, "status", "decisions")
	if diff := cmp.Diff(want, decisions); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	if groups, _, _ := unstructured.NestedStringSlice(by, "groups"); len(groups) == 0 {
		t.Errorf("no groups of %s", user)
	}
}

// condition returns a condition in the form of the tutorial's file.
func condition(kind, status, message string) map[string]any {
	return map[string]any{
		"type": kind, "status": status, "reason": "testPassed", "message": message,
		"observedGeneration": int64(1), "lastTransitionTime": "2025-07-22T21:30:00Z",
	}
}

// configOf returns the configuration of a user for the server.
func configOf(s *kubeenv.Server, user string) *rest.Config {
	if user == "admin" {
		return s.Config()
	}
	return s.ConfigFor(user, "team-"+user)
}

// people binds alice and bob to the role of approvers. Mallory may write the status of requests and
// does not have the verb approve.
func people(t *testing.T, s *kubeenv.Server) {
	t.Helper()
	bind(t, s, "slipway-approver", "alice", "bob")
	status := rbacv1.PolicyRule{
		APIGroups: []string{"placement.kubernetes-fleet.io"}, Verbs: []string{"get", "patch", "update"},
		Resources: []string{"clusterapprovalrequests", "approvalrequests", "clusterapprovalrequests/status", "approvalrequests/status"},
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "status-only"}, Rules: []rbacv1.PolicyRule{status}}
	c := kubernetes.NewForConfigOrDie(s.Config())
	if _, err := c.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	bind(t, s, "status-only", "mallory")
}

// bind gives users a role, if it is not bound yet.
func bind(t *testing.T, s *kubeenv.Server, role string, users ...string) {
	t.Helper()
	c := kubernetes.NewForConfigOrDie(s.Config())
	for _, user := range users {
		b := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role + "-" + user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}
		if _, err := c.RbacV1().ClusterRoleBindings().Create(t.Context(), b, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

// requestKind is a kind of approval requests in one version and, if it is namespaced, in a
// namespace.
type requestKind struct {
	kind, namespace string
	gvr             schema.GroupVersionResource
}

func requestKinds(t *testing.T, s *kubeenv.Server) []requestKind {
	namespace := s.Namespace(t)
	var all []requestKind
	for _, version := range []string{"v1", "v1beta1"} {
		gvr := schema.GroupVersionResource{Group: "placement.kubernetes-fleet.io", Version: version}
		all = append(all,
			requestKind{kind: "ClusterApprovalRequest", gvr: gvr.GroupVersion().WithResource("clusterapprovalrequests")},
			requestKind{kind: "ApprovalRequest", gvr: gvr.GroupVersion().WithResource("approvalrequests"), namespace: namespace})
	}
	return all
}

func (k requestKind) client(c dynamic.Interface) dynamic.ResourceInterface {
	if k.namespace != "" {
		return c.Resource(k.gvr).Namespace(k.namespace)
	}
	return c.Resource(k.gvr)
}

// request returns a new request; the server chooses its name.
func (k requestKind) request() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"parentStageRollout": "run", "targetStage": "canary"},
	}}
	u.SetGroupVersionKind(k.gvr.GroupVersion().WithKind(k.kind))
	u.SetGenerateName("run-canary-")
	return u
}

func (k requestKind) create(t *testing.T, c dynamic.Interface) *unstructured.Unstructured {
	t.Helper()
	got, err := k.client(c).Create(t.Context(), k.request(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (k requestKind) get(t *testing.T, c dynamic.Interface, name string) *unstructured.Unstructured {
	t.Helper()
	got, err := k.client(c).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got
}
