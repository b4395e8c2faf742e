package manifests_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/snapshot"
)

// servedResource is a resource or a subresource of a server.
type servedResource struct {
	schema.GroupResource
	kind       string
	namespaced bool
	verbs      []string
}

// servedBy returns the resources of a server that belong to Kubernetes itself.
func servedBy(t *testing.T, s *kubeenv.Server) (all []servedResource) {
	t.Helper()
	_, lists, err := discovery.NewDiscoveryClientForConfigOrDie(s.Config()).ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(gv.Group, "-fleet.io") || strings.HasSuffix(gv.Group, "example.com") || gv.Group == "multicluster.x-k8s.io" {
			continue
		}
		for _, r := range list.APIResources {
			all = append(all, servedResource{gv.WithResource(r.Name).GroupResource(), r.Kind, r.Namespaced, r.Verbs})
		}
	}
	if len(all) < 100 {
		t.Fatalf("the server has %d resources", len(all))
	}
	return all
}

// TestTheHubReadsKindsThatArePlacedAndNoSubresource checks every resource and subresource of the
// server: the hub may read the kinds that are placed, except Secrets, and the kinds that it serves,
// and nothing else.
func TestTheHubReadsKindsThatArePlacedAndNoSubresource(t *testing.T) {
	s := installedServer(t)
	names := map[string]bool{}
	for _, r := range servedBy(t, s) {
		whole := !strings.Contains(r.Resource, "/")
		reads := whole && slices.Contains(r.verbs, "list") && slices.Contains(r.verbs, "watch") && (snapshot.Rules{}).AllowsKind(r.Group, r.kind) && r.kind != "Secret"
		names[r.String()] = true
		for _, verb := range []string{"get", "list", "watch"} {
			if got := allowed(t, s, hubUser, verb, r.Group, r.Resource, ""); got != reads {
				t.Errorf("the hub may %s %s: %t, want %t", verb, r, got, reads)
			}
		}
		for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
			own := r.Resource == "events" && (verb == "create" || verb == "patch") || verb == "patch" && reportsBack(r.String())
			if allowed(t, s, hubUser, verb, r.Group, r.Resource, "web") != own {
				t.Errorf("the hub may %s %s: %t, want %t", verb, r, !own, own)
			}
		}
	}
	for _, must := range []string{"nodes/proxy", "services/proxy", "pods/exec", "pods/attach", "pods/portforward", "pods/log", "pods/proxy", "serviceaccounts/token", "configmaps", "deployments.apps", "secrets"} {
		if !names[must] {
			t.Errorf("the server has no %s: the test asked nothing about it", must)
		}
	}
	for _, c := range [][3]string{
		{"impersonate", "", "users"},
		{"impersonate", "", "groups"},
		{"impersonate", "", "serviceaccounts"},
		{"escalate", rbacv1.GroupName, "clusterroles"},
		{"bind", rbacv1.GroupName, "clusterroles"},
		{"escalate", rbacv1.GroupName, "roles"},
		{"approve", "certificates.k8s.io", "signers"},
		{"use", "policy", "podsecuritypolicies"},
	} {
		if allowed(t, s, hubUser, c[0], c[1], c[2], "") {
			t.Errorf("the hub may %s %s", c[0], c[2])
		}
	}
}

// reportsBack reports whether the hub writes a member's status back to objects of the resource:
// only to workloads, and to no object that controls a cluster.
func reportsBack(resource string) bool {
	return slices.Contains([]string{
		"replicationcontrollers/status", "daemonsets/status.apps", "deployments/status.apps", "replicasets/status.apps", "statefulsets/status.apps",
		"cronjobs/status.batch", "jobs/status.batch",
	}, resource)
}

