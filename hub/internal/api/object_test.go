package api_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/hub/internal/api"
)

// A spec that is written as a Go type is read as the same value.
func TestNewObjectsHaveTheirSpec(t *testing.T) {
	want := v1beta1.UpdateRunSpec{PlacementName: "web", StagedUpdateStrategyName: "s", State: v1beta1.StateStop, ResourceSnapshotIndex: "3"}
	u, err := api.New(api.NamespaceScope.GVK(api.RunKind), &want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, api.Spec[v1beta1.UpdateRunSpec](u)); diff != "" || u.GetKind() != "StagedUpdateRun" {
		t.Errorf("%s (-want +got):\n%s", u.GetKind(), diff)
	}
	if name := api.PlacementOf(u); name != "web" {
		t.Errorf("its placement is %q", name)
	}
}

// A spec of another form is zero, and its error names the object. A single field is read all the same.
func TestASpecOfAnotherForm(t *testing.T) {
	for name, spec := range map[string]any{"a wrong field": map[string]any{"placementName": "web", "state": []any{"Run"}}, "no object": "web"} {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": "StagedUpdateRun", "metadata": map[string]any{"name": "r"}, "spec": spec}}
		if diff := cmp.Diff(v1beta1.UpdateRunSpec{}, api.Spec[v1beta1.UpdateRunSpec](u)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if err := api.FromMap(u, "spec", &v1beta1.UpdateRunSpec{}); err == nil || !strings.HasPrefix(err.Error(), "StagedUpdateRun r: spec: ") {
			t.Errorf("%s: %v", name, err)
		}
		if _, has := spec.(map[string]any); has != (api.SpecString(u, "placementName") == "web") {
			t.Errorf("%s: the placement is %q", name, api.SpecString(u, "placementName"))
		}
	}
	none := &unstructured.Unstructured{Object: map[string]any{}}
	if err := api.FromMap(none, "status", &v1beta1.UpdateRunStatus{}); err != nil {
		t.Errorf("an object without a status: %v", err)
	}
}

// BenchmarkPlacementOf reads the placement of a run: the hub does that for each run without an
// engine run whenever a placement changes.
func BenchmarkPlacementOf(b *testing.B) {
	u, err := api.New(api.NamespaceScope.GVK(api.RunKind), &v1beta1.UpdateRunSpec{PlacementName: "web", StagedUpdateStrategyName: "s", State: v1beta1.StateRun})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if api.PlacementOf(u) != "web" {
			b.Fatal("another placement")
		}
	}
}
