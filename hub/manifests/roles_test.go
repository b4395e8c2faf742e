package manifests_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// TestRightsOfEachRole checks the rights of users with one role each.
func TestRightsOfEachRole(t *testing.T) {
	s := installedServer(t)
	for role, user := range map[string]string{
		"slipway-approver": "alice", "slipway-viewer": "vera", "slipway-editor": "edith",
		"slipway-cluster-viewer": "victor", "slipway-cluster-editor": "carol",
	} {
		bind(t, s, role, user)
	}
	const fleet, cluster = "placement.kubernetes-fleet.io", "cluster.kubernetes-fleet.io"
	for _, c := range []struct {
		user, verb, group, resource string
		namespace                   string
		want                        bool
	}{
		{"alice", "approve", fleet, "clusterapprovalrequests", "", true},
		{"alice", "patch", fleet, "approvalrequests/status", "web", true},
		{"alice", "get", fleet, "clusterstagedupdateruns", "", true},
		{"alice", "create", fleet, "clusterapprovalrequests", "", false},
		{"alice", "patch", fleet, "clusterapprovalrequests", "", false},
		{"alice", "update", fleet, "clusterstagedupdateruns", "", false},
		{"vera", "list", fleet, "stagedupdateruns", "web", true},
		{"vera", "get", fleet, "resourcesnapshots", "web", true},
		{"vera", "create", fleet, "stagedupdateruns", "web", false},
		{"vera", "get", fleet, "resourceoverridesnapshots", "web", false},
		{"vera", "get", fleet, "resourceoverrides", "web", false},
		{"vera", "list", fleet, "resourceenvelopes", "web", false},
		{"edith", "list", fleet, "resourceenvelopes", "web", true},
		{"edith", "get", fleet, "resourceoverridesnapshots", "web", true},
		{"edith", "create", fleet, "resourceenvelopes", "web", true},
		{"edith", "create", fleet, "resourceoverridesnapshots", "web", false},
		{"victor", "list", fleet, "clusterresourceoverridesnapshots", "", false},
		{"victor", "get", fleet, "clusterresourceenvelopes", "", false},
		{"carol", "list", fleet, "clusterresourceoverridesnapshots", "", true},
		{"carol", "create", fleet, "clusterresourceenvelopes", "", true},
		{"carol", "update", fleet, "clusterresourceoverridesnapshots", "", false},
		{"victor", "list", fleet, "clusterresourcebindings", "", true},
		{"victor", "create", fleet, "clusterresourceplacementevictions", "", false},
		{"carol", "create", fleet, "clusterresourceplacementevictions", "", true},
		{"carol", "update", fleet, "clusterresourceplacementevictions/status", "", false},
		{"carol", "create", fleet, "clusterresourceplacementdisruptionbudgets", "", true},
		{"carol", "delete", fleet, "clusterresourcebindings", "", false},
		{hubUser, "update", fleet, "clusterresourceplacementevictions/status", "", true},
		{hubUser, "create", fleet, "clusterresourceplacementevictions", "", false},
		{hubUser, "update", fleet, "clusterresourceplacementdisruptionbudgets", "", false},
		{hubUser, "delete", fleet, "clusterresourcebindings", "", true},
		{hubUser, "create", fleet, "clusterresourceoverridesnapshots", "", true},
		{hubUser, "delete", fleet, "resourceoverridesnapshots", "web", true},
		{hubUser, "update", fleet, "clusterresourceoverrides", "", false},
		{"edith", "create", fleet, "stagedupdateruns", "web", true},
		{"edith", "update", fleet, "stagedupdateruns/status", "web", false},
		{"edith", "approve", fleet, "approvalrequests", "web", false},
		{"victor", "watch", fleet, "clusterresourceplacements", "", true},
		{"victor", "get", cluster, "memberclusters", "", true},
		{"victor", "get", fleet, "clusterresourcesnapshots", "", true},
		{"victor", "patch", fleet, "clusterresourceplacements", "", false},
		{"carol", "create", fleet, "clusterstagedupdateruns", "", true},
		{"carol", "approve", fleet, "clusterapprovalrequests", "", false},
		{"carol", "update", fleet, "clusterapprovalrequests/status", "", false},
		{hubUser, "create", fleet, "clusterapprovalrequests", "", true},
		{hubUser, "approve", fleet, "clusterapprovalrequests", "", false},
		{hubUser, "update", fleet, "clusterstagedupdateruns/status", "", true},
		{hubUser, "create", fleet, "clusterstagedupdateruns", "", true},
		{hubUser, "delete", fleet, "clusterstagedupdateruns", "", false},
		{hubUser, "delete", fleet, "clusterresourceplacements", "", false},
		{hubUser, "list", "", "configmaps", "", true},
		{hubUser, "update", "", "configmaps", "web", false},
		{hubUser, "get", "", "secrets", "web", false},
		{hubUser, "list", "", "secrets", "", false},
		{hubUser, "get", "", "secrets", "slipway-system", true},
		{hubUser, "update", "", "secrets", "web", false},
		{hubUser, "update", "", "secrets", "slipway-system", true},
		{hubUser, "update", "coordination.k8s.io", "leases", "slipway-system", true},
		{hubUser, "update", "coordination.k8s.io", "leases", "kube-system", false},
		{hubUser, "create", "", "events", "default", true},
		{hubUser, "impersonate", "", "users", "", false},
	} {
		if got := allowed(t, s, c.user, c.verb, c.group, c.resource, c.namespace); got != c.want {
			t.Errorf("%s may %s %s.%s in %q: %t, want %t", c.user, c.verb, c.resource, c.group, c.namespace, got, c.want)
		}
	}
}

