package memory

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/snapshot"
)

// Source is a [snapshot.Source] in memory, in place of a hub cluster or a directory. Objects keep
// the version in which they were put, and are yielded by namespace, group, kind and name.
type Source struct {
	mu      sync.Mutex
	objects map[key]*unstructured.Unstructured
	invalid error // the errors of objects in NewSource
}

var _ snapshot.Source = (*Source)(nil)

// NewSource returns a source of objs. If two have the same identity, the last one counts. If an
// object has no apiVersion, kind or name, every call of Objects fails, so that the mistake is not
// overlooked.
func NewSource(objs ...*unstructured.Unstructured) *Source {
	s := &Source{objects: map[key]*unstructured.Unstructured{}}
	for _, obj := range objs {
		s.invalid = errors.Join(s.invalid, s.Put(obj))
	}
	return s
}

// Put adds a copy of obj, or replaces the object of that identity. An object
// without apiVersion, kind or name is ErrPermanent.
func (s *Source) Put(obj *unstructured.Unstructured) error {
	k, err := identify(obj)
	if err != nil {
		return failed("put", k.String(), err)
	}
	copied := &unstructured.Unstructured{Object: copyTree(obj.Object)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[k] = copied
	return nil
}

// Delete removes the object with an ID, in any version, if it exists.
func (s *Source) Delete(id snapshot.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, keyOf(id))
}

// Objects yields the objects that match q at the beginning of the call. See [snapshot.Source].
func (s *Source) Objects(ctx context.Context, q snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		if err := errors.Join(ctx.Err(), s.invalid); err != nil {
			yield(nil, failed("list", "objects", err))
			return
		}
		for _, obj := range s.matching(q) {
			if !yield(obj, nil) {
				return
			}
		}
	}
}

func (s *Source) matching(q snapshot.Query) []*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []key
	for k, obj := range s.objects {
		if matches(k.Value(), obj, q) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, compareKeys)
	out := make([]*unstructured.Unstructured, len(keys))
	for i, k := range keys {
		out[i] = s.objects[k]
	}
	return out
}

// matches reports whether the query selects an object. An empty Kind selects all kinds and
// ignores group and version.
func matches(i identity, obj *unstructured.Unstructured, q snapshot.Query) bool {
	if q.Kind != "" {
		_, version := splitVersion(obj.GetAPIVersion())
		if q.Kind != i.kind || q.Group != i.group || q.Version != "" && q.Version != version {
			return false
		}
	}
	return (q.Name == "" || q.Name == i.name) && (q.Namespace == "" || q.Namespace == i.namespace)
}
