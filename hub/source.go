package hub

import (
	"context"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// filteredSource is a source without the hub's own namespace, which has the engine's records and
// the credentials of members: no placement may bring these to a member. Selecting that namespace
// by name is an error. Package snapshot excludes the namespace default and those of the system.
type filteredSource struct {
	next      snapshot.Source
	namespace string
}

// Objects yields the objects of the next source outside of the hub's namespace.
func (s *filteredSource) Objects(ctx context.Context, q snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
	if q.Namespace == s.namespace || q.Group == "" && q.Kind == "Namespace" && q.Name == s.namespace {
		return func(yield func(*unstructured.Unstructured, error) bool) {
			yield(nil, fmt.Errorf("namespace %s holds the hub's own records: no placement may select it: %w", s.namespace, backend.ErrPermanent))
		}
	}
	return func(yield func(*unstructured.Unstructured, error) bool) {
		for obj, err := range s.next.Objects(ctx, q) {
			if err == nil && s.isOwn(obj) {
				continue
			}
			if !yield(obj, err) {
				return
			}
		}
	}
}

func (s *filteredSource) isOwn(obj *unstructured.Unstructured) bool {
	return obj.GetNamespace() == s.namespace || obj.GetNamespace() == "" && obj.GetKind() == "Namespace" && obj.GetName() == s.namespace
}
