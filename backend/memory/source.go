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

// Source is a [snapshot.Source] in memory: what a hub cluster or a directory
// would hold. Objects are read in the version they were put in, and yielded by
// namespace, group, kind and name.
type Source struct {
	mu      sync.Mutex
	objects map[key]*unstructured.Unstructured
	invalid error // what NewSource could not take
}

var _ snapshot.Source = (*Source)(nil)

// NewSource returns a source of objs. Of two with the same identity the last
// one counts. One that has no apiVersion, kind or name makes every call of
// Objects fail, so that it is not overlooked.
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

// Delete removes the object that id names, in whatever version, if it exists.
func (s *Source) Delete(id snapshot.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, keyOf(id))
}

// Objects yields the objects that match q as they were when it began. See
// [snapshot.Source].
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

// matches reports whether an object is asked for. An empty Kind asks for all
// kinds, whatever the query says about group and version.
func matches(i identity, obj *unstructured.Unstructured, q snapshot.Query) bool {
	if q.Kind != "" {
		_, version := splitVersion(obj.GetAPIVersion())
		if q.Kind != i.kind || q.Group != i.group || q.Version != "" && q.Version != version {
			return false
		}
	}
	return (q.Name == "" || q.Name == i.name) && (q.Namespace == "" || q.Namespace == i.namespace)
}
