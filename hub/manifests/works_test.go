package manifests_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/hub/manifests"
)

// A client of KubeFleet's types finds no Work, and cannot write one.
func TestThereAreNoWorks(t *testing.T) {
	s := installedServer(t)
	for _, version := range []string{"v1", "v1beta1"} {
		works := clientFor(t, s.Config()).Resource(schema.GroupVersionResource{Group: "placement.kubernetes-fleet.io", Version: version, Resource: "works"}).Namespace("default")
		if _, err := works.Get(t.Context(), "p-work", metav1.GetOptions{}); !apierrors.IsNotFound(err) || apierrors.ReasonForError(err) != metav1.StatusReasonNotFound || !strings.Contains(err.Error(), `"p-work" not found`) {
			t.Errorf("%s: %v, want that there is no p-work", version, err)
		}
		_, err := works.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "placement.kubernetes-fleet.io/" + version, "kind": "Work", "metadata": map[string]any{"name": "p-work"},
			"spec": map[string]any{"workload": map[string]any{"manifests": []any{}}},
		}}, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "a hub of Slipway has no Works") {
			t.Errorf("%s: %v, want that there are no Works", version, err)
		}
	}
}

// KubeFleet's agents need the existing definition of Works while a hub is migrated.
func TestTheDefinitionOfWorksThatIsThereStays(t *testing.T) {
	s := olderServer(t)
	crds := clientFor(t, s.Config()).Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	const name = "works.placement.kubernetes-fleet.io"
	patch := `[{"op": "remove", "path": "/spec/versions/0"}]` // like in KubeFleet's earlier versions
	before, err := crds.Patch(t.Context(), name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	changes, err := install(t.Context(), s.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if c.Name == name && c.Outcome != manifests.Unchanged {
			t.Error(c)
		}
	}
	after, err := crds.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if before.GetGeneration() != after.GetGeneration() {
		t.Errorf("generation %d, was %d", after.GetGeneration(), before.GetGeneration())
	}
}
