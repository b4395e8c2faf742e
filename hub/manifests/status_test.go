package manifests_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// TestAStatusIsKeptAsItWasWritten writes statuses like a hub, including the status of the
// tutorial's run: no field is unknown, changed or added.
func TestAStatusIsKeptAsItWasWritten(t *testing.T) {
	s := kubeFleetServer(t)
	resources := map[string]string{
		"ClusterStagedUpdateRun": "clusterstagedupdateruns", "ClusterResourcePlacement": "clusterresourceplacements",
		"ClusterSchedulingPolicySnapshot": "clusterschedulingpolicysnapshots", "MemberCluster": "memberclusters",
	}
	paths, err := filepath.Glob("testdata/status/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no statuses: %v", err)
	}
	for _, path := range paths {
		for _, version := range []string{"v1", "v1beta1"} {
			t.Run(filepath.Base(path)+"/"+version, func(t *testing.T) {
				u := readObject(t, path)
				gvk := u.GroupVersionKind()
				gvr := schema.GroupVersionResource{Group: gvk.Group, Version: version, Resource: resources[gvk.Kind]}
				u.SetGroupVersionKind(gvr.GroupVersion().WithKind(gvk.Kind))
				u.SetName(u.GetName() + "-" + version)
				c := clientFor(t, s.Config()).Resource(gvr)
				created, err := c.Create(t.Context(), u, metav1.CreateOptions{FieldValidation: "Strict"})
				if err != nil {
					t.Fatal(err)
				}
				want := runtime.DeepCopyJSONValue(u.Object["status"])
				created.Object["status"] = u.Object["status"]
				got, err := c.UpdateStatus(t.Context(), created, metav1.UpdateOptions{FieldValidation: "Strict"})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got.Object["status"]); diff != "" {
					t.Errorf("(-written +kept):\n%s", diff)
				}
			})
		}
	}
}

func readObject(t *testing.T, path string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err = yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(text, &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}