func allowed(t *testing.T, s *kubeenv.Server, user, verb, group, resource, namespace string) bool {
	t.Helper()
	resource, subresource, _ := strings.Cut(resource, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: group, Resource: resource, Subresource: subresource, Namespace: namespace,
		},
	}}
	c := kubernetes.NewForConfigOrDie(s.Config())
	got, err := c.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got.Status.Allowed
}

// approval is the file of the tutorial, with the times of two uses.
const approval = `"status": {
    "conditions": [
        {
            "lastTransitionTime": "2025-07-22T21:30:00Z",
            "message": "lgtm",
            "observedGeneration": 1,
            "reason": "testPassed",
            "status": "True",
            "type": "Approved"
        }
    ]
}
`

// An approver needs only the role slipway-approver.
func TestAnApproverPatchesAsInTheTutorial(t *testing.T) {
	e := newExchange(t)
	file := filepath.Join(t.TempDir(), "approval.json")
	if err := os.WriteFile(file, []byte(approval), 0o600); err != nil {
		t.Fatal(err)
	}
	patch := []string{"patch", "clusterapprovalrequests", e.name, "--type=merge", "--subresource=status", "--patch-file", file}
	if out, err := kubectlAs(t, e.s, "mallory", patch...); err == nil || !strings.Contains(out, "needs the RBAC verb approve") {
		t.Errorf("%v: %s, want a refusal", err, out)
	}
	out, err := kubectlAs(t, e.s, "alice", patch...)
	if want := "clusterapprovalrequest.placement.kubernetes-fleet.io/" + e.name + " patched\n"; err != nil || out != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
	e.want("alice", "", "alice Approve")
}

