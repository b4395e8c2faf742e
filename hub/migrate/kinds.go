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

// Names of KubeFleet that package hub does not define.
const (
	fleetPrefix = "kubernetes-fleet.io/"
	// memberNamespace is the prefix of a member's namespace on the hub, which has its Works. The
	// name of the member follows.
	memberNamespace = "fleet-member-"
	// labelNamespace is a label of Works: the namespace of the placement, if it has one.
	labelNamespace = fleetPrefix + "parent-placement-namespace"
	// appliedWorkKind is the kind on members that owns the objects that the member agent placed.
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

// projected returns the kinds that both KubeFleet and a hub of package hub write for themselves, in
// the order of removal.
func projected() []schema.GroupVersionResource {
	return slices.Concat(bothScopes(api.BindingKind), bothScopes(api.SnapshotKind), bothScopes(api.PolicyKind),
		bothScopes(api.OverrideSnapshotKind), []schema.GroupVersionResource{api.ReplicaGVR()})
}

// kept returns the kinds that KubeFleet writes for itself on a hub, in the order of removal.
func kept() []schema.GroupVersionResource {
	return slices.Concat([]schema.GroupVersionResource{workGVR()}, projected(), []schema.GroupVersionResource{internalMemberGVR()})
}

// declared returns the kinds of the Fleet API that people write.
func declared() []schema.GroupVersionResource {
	return slices.Concat(bothScopes(api.PlacementKind), []schema.GroupVersionResource{api.MemberGVR()}, bothScopes(api.RunKind),
		bothScopes(api.StrategyKind), bothScopes(api.ApprovalKind), bothScopes(api.OverrideKind), bothScopes("ResourceEnvelope"),
		[]schema.GroupVersionResource{api.ClusterScope.GVR(api.EvictionKind), api.ClusterScope.GVR(api.BudgetKind)})
}

// webhook is a webhook configuration that the hub agent registers when it starts. While no agent
// answers, it refuses writes to placements and members, so it must be removed before a take-over.
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

// isProjection reports whether a hub of package hub created an object. The hub's field manager
// writes the spec of such an object, once, at its creation. Labels that the hub changed on an
// object of KubeFleet do not count.
func isProjection(obj *unstructured.Unstructured) bool {
	return slices.ContainsFunc(obj.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == api.Manager && e.FieldsV1 != nil && bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(`"f:spec":`))
	})
}

// withoutFinalizers returns the finalizers of an object without the ones of the Fleet API, and
// whether it had any of those.
func withoutFinalizers(obj metav1.Object) (left []string, some bool) {
	before := obj.GetFinalizers()
	left = slices.DeleteFunc(slices.Clone(before), func(f string) bool { return strings.HasPrefix(f, fleetPrefix) })
	return left, len(left) < len(before)
}

// nameOf returns the name of an object in messages: KIND NAMESPACE/NAME.
func nameOf(obj *unstructured.Unstructured) string {
	return obj.GetKind() + " " + keyName(api.KeyOf(obj))
}

func keyName(k api.Key) string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.String()
}