// TestNamespaceRulesMatchTheEditRole checks every kind of Kubernetes on a server: the
// default rules exclude exactly the kinds that the built-in role edit may not create in a
// namespace.
func TestNamespaceRulesMatchTheEditRole(t *testing.T) {
	s := aggregatingServer(t)
	bindIn(t, s, "web", "edit", "ed")
	await(t, "edit to be put together", func() bool { return allowed(t, s, "ed", "create", "", "configmaps", "web") })
	rules, kinds := snapshot.NamespaceRules(), 0
	for _, r := range servedBy(t, s) {
		if strings.Contains(r.Resource, "/") || !slices.Contains(r.verbs, "create") || !(snapshot.Rules{}).AllowsKind(r.Group, r.kind) {
			continue
		}
		kinds++
		may := r.namespaced && allowed(t, s, "ed", "create", r.Group, r.Resource, "web")
		if got := rules.AllowsKind(r.Group, r.kind); got != may {
			t.Errorf("the rules let namespaces bring %s: %t, and edit lets create it: %t", r, got, may)
		}
	}
	if kinds < 45 {
		t.Errorf("%d kinds were compared", kinds)
	}
	for kind, want := range map[snapshot.GroupKind]bool{
		{Kind: "Secret"}: true, {Group: "networking.k8s.io", Kind: "NetworkPolicy"}: true, {Kind: "ResourceQuota"}: false,
		{Group: "example.com", Kind: "Widget"}: true, {Group: "authorization.openshift.io", Kind: "RoleBinding"}: false,
		{Group: "placement.kubernetes-fleet.io", Kind: "ResourceEnvelope"}: true,
	} {
		if got := rules.AllowsKind(kind.Group, kind.Kind); got != want {
			t.Errorf("the rules let namespaces bring %s: %t", kind, got)
		}
	}
}

// Users with view, edit or admin have no right of the Fleet API unless Install aggregates roles.
// Then view cannot read kinds that may contain Secrets, just as it cannot read Secrets. The
// aggregation can be undone.
func TestAggregationIsAChoice(t *testing.T) {
	s := aggregatingServer(t)
	for _, role := range []string{"view", "edit", "admin"} {
		bindIn(t, s, "web", role, "a-"+role)
	}
	const fleet = "placement.kubernetes-fleet.io"
	table := []struct {
		user, verb, resource string
		aggregated           bool
	}{
		{"a-view", "list", "resourceplacements", true},
		{"a-view", "get", "resourcesnapshots", true},
		{"a-view", "get", "stagedupdateruns", true},
		{"a-view", "get", "clusterresourceplacementstatuses", true},
		{"a-edit", "update", "clusterresourceplacementstatuses", false},
		{"a-view", "get", "resourceenvelopes", false},
		{"a-view", "list", "resourceenvelopes", false},
		{"a-view", "watch", "resourceoverrides", false},
		{"a-view", "get", "resourceoverrides", false},
		{"a-view", "get", "resourceoverridesnapshots", false},
		{"a-view", "create", "resourceplacements", false},
		{"a-view", "get", "clusterresourceplacements", false},
		{"a-view", "get", "clusterresourcesnapshots", false},
		{"a-edit", "get", "resourceplacements", true},
		{"a-edit", "create", "resourceplacements", true},
		{"a-edit", "create", "resourceenvelopes", true},
		{"a-edit", "get", "resourceenvelopes", true},
		{"a-edit", "get", "resourceoverridesnapshots", true},
		{"a-edit", "approve", "approvalrequests", false},
		{"a-edit", "create", "clusterresourceplacements", false},
		{"a-edit", "update", "resourcesnapshots", false},
		{"a-admin", "create", "stagedupdateruns", true},
		{"a-admin", "create", "clusterresourceenvelopes", false},
	}
	for _, aggregate := range []bool{false, true, false} {
		if err := manifests.Install(t.Context(), s.Config(), manifests.Options{Aggregate: aggregate}); err != nil {
			t.Fatal(err)
		}
		await(t, fmt.Sprintf("aggregation to be %t", aggregate), func() bool {
			return allowed(t, s, "a-admin", "create", fleet, "stagedupdateruns", "web") == aggregate && allowed(t, s, "a-view", "list", fleet, "resourceplacements", "web") == aggregate
		})
		for _, c := range table {
			if got := allowed(t, s, c.user, c.verb, fleet, c.resource, "web"); got != (aggregate && c.aggregated) {
				t.Errorf("aggregated %t: %s may %s %s: %t", aggregate, c.user, c.verb, c.resource, got)
			}
		}
	}
}