func kubectlAs(t *testing.T, s *kubeenv.Server, user string, args ...string) (string, error) {
	t.Helper()
	program, err := kubeenv.Binary("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, s.KubeconfigFor(user), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), program, append([]string{"--kubeconfig", config, "--cache-dir", t.TempDir()}, args...)...).CombinedOutput()
	return string(out), err
}

func TestRoleBindingsFollowTheHubOptions(t *testing.T) {
	for _, c := range []struct {
		name    string
		options manifests.HubOptions
		want    string
	}{
		{"nothing said", manifests.HubOptions{}, "slipway-system slipway-system/ServiceAccount/slipway-hub"},
		{"a namespace", manifests.HubOptions{Namespace: "fleet"}, "fleet fleet/ServiceAccount/slipway-hub"},
		{"a user", manifests.HubOptions{User: "hub"}, "slipway-system /User/hub"},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, err := manifests.HubRBAC(c.options)
			if err != nil {
				t.Fatal(err)
			}
			namespace, subject, _ := strings.Cut(c.want, " ")
			for _, u := range all {
				wantOfHub(t, u, namespace, subject)
			}
			if want := 14; c.options.User == "" && len(all) != want || c.options.User != "" && len(all) != want-1 {
				t.Errorf("%d objects, want %d with a service account", len(all), want)
			}
		})
	}
}

func wantOfHub(t *testing.T, u *unstructured.Unstructured, namespace, subject string) {
	t.Helper()
	if n := u.GetNamespace(); n != "" && n != namespace {
		t.Errorf("%s %s is in %s, want %s", u.GetKind(), u.GetName(), n, namespace)
	}
	if u.GetKind() == "Namespace" && u.GetName() != namespace {
		t.Errorf("namespace %s, want %s", u.GetName(), namespace)
	}
	subjects, _, _ := unstructured.NestedSlice(u.Object, "subjects")
	for _, s := range subjects {
		s := s.(map[string]any)
		n, _ := s["namespace"].(string)
		if got := n + "/" + s["kind"].(string) + "/" + s["name"].(string); got != subject {
			t.Errorf("%s %s is for %s, want %s", u.GetKind(), u.GetName(), got, subject)
		}
	}
}

func TestHubRBACLimitsReadsToTheSources(t *testing.T) {
	all, err := manifests.HubRBAC(manifests.HubOptions{Sources: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range all {
		if u.GetName() == "slipway-hub-source" && u.GetKind() == "ClusterRole" {
			rules, _, _ := unstructured.NestedSlice(u.Object, "rules")
			if len(rules) != 1 || !strings.Contains(strings.Join(toStrings(rules[0].(map[string]any)["resources"]), ","), "secrets") {
				t.Errorf("rules %v, want that for secrets alone", rules)
			}
			return
		}
	}
	t.Error("no role for sources")
}

// Inspect and the watch of the policies need these rights, whatever the sources are. The hub treats
// a policy that it cannot read as changed, and reads policies that it cannot watch every ten
// seconds.
func TestAHubMayReadEveryPolicyAndBinding(t *testing.T) {
	policies, err := manifests.Policies()
	if err != nil {
		t.Fatal(err)
	}
	all, err := manifests.HubRBAC(manifests.HubOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mayRead := func(resource, name string) bool {
		for _, u := range all {
			rules, _, _ := unstructured.NestedSlice(u.Object, "rules")
			for _, r := range rules {
				r := r.(map[string]any)
				if slices.Contains(toStrings(r["resources"]), resource) && slices.Contains(toStrings(r["apiGroups"]), "admissionregistration.k8s.io") &&
					slices.Contains(toStrings(r["resourceNames"]), name) && slices.Equal(toStrings(r["verbs"]), []string{"get", "list", "watch"}) {
					return true
				}
			}
		}
		return false
	}
	for _, u := range policies {
		gvr, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
		if !mayRead(gvr.Resource, u.GetName()) {
			t.Errorf("the hub may not get, list and watch %s %s", gvr.Resource, u.GetName())
		}
	}
}

func toStrings(v any) []string {
	var out []string
	list, _ := v.([]any)
	for _, s := range list {
		out = append(out, s.(string))
	}
	return out
}

func TestInvalidHubOptionsAreReportedTogether(t *testing.T) {
	_, err := manifests.HubRBAC(manifests.HubOptions{Namespace: "A", User: " x", Sources: []rbacv1.PolicyRule{{}, {APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get"}}}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`namespace: Invalid value: "A"`, `user: Invalid value: " x"`, "sources[0]: Required value", "sources[1].resources: Forbidden: * covers subresources too"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
