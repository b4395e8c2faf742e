package drift_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/drift/schema"
)

func namespace(labels map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "web", "labels": labels},
	}}
}

// On the member a label was replaced, and another label was added.
func ExampleCompare() {
	hub := namespace(map[string]any{"app": "web", "owner": "simon"})
	member := namespace(map[string]any{"app": "web", "owner": "chen", "use": "test", "kubernetes.io/metadata.name": "web"})
	for _, c := range []drift.Comparison{drift.Partial, drift.Full} {
		report, err := drift.Compare(hub, member, drift.Options{Comparison: c})
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, d := range report.Differences {
			fmt.Printf("%s: %s %s, hub %s, member %s\n", c, d.Class, d.Path, d.Hub, d.Member)
		}
	}
	// Output:
	// PartialComparison: Changed /metadata/labels/owner, hub "simon", member "chen"
	// FullComparison: Changed /metadata/labels/owner, hub "simon", member "chen"
	// FullComparison: Unmanaged /metadata/labels/use, hub , member "test"
}

// One object is compared with many members.
func ExampleCompile() {
	manifest, err := drift.Compile(namespace(map[string]any{"owner": "simon"}), drift.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	members := map[string]*unstructured.Unstructured{
		"east": namespace(map[string]any{"owner": "simon"}), "west": namespace(map[string]any{"owner": "chen"}), "north": nil,
	}
	for _, name := range []string{"east", "west", "north"} {
		report, err := manifest.Compare(members[name], nil)
		fmt.Println(name, report.State, report.Total, err)
	}
	// Output:
	// east Present 0 <nil>
	// west Present 1 <nil>
	// north Missing 1 <nil>
}

// Changes by webhooks and defaults at the time of the apply are no drift.
func ExampleManifest_Baseline() {
	manifest, err := drift.Compile(namespace(map[string]any{"owner": "simon"}), drift.Options{Comparison: drift.Full})
	if err != nil {
		fmt.Println(err)
		return
	}
	applied := namespace(map[string]any{"owner": "simon", "mesh": "on"})
	baseline := manifest.Baseline(applied)
	for _, mesh := range []string{"on", "off"} {
		report, err := manifest.Compare(namespace(map[string]any{"owner": "simon", "mesh": mesh}), baseline)
		fmt.Println(mesh, report.Total, err)
	}
	// Output:
	// on 0 <nil>
	// off 1 <nil>
}

// An autoscaler sets the replicas, and the mesh adds a sidecar.
func ExampleIgnoreRule() {
	deployment := func(replicas int64, containers ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web", "namespace": "shop"},
			"spec": map[string]any{"replicas": replicas, "template": map[string]any{"spec": map[string]any{"containers": containers}}},
		}}
	}
	container := func(name, image string) any { return map[string]any{"name": name, "image": image} }
	report, err := drift.Compare(
		deployment(2, container("app", "app:1")),
		deployment(7, container("proxy", "proxy:9"), container("app", "app:2")),
		drift.Options{Comparison: drift.Full, Ignore: []drift.IgnoreRule{{Kind: "Deployment", Pointers: []string{
			"/spec/replicas", "/spec/template/spec/containers/[name=proxy]",
		}}}})
	for _, d := range report.Differences {
		fmt.Println(d.Path, d.KeyPath)
	}
	fmt.Println(report.Total, err)
	// Output:
	// /spec/template/spec/containers/1/image .spec.template.spec.containers[name="app"].image
	// 1 <nil>
}

// A definition says how its kind is compared.
func ExampleOptions() {
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "parcels.example.com"},
		"spec": map[string]any{
			"group": "example.com", "names": map[string]any{"kind": "Parcel", "plural": "parcels"}, "scope": "Namespaced",
			"versions": []any{map[string]any{"name": "v1", "schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "properties": map[string]any{
					"tags": map[string]any{"type": "array", "x-kubernetes-list-type": "set", "items": map[string]any{"type": "string"}},
				}}},
			}}}},
		},
	}}
	parcels, err := schema.FromCRD(definition)
	if err != nil {
		fmt.Println(err)
		return
	}
	parcel := func(tags ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Parcel", "metadata": map[string]any{"name": "book"}, "spec": map[string]any{"tags": tags},
		}}
	}
	for _, schemas := range []schema.Source{nil, schema.Join(parcels, schema.Builtin())} {
		report, err := drift.Compare(parcel("a", "b"), parcel("b", "a"), drift.Options{Schemas: schemas})
		fmt.Println(report.Total, err)
	}
	// Output:
	// 1 <nil>
	// 0 <nil>
}
