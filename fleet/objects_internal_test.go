package fleet

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// goldenKey is the key of placements in golden files.
var goldenKey = []byte("0123456789abcdef0123456789abcdef")

func namespaceObject(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}
}

func configMap(namespace, name, v string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": namespace},
		"data":     map[string]any{"v": v},
	}}
}