// The right to read Secrets comes with the option, and disappears with an installation without it.
func TestOptionGrantsReadingSecrets(t *testing.T) {
	s := aggregatingServer(t)
	for _, secrets := range []bool{true, false} {
		if err := manifests.Install(t.Context(), s.Config(), manifests.Options{Hub: &manifests.HubOptions{User: "a-hub", Secrets: secrets}}); err != nil {
			t.Fatal(err)
		}
		await(t, fmt.Sprintf("the right to be %t", secrets), func() bool { return allowed(t, s, "a-hub", "list", "", "secrets", "") == secrets })
		if allowed(t, s, "a-hub", "update", "", "secrets", "web") || allowed(t, s, "a-hub", "get", "", "secrets/status", "web") || !allowed(t, s, "a-hub", "update", "", "secrets", "slipway-system") {
			t.Error("the hub may not do what it may with its own Secrets, or more with others")
		}
	}
}

// The hub reads the kinds that were defined before the installation, and the kinds of a ClusterRole
// with the label. It does not read their subresources.
func TestCustomKindsAreDiscoveredOrGranted(t *testing.T) {
	s := aggregatingServer(t)
	install := func() {
		t.Helper()
		if err := manifests.Install(t.Context(), s.Config(), manifests.Options{Hub: &manifests.HubOptions{User: "reader"}}); err != nil {
			t.Fatal(err)
		}
	}
	install()
	defineGadget(t, s)
	for _, resource := range []string{"gadgets", "gadgets/status"} {
		if allowed(t, s, "reader", "list", "custom.example.com", resource, "") {
			t.Errorf("the hub may list %s, which was defined later", resource)
		}
	}
	client := kubernetes.NewForConfigOrDie(s.Config())
	_, err := client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "gizmos-for-the-hub", Labels: map[string]string{manifests.AggregateToHub: "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"custom.example.com"}, Resources: []string{"gizmos"}, Verbs: []string{"get", "list", "watch"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the label to count", func() bool { return allowed(t, s, "reader", "watch", "custom.example.com", "gizmos", "web") })
	install()
	await(t, "the kind to be discovered", func() bool { return allowed(t, s, "reader", "list", "custom.example.com", "gadgets", "") })
	for _, c := range [][2]string{{"get", "gadgets/status"}, {"get", "gadgets/scale"}, {"update", "gadgets"}} {
		if allowed(t, s, "reader", c[0], "custom.example.com", c[1], "web") {
			t.Errorf("the hub may %s %s", c[0], c[1])
		}
	}
}

func defineGadget(t *testing.T, s *kubeenv.Server) {
	t.Helper()
	crd := &unstructured.Unstructured{}
	err := yaml.Unmarshal([]byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.custom.example.com}
spec:
  group: custom.example.com
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets, singular: gadget, listKind: GadgetList}
  versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]`), &crd.Object)
	if err != nil {
		t.Fatal(err)
	}
	c := clientFor(t, s.Config())
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := c.Resource(crds).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the kind to be served", func() bool {
		_, lists, err := discovery.NewDiscoveryClientForConfigOrDie(s.Config()).ServerGroupsAndResources()
		return err == nil && slices.ContainsFunc(lists, func(l *metav1.APIResourceList) bool {
			return l.GroupVersion == "custom.example.com/v1" && len(l.APIResources) > 0
		})
	})
}

// bindIn gives a user a ClusterRole in a namespace.
func bindIn(t *testing.T, s *kubeenv.Server, namespace, role, user string) {
	t.Helper()
	_, err := kubernetes.NewForConfigOrDie(s.Config()).RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user + "-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// await waits for an asynchronous result of a server.
func await(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !happened(); {
		select {
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting in vain for %s", what)
		}
	}
}
