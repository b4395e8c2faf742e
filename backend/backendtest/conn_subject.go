package backendtest

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// The managers of the cases.
const (
	one = "slipway/one"
	two = "slipway/two"
)

// mark is an annotation and a label that Release removes.
const mark = "slipway.dev/test"

// subject is the object of a case, with the connection of the case.
type subject struct {
	conn backend.Conn
	id   snapshot.ID
}

// withMap runs a case with a ConfigMap that does not exist, and deletes it afterwards.
func withMap(name string, run func(ctx context.Context, s subject) error) func(context.Context, backend.Conn) error {
	return with(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: "slipway-test-" + name}, run)
}

func with(id snapshot.ID, run func(ctx context.Context, s subject) error) func(context.Context, backend.Conn) error {
	return func(ctx context.Context, c backend.Conn) error {
		s := subject{c, id}
		if err := s.gone(ctx); err != nil {
			return err
		}
		return errors.Join(run(ctx, s), s.gone(context.WithoutCancel(ctx)))
	}
}

// gone deletes the object and waits until it is gone.
func (s subject) gone(ctx context.Context) error {
	err := s.conn.Delete(ctx, s.id, backend.DeleteOptions{})
	if errors.Is(err, backend.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return s.vanishes(ctx)
}

func (s subject) vanishes(ctx context.Context) error {
	return eventually(ctx, "the end of the deletion", func() bool {
		_, err := s.conn.Get(ctx, s.id)
		return errors.Is(err, backend.ErrNotFound)
	})
}

// configMap returns the object with pairs of keys and values as its data.
func (s subject) configMap(pairs ...string) *unstructured.Unstructured {
	data := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		data[pairs[i]] = pairs[i+1]
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": s.id.Name, "namespace": s.id.Namespace},
		"data":     data,
	}}
}

// apply applies the ConfigMap with this data.
func (s subject) apply(ctx context.Context, manager string, p backend.Precondition, pairs ...string) (*unstructured.Unstructured, error) {
	return s.conn.Apply(ctx, s.configMap(pairs...), backend.ApplyOptions{Manager: manager, Precondition: p})
}

// applied applies without preconditions, which must succeed.
func (s subject) applied(ctx context.Context, manager string, pairs ...string) (*unstructured.Unstructured, error) {
	obj, err := s.apply(ctx, manager, backend.Precondition{}, pairs...)
	switch {
	case err != nil:
		return nil, fmt.Errorf("apply as %s: %w", manager, err)
	case obj == nil:
		return nil, fmt.Errorf("apply as %s returned no object", manager)
	case obj.GetUID() == "" || obj.GetResourceVersion() == "":
		return nil, fmt.Errorf("apply as %s returned an object without uid or resourceVersion", manager)
	}
	return obj, nil
}

// holds returns nil if the member has exactly this data.
func (s subject) holds(ctx context.Context, pairs ...string) error {
	obj, err := s.conn.Get(ctx, s.id)
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	return hasData(obj, pairs...)
}

func hasData(obj *unstructured.Unstructured, pairs ...string) error {
	got, _, err := unstructured.NestedStringMap(obj.Object, "data")
	if err != nil {
		return err
	}
	want := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		want[pairs[i]] = pairs[i+1]
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("the data is %v, want %v", got, want)
	}
	return nil
}

// missing returns nil if the object does not exist.
func (s subject) missing(ctx context.Context) error {
	_, err := s.conn.Get(ctx, s.id)
	return want("get", err, backend.ErrNotFound)
}

// precondition requires that the object is unchanged.
func precondition(obj *unstructured.Unstructured) backend.Precondition {
	return backend.Precondition{UID: string(obj.GetUID()), ResourceVersion: obj.GetResourceVersion()}
}
