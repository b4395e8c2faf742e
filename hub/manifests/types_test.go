package manifests_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1beta1 "github.com/slipway-dev/slipway/api/cluster/v1beta1"
	placementv1beta1 "github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/hub/compat"
)

// A definition is generated from a Go type of api, and each has the fields of the other. The test
// fails if make generate was forgotten after a change of a field.
func TestTheTypesHaveTheFieldsOfTheDefinitions(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{placementv1beta1.AddToScheme, clusterv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	kinds := 0
	for _, crd := range crdsOf(t, compat.Default) {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		gvk := schema.GroupVersionKind{Group: group, Version: "v1beta1", Kind: kind}
		obj, err := scheme.New(gvk)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := scheme.New(gvk.GroupVersion().WithKind(kind + "List")); err != nil {
			t.Error(err)
		}
		kinds++
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		definition, _, _ := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema")
		compareFields(t, kind, definition, reflect.TypeOf(obj).Elem())
	}
	if all := len(scheme.KnownTypes(placementv1beta1.GroupVersion())) + len(scheme.KnownTypes(clusterv1beta1.GroupVersion())); kinds != 23 || all < 2*kinds {
		t.Errorf("%d definitions, and %d types", kinds, all)
	}
}

// compareFields compares the fields of a schema with the fields of a type, recursively.
func compareFields(t *testing.T, at string, s map[string]any, goType reflect.Type) {
	t.Helper()
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	switch goType.Kind() {
	case reflect.Slice:
		if items, ok := s["items"].(map[string]any); ok {
			compareFields(t, at+"[]", items, goType.Elem())
		}
		return
	case reflect.Map:
		if values, ok := s["additionalProperties"].(map[string]any); ok {
			compareFields(t, at+"{}", values, goType.Elem())
		}
		return
	case reflect.Struct:
	default:
		return
	}
	properties, _ := s["properties"].(map[string]any)
	if s["x-kubernetes-preserve-unknown-fields"] == true || slices.Contains([]reflect.Type{
		reflect.TypeFor[metav1.ObjectMeta](), reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.Duration](), reflect.TypeFor[intstr.IntOrString](),
	}, goType) || s["x-kubernetes-int-or-string"] == true {
		return
	}
	var names, fields []string
	for name := range properties {
		names = append(names, name)
	}
	for name, field := range jsonFields(goType) {
		fields = append(fields, name)
		if p, ok := properties[name].(map[string]any); ok {
			compareFields(t, at+"."+name, p, field)
		}
	}
	slices.Sort(names)
	slices.Sort(fields)
	if diff := gocmp.Diff(fields, names); diff != "" {
		t.Errorf("%s: run make generate (-type +definition):\n%s", fmt.Sprintf("%s, %s", at, goType), diff)
	}
}

// jsonFields returns the types of a struct's fields by JSON name, including fields of embedded
// structs.
func jsonFields(goType reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for f := range goType.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && (name == "" || strings.Contains(options, "inline")) && name != "metadata":
			maps.Copy(out, jsonFields(f.Type))
		case name != "-":
			out[name] = f.Type
		}
	}
	return out
}
