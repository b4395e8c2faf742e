package backendtest

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// listNamespace requires that a new object is listed with its annotations, in its namespace and
// in no other. It passes for a connection that cannot list.
func listNamespace(ctx context.Context, s subject) error {
	obj := s.configMap("a", "1")
	obj.SetAnnotations(map[string]string{"slipway.dev/test": "list"})
	if _, err := s.conn.Apply(ctx, obj, backend.ApplyOptions{Manager: one}); err != nil {
		return err
	}
	for namespace, want := range map[string]bool{s.id.Namespace: true, "slipway-test-missing": false} {
		found, err := s.listed(ctx, namespace)
		if errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("namespace %s: %w", namespace, err)
		}
		if found == nil && want || found != nil && !want {
			return fmt.Errorf("namespace %s: the object is listed: %v, want %v", namespace, found != nil, want)
		}
		if found != nil && (found.GetAnnotations()["slipway.dev/test"] != "list" || found.GetUID() == "") {
			return fmt.Errorf("the object is listed without its metadata: %v", found.Object)
		}
	}
	return nil
}

// listed returns the object from the list of a namespace, nil if it is missing there.
func (s subject) listed(ctx context.Context, namespace string) (found *unstructured.Unstructured, err error) {
	for obj, err := range backend.ListNamespace(ctx, s.conn, namespace) {
		if err != nil {
			return nil, err
		}
		if id := snapshot.IDOf(obj); id == s.id {
			found = obj
		}
	}
	return found, nil
}
