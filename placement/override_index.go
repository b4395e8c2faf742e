package placement

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Selecting returns the overrides that select at least one of the objects, in the given order.
// The others change none of these objects on any cluster. Each object comes with its namespace,
// which is empty for a cluster-scoped object.
func Selecting(overrides []Override, objects iter.Seq2[ObjectSelector, string]) []Override {
	if len(overrides) == 0 {
		return nil
	}
	index := newOverrideIndex()
	for i, o := range overrides {
		index.add(i, o.Namespace, o.Selectors)
	}
	found := make([]bool, len(overrides))
	for o, namespace := range objects {
		for _, i := range index.of(objectKey{o.Group, o.Version, o.Kind, namespace, o.Name}) {
			found[i] = true
		}
	}
	var out []Override
	for i, o := range overrides {
		if found[i] {
			out = append(out, o)
		}
	}
	return out
}

// objectKey is the key by which overrides select an object.
type objectKey struct{ group, version, kind, namespace, name string }

func keyOf(obj *unstructured.Unstructured) objectKey {
	gvk := obj.GroupVersionKind()
	return objectKey{gvk.Group, gvk.Version, gvk.Kind, obj.GetNamespace(), obj.GetName()}
}

// overrideIndex finds the indexes of the overrides that select an object.
type overrideIndex struct {
	objects    map[objectKey][]int
	namespaces map[string][]int
}

func newOverrideIndex() overrideIndex {
	return overrideIndex{objects: map[objectKey][]int{}, namespaces: map[string][]int{}}
}

// add adds an override of a namespace. The indexes of overrides are added in ascending order.
func (x overrideIndex) add(index int, namespace string, selectors []ObjectSelector) {
	for _, sel := range selectors {
		k := objectKey{sel.Group, sel.Version, sel.Kind, namespace, sel.Name}
		x.objects[k] = append(x.objects[k], index)
		if sel.isNamespace() {
			x.namespaces[sel.Name] = append(x.namespaces[sel.Name], index)
		}
	}
}

// of returns the overrides that select an object, ascending, each once.
func (x overrideIndex) of(object objectKey) []int {
	found := x.objects[object]
	if object.namespace != "" {
		found = slices.Concat(found, x.namespaces[object.namespace])
	}
	if len(found) == 0 {
		return nil
	}
	found = slices.Sorted(slices.Values(found))
	return slices.Compact(found)
}
