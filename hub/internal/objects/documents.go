package objects

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Parsed caches parsed objects of one kind. An object is parsed again when its generation
// changes, and only a change of its spec changes that.
type Parsed[T any] struct {
	mu  sync.Mutex
	all map[types.UID]parsed[T]
}

type parsed[T any] struct {
	generation int64
	value      T
	err        error
}

// mostReadings bounds the cache; beyond it the cache is emptied.
const mostReadings = 10_000

// Of returns the result of read for the spec of an object.
func (r *Parsed[T]) Of(obj *unstructured.Unstructured, read func(*unstructured.Unstructured) (T, error)) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	have, ok := r.all[obj.GetUID()]
	if ok && have.generation == obj.GetGeneration() {
		return have.value, have.err
	}
	if r.all == nil || len(r.all) >= mostReadings {
		r.all = map[types.UID]parsed[T]{}
	}
	have = parsed[T]{generation: obj.GetGeneration()}
	have.value, have.err = read(declaredOnly(obj))
	r.all[obj.GetUID()] = have
	return have.value, have.err
}

// declaredOnly returns an object without its status and most of its metadata, which the hub and
// the API server write.
func declaredOnly(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: make(map[string]any, len(obj.Object))}
	for name, v := range obj.Object {
		if name != "status" && name != "metadata" {
			out.Object[name] = v
		}
	}
	out.SetName(obj.GetName())
	if ns := obj.GetNamespace(); ns != "" {
		out.SetNamespace(ns)
	}
	return out
}
