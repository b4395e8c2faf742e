package snapshot_test

import (
	stdcmp "cmp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/snapshot"
)

// comparePhases compares by the phases, and in a phase as ID.Compare does.
func comparePhases(a, b snapshot.ID) int {
	return stdcmp.Or(stdcmp.Compare(a.Phase(), b.Phase()), a.Compare(b))
}

// Objects that others need are applied first, whatever their names.
func TestPhases(t *testing.T) {
	want := []string{
		"PriorityClass.v1.scheduling.k8s.io a",
		"Namespace.v1 n",
		"CustomResourceDefinition.v1.apiextensions.k8s.io widgets.example.com",
		"ServiceAccount.v1 n/a",
		"ClusterRole.v1.rbac.authorization.k8s.io a",
		"ClusterRoleBinding.v1.rbac.authorization.k8s.io a",
		"Role.v1.rbac.authorization.k8s.io n/a",
		"RoleBinding.v1.rbac.authorization.k8s.io n/a",
		"NetworkPolicy.v1.networking.k8s.io n/a",
		"ResourceQuota.v1 n/a",
		"LimitRange.v1 n/a",
		"PodDisruptionBudget.v1.policy n/a",
		"Secret.v1 n/a",
		"ConfigMap.v1 n/a",
		"StorageClass.v1.storage.k8s.io a",
		"PersistentVolume.v1 a",
		"PersistentVolumeClaim.v1 n/a",
		"Service.v1 n/a",
		"DaemonSet.v1.apps n/a",
		"Deployment.v1.apps n/a",
		"HorizontalPodAutoscaler.v2.autoscaling n/a",
		"StatefulSet.v1.apps n/a",
		"Job.v1.batch n/a",
		"IngressClass.v1.networking.k8s.io a",
		"Ingress.v1.networking.k8s.io n/a",
		"APIService.v1.apiregistration.k8s.io v1.x",
		"Widget.v1.example.com n/a",
		"Gateway.v1.gateway.networking.k8s.io n/a",
		"MutatingWebhookConfiguration.v1.admissionregistration.k8s.io a",
		"ValidatingWebhookConfiguration.v1.admissionregistration.k8s.io a",
	}
	ids := map[string]snapshot.ID{}
	var shuffled []snapshot.ID
	for _, name := range want {
		id := parseID(t, name)
		ids[name], shuffled = id, append([]snapshot.ID{id}, shuffled...)
	}
	slices.SortFunc(shuffled, comparePhases)
	var got []string
	for _, id := range shuffled {
		got = append(got, id.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the order of application (-want +got):\n%s", diff)
	}
	policy := snapshot.ID{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy", Name: "a"}
	if policy.Phase() != snapshot.Admission {
		t.Errorf("a ValidatingAdmissionPolicy is applied with %s", policy.Phase())
	}
}

// The stored order differs, and does not change.
func TestTheOrderOfSetsStays(t *testing.T) {
	configMap := snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "n", Name: "a"}
	role := snapshot.ID{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole", Name: "a"}
	if configMap.Compare(role) >= 0 || comparePhases(configMap, role) <= 0 {
		t.Error("in a set a ConfigMap comes before a ClusterRole, and it is applied after it")
	}
}

// parseID parses the result of ID.String.
func parseID(t *testing.T, text string) snapshot.ID {
	t.Helper()
	kind, name, ok := strings.Cut(text, " ")
	parts := strings.SplitN(kind, ".", 3)
	if !ok || len(parts) < 2 {
		t.Fatalf("%q is no name", text)
	}
	id := snapshot.ID{Kind: parts[0], Version: parts[1], Name: name}
	if len(parts) == 3 {
		id.Group = parts[2]
	}
	if namespace, inside, ok := strings.Cut(name, "/"); ok {
		id.Namespace, id.Name = namespace, inside
	}
	return id
}
