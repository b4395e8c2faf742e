package hubapi

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/hub/internal/api"
)

// A drain does not end well while a ResourcePlacement stays on the member.
func TestADrainNamesTheResourcePlacementsThatStay(t *testing.T) {
	object := func(kind, namespace, name string, placed ...any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": placementAPI, "kind": kind}}
		u.SetNamespace(namespace)
		u.SetName(name)
		u.Object["status"] = map[string]any{"placementStatuses": placed}
		return u
	}
	on := func(cluster string) map[string]any { return map[string]any{"clusterName": cluster} }
	member := object("MemberCluster", "", "member1")
	member.SetAPIVersion("cluster.kubernetes-fleet.io/v1beta1")
	kinds := map[schema.GroupVersionResource]string{
		api.ClusterScope.GVR(api.BindingKind):                                                  "ClusterResourceBindingList",
		api.NamespaceScope.GVR(api.PlacementKind):                                              "ResourcePlacementList",
		{Group: "cluster.kubernetes-fleet.io", Version: "v1beta1", Resource: "memberclusters"}: "MemberClusterList",
	}
	h := &Hub{client: fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, member,
		object("ResourcePlacement", "shop", "web", on("member1"), on("member2")),
		object("ResourcePlacement", "shop", "other", on("member2")),
		object("ResourcePlacement", "bank", "ledger", map[string]any{}, on("member1")))}
	err := h.Drain(t.Context(), "member1", func(placement, _ string) { t.Errorf("it evicted %s", placement) })
	const why = " stays on member1: there is no eviction of it; change its policy so that it does not pick member1, or delete it"
	if want := "resourceplacement bank/ledger" + why + "\nresourceplacement shop/web" + why; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err := CheckMember(t.Context(), h, "member1"); err != nil {
		t.Error(err)
	}
	if err := CheckMember(t.Context(), h, "member3"); !errors.Is(err, backend.ErrNotFound) || !strings.HasPrefix(err.Error(), "the hub has no member member3; kubectl get memberclusters lists all") {
		t.Errorf("a member that is not there: %v", err)
	}
	if err := h.Drain(t.Context(), "member3", nil); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("a member that is not there: %v", err)
	}
}
