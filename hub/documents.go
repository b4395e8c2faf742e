package hub

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
)

// documents are objects as they were read the last time. They are read again when
// their generation changes, which nothing but their spec does.
type documents struct {
	placements readings[placementDocument]
	overrides  readings[kubefleet.Override]
}

type placementDocument struct {
	placement fleet.Placement
	rollout   kubefleet.Rollout
}

func (d *documents) placement(obj *unstructured.Unstructured) (placementDocument, error) {
	return d.placements.of(obj, func(obj *unstructured.Unstructured) (out placementDocument, err error) {
		out.placement, out.rollout, err = kubefleet.PlacementOf(obj)
		return out, err
	})
}

func (d *documents) override(obj *unstructured.Unstructured) (kubefleet.Override, error) {
	return d.overrides.of(obj, kubefleet.OverrideOf)
}

// readings are the objects of one kind.
type readings[T any] struct {
	mu  sync.Mutex
	all map[types.UID]reading[T]
}

type reading[T any] struct {
	generation int64
	value      T
	err        error
}

// mostReadings bounds what is kept; beyond it everything is read again.
const mostReadings = 10_000

// of returns what read makes of the spec of an object.
func (r *readings[T]) of(obj *unstructured.Unstructured, read func(*unstructured.Unstructured) (T, error)) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	have, ok := r.all[obj.GetUID()]
	if ok && have.generation == obj.GetGeneration() {
		return have.value, have.err
	}
	if r.all == nil || len(r.all) >= mostReadings {
		r.all = map[types.UID]reading[T]{}
	}
	have = reading[T]{generation: obj.GetGeneration()}
	have.value, have.err = read(declaredOnly(obj))
	r.all[obj.GetUID()] = have
	return have.value, have.err
}

// declaredOnly is an object without what the hub and the API server write.
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
