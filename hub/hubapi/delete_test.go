package hubapi

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/stages"
)

// A placement with a run that is running or stopping is not deleted unless the deletion is forced.
// A repeated deletion is not refused. Runs that have ended, and runs of other placements and other
// namespaces, do not matter.
func TestAPlacementWithARunInProgressIsDeletedByForce(t *testing.T) {
	object := func(kind, namespace, name, placement, state string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": placementAPI, "kind": kind}}
		u.SetNamespace(namespace)
		u.SetName(name)
		if placement != "" {
			u.Object["spec"] = map[string]any{"placementName": placement}
			u.Object["status"] = map[string]any{"summary": map[string]any{"state": state}}
		}
		return u
	}
	gone := object("ClusterResourcePlacement", "", "gone", "", "")
	gone.SetDeletionTimestamp(new(metav1.Now()))
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		api.ClusterScope.GVR(api.RunKind): "ClusterStagedUpdateRunList", api.NamespaceScope.GVR(api.RunKind): "StagedUpdateRunList",
		api.ClusterScope.GVR(api.PlacementKind): "ClusterResourcePlacementList", api.NamespaceScope.GVR(api.PlacementKind): "ResourcePlacementList",
	},
		object("ClusterResourcePlacement", "", "busy", "", ""), object("ClusterResourcePlacement", "", "idle", "", ""), object("ResourcePlacement", "shop", "idle", "", ""),
		object("ResourcePlacement", "shop", "busy", "", ""), object("StagedUpdateRun", "shop", "run", "busy", "Stopping"),
		object("ClusterStagedUpdateRun", "", "first", "busy", "Completed"), object("ClusterStagedUpdateRun", "", "second", "busy", "Running"),
		object("ClusterStagedUpdateRun", "", "other", "idle", "Stopped"), gone, object("ClusterStagedUpdateRun", "", "last", "gone", "Running"))
	for _, name := range []string{"busy", "shop/busy"} {
		h := &Hub{client: client, all: true}
		err := h.deleteUnlessBusy(t.Context(), api.PlacementKind, name, false)
		if _, is := errors.AsType[*stages.RefusedError](err); !is {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
		if k := h.key(name); k.Namespace == "" {
			if want := "placement busy has run second, which is Running: stop it first, or force the deletion"; err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
			if _, err := h.resource(api.PlacementKind, "").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
				t.Errorf("a refused deletion: %v", err)
			}
		}
		if err := h.deleteUnlessBusy(t.Context(), api.PlacementKind, name, true); err != nil {
			t.Errorf("%s, forced: %v", name, err)
		}
	}
	for _, name := range []string{"idle", "shop/idle", "gone"} {
		if err := (&Hub{client: client, all: true}).deleteUnlessBusy(t.Context(), api.PlacementKind, name, false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
