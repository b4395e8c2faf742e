package snapshot_test

import (
	"context"
	"iter"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/snapshot"
)

// objects is a Source in memory.
type objects []*unstructured.Unstructured

func (o objects) Objects(_ context.Context, q snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		for _, obj := range o {
			if answers(snapshot.IDOf(obj), q) && !yield(obj, nil) {
				return
			}
		}
	}
}

func answers(id snapshot.ID, q snapshot.Query) bool {
	kind := q.Kind == "" || (q.Kind == id.Kind && q.Group == id.Group && q.Version == id.Version)
	return kind && (q.Namespace == "" || q.Namespace == id.Namespace) && (q.Name == "" || q.Name == id.Name)
}

// parse reads one object from YAML; integers become int64 as from an API server.
func parse(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(body); err != nil {
		t.Fatal(err)
	}
	return obj
}

// object makes an object with nothing but a name.
func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	meta := map[string]any{"name": name}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": meta}}
}

// with sets a field of an object.
func with(obj *unstructured.Unstructured, value any, path ...string) *unstructured.Unstructured {
	if err := unstructured.SetNestedField(obj.Object, value, path...); err != nil {
		panic(err)
	}
	return obj
}

// names are the objects' names for people.
func names(objs []*unstructured.Unstructured) []string {
	var out []string
	for _, obj := range objs {
		out = append(out, snapshot.IDOf(obj).String())
	}
	return out
}

// mustSet makes a set of objects that have no faults.
func mustSet(t testing.TB, objs ...*unstructured.Unstructured) snapshot.Set {
	t.Helper()
	set, err := snapshot.NewSet(objs)
	if err != nil {
		t.Fatal(err)
	}
	return set
}
