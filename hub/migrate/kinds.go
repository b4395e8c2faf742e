package migrate

import (
	"bytes"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/hub/internal/api"
)

// The names of KubeFleet, as far as package hub does not have them.
const (
	fleetPrefix = "kubernetes-fleet.io/"
	// memberNamespace and the name of a member are the namespace on the hub where its Works are.
	memberNamespace = "fleet-member-"
	// labelNamespace is on a Work, with the namespace of its placement where that is in one.
	labelNamespace = fleetPrefix + "parent-placement-namespace"
	// appliedWorkKind is the kind on a member that owns what the agent there placed.
	appliedWorkKind = "AppliedWork"
	// agentManager is the field manager of the member agent.
	agentManager = "work-api-agent"
)

func placementResource(resource string) schema.GroupVersionResource {
	gvr := api.ClusterScope.GVR(api.PlacementKind)
	gvr.Resource = resource
	return gvr
}

func workGVR() schema.GroupVersionResource        { return placementResource("works") }
func appliedWorkGVR() schema.GroupVersionResource { return placementResource("appliedworks") }

func internalMemberGVR() schema.GroupVersionResource {
	gvr := api.MemberGVR()
	gvr.Resource = "internalmemberclusters"
	return gvr
}

func bothScopes(base string) []schema.GroupVersionResource {
	return []schema.GroupVersionResource{api.ClusterScope.GVR(base), api.NamespaceScope.GVR(base)}
}

// projected are the kinds that both KubeFleet and a hub of package hub write for themselves, in the order in which their
// objects are removed.
func projected() []schema.GroupVersionResource {
	return slices.Concat(bothScopes(api.BindingKind), bothScopes(api.SnapshotKind), bothScopes(api.PolicyKind),
		bothScopes(api.OverrideSnapshotKind), []schema.GroupVersionResource{api.ReplicaGVR()})
}

// kept are the kinds that KubeFleet writes for itself on a hub, in the order in which their objects are removed.
func kept() []schema.GroupVersionResource {
	return slices.Concat([]schema.GroupVersionResource{workGVR()}, projected(), []schema.GroupVersionResource{internalMemberGVR()})
}

// declared are the kinds of the Fleet API that people write.
func declared() []schema.GroupVersionResource {
	return slices.Concat(bothScopes(api.PlacementKind), []schema.GroupVersionResource{api.MemberGVR()}, bothScopes(api.RunKind),
		bothScopes(api.StrategyKind), bothScopes(api.ApprovalKind), bothScopes(api.OverrideKind), bothScopes("ResourceEnvelope"),
		[]schema.GroupVersionResource{api.ClusterScope.GVR(api.EvictionKind), api.ClusterScope.GVR(api.BudgetKind)})
}

// webhook is a webhook configuration that the hub agent registers when it starts. It refuses writes to placements and
// members while no agent answers, so that nothing can be taken over while it is there.
type webhook struct {
	gvr  schema.GroupVersionResource
	name string
}

func webhooks() []webhook {
	admission := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	validating := admission.WithResource("validatingwebhookconfigurations")
	mutating := admission.WithResource("mutatingwebhookconfigurations")
	return []webhook{
		{validating, "fleet-validating-webhook-configuration"},
		{validating, "fleet-guard-rail-webhook-configuration"},
		{mutating, "fleet-mutating-webhook-configuration"},
	}
}

// isProjection reports whether a hub of package hub made an object: its spec is written once, when it is created, by the
// hub's field manager. Labels that the hub changed on an object of KubeFleet's do not make it one.
func isProjection(obj *unstructured.Unstructured) bool {
	return slices.ContainsFunc(obj.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == api.Manager && e.FieldsV1 != nil && bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(`"f:spec":`))
	})
}

// withoutFinalizers returns the finalizers of an object that are not of the Fleet API, and whether there are others.
func withoutFinalizers(obj metav1.Object) (left []string, some bool) {
	before := obj.GetFinalizers()
	left = slices.DeleteFunc(slices.Clone(before), func(f string) bool { return strings.HasPrefix(f, fleetPrefix) })
	return left, len(left) < len(before)
}

// nameOf is how an object is called in what is reported: KIND NAMESPACE/NAME.
func nameOf(obj *unstructured.Unstructured) string {
	return obj.GetKind() + " " + keyName(api.KeyOf(obj))
}

func keyName(k api.Key) string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.String()
}
