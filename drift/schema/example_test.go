package schema_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtime "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/drift/schema"
)

func ExampleBuiltin() {
	deployment := schema.Builtin().Type(runtime.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	spec := deployment.Field("spec").Type
	pod := spec.Field("template").Type.Field("spec").Type
	fmt.Println("replicas:", spec.Field("replicas").Default)
	fmt.Println("containers are told apart by", pod.Field("containers").Type.Keys[0].Name)
	fmt.Println("the order of initContainers has a meaning:", pod.Field("initContainers").Type.Ordered)
	// Output:
	// replicas: 1
	// containers are told apart by name
	// the order of initContainers has a meaning: true
}

func ExampleField_DefaultIn() {
	service := schema.Builtin().Type(runtime.GroupVersionKind{Version: "v1", Kind: "Service"})
	port := service.Field("spec").Type.Field("ports").Type.Elem
	fmt.Println(port.Field("protocol").DefaultIn(map[string]any{}))
	fmt.Println(port.Field("targetPort").DefaultIn(map[string]any{"port": int64(8080)}))
	// Output:
	// TCP true
	// 8080 true
}

func ExampleFromCRD() {
	widgets := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"group": "example.com",
			"names": map[string]any{"kind": "Widget", "plural": "widgets"},
			"versions": []any{map[string]any{
				"name": "v1",
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type":       "object",
					"properties": map[string]any{"size": map[string]any{"type": "integer", "default": int64(3)}},
				}},
			}},
		},
	}}
	known, err := schema.FromCRD(widgets)
	if err != nil {
		fmt.Println(err)
		return
	}
	// The built-in table has the types of all kinds that the definition does not define.
	source := schema.Join(known, schema.Builtin())
	widget := source.Type(runtime.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
	fmt.Println("size:", widget.Field("size").Default)
	fmt.Println("Pod:", source.Type(runtime.GroupVersionKind{Version: "v1", Kind: "Pod"}) != nil)
	// Output:
	// size: 3
	// Pod: true
}

func ExampleFromOpenAPI() {
	document := []byte(`{"openapi": "3.0.0", "components": {"schemas": {
		"com.example.v1.Widget": {
			"type": "object",
			"x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}],
			"properties": {"memory": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}}
		}
	}}}`)
	source, err := schema.FromOpenAPI(document)
	if err != nil {
		fmt.Println(err)
		return
	}
	widget := source.Type(runtime.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
	fmt.Println("memory is a quantity:", widget.Field("memory").Type.Kind == schema.Quantity)
	// Output:
	// memory is a quantity: true
}
