package kubefleet_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1beta1 "github.com/slipway-dev/slipway/api/cluster/v1beta1"
	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/formats/problem"
)

// structs calls f for each struct below a type, with its path and a function that puts an object
// of the struct into an object of the type.
func structs(t reflect.Type, path string, put func(any) any, f func(t reflect.Type, path string, put func(any) any)) {
	switch t.Kind() {
	case reflect.Pointer:
		structs(t.Elem(), path, put, f)
	case reflect.Slice:
		structs(t.Elem(), path+"[0]", func(x any) any { return put([]any{x}) }, f)
	case reflect.Struct:
		if slices.Contains([]reflect.Type{reflect.TypeFor[metav1.Duration](), reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[v1beta1.JSON]()}, t) {
			return
		}
		f(t, path, put)
		for field := range t.Fields() {
			name := tag(field)
			structs(field.Type, path+"."+name, func(x any) any { return put(map[string]any{name: x}) }, f)
		}
	default:
	}
}

func tag(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// The reader knows the fields of the Go types of the Fleet API, and no others except a second
// spelling that KubeFleet's documentation has.
func TestTheFieldsOfTheAPIAreRead(t *testing.T) {
	// unread are the parts of a MemberCluster that have no meaning here.
	unread := []string{"spec.identity", "spec.deleteOptions"}
	for kind, spec := range map[string]any{
		"ClusterResourcePlacement": v1beta1.PlacementSpec{}, "ResourcePlacement": v1beta1.PlacementSpec{},
		"ClusterStagedUpdateStrategy": v1beta1.UpdateStrategySpec{}, "StagedUpdateStrategy": v1beta1.UpdateStrategySpec{},
		"ClusterStagedUpdateRun": v1beta1.UpdateRunSpec{}, "StagedUpdateRun": v1beta1.UpdateRunSpec{},
		"ClusterResourceOverride": v1beta1.ClusterResourceOverrideSpec{}, "ResourceOverride": v1beta1.ResourceOverrideSpec{},
		"MemberCluster": clusterv1beta1.MemberClusterSpec{},
	} {
		structs(reflect.TypeOf(spec), "spec", func(x any) any { return x }, func(s reflect.Type, path string, put func(any) any) {
			var want []string
			for f := range s.Fields() {
				want = append(want, tag(f))
			}
			if s == reflect.TypeFor[v1beta1.ApplyStrategy]() {
				want = append(want, "comparisonOptions")
			}
			if s == reflect.TypeFor[v1beta1.ResourceSelector]() { // these are refused with a reason
				want = append(want, "labelSelector", "selectionScope")
			}
			slices.Sort(want)
			group := "placement"
			if kind == "MemberCluster" {
				group = "cluster"
			}
			text, err := json.Marshal(map[string]any{
				"apiVersion": group + ".kubernetes-fleet.io/v1beta1", "kind": kind, "metadata": map[string]any{"name": "x", "namespace": "y"},
				"spec": put(map[string]any{"unknown": 1}),
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = kubefleet.Read(strings.NewReader(string(text)), "f")
			var problems problem.List
			errors.As(err, &problems)
			refused := slices.Contains(unread, path)
			for _, p := range problems {
				if p.Field == path+".unknown" {
					if known := "unknown field; known are " + strings.Join(want, ", "); p.Text != known {
						t.Errorf("%s %s: %s\nwant %s", kind, path, p.Text, known)
					}
					return
				}
				// an override and some terms may not have a part, which is not read then
				refused = refused || p.Field != "spec" && strings.HasPrefix(path, p.Field) && !strings.Contains(p.Text, "is required")
			}
			if !refused {
				t.Errorf("%s %s: an unknown field is read: %v", kind, path, err)
			}
		})
	}
}

// BenchmarkPlacementOf reads an object as a hub does whenever it reconciles it. A status of a
// thousand clusters is ignored.
func BenchmarkPlacementOf(b *testing.B) {
	obj := served(b, file(b, "served.yaml"))
	for _, clusters := range []int{0, 1000} {
		placed := []any{}
		for i := range clusters {
			placed = append(placed, map[string]any{"clusterName": fmt.Sprint("cluster-", i), "conditions": []any{map[string]any{"type": "Applied", "status": "True"}}})
		}
		if err := unstructured.SetNestedSlice(obj.Object, placed, "status", "placementStatuses"); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("clusters=%d", clusters), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := kubefleet.PlacementOf(obj); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
