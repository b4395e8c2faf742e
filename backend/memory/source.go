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
	invalid error        // what NewSource could not take
	kept    *prefixStore // nil where only memory holds the source
}

var _ snapshot.Source = (*Source)(nil)

// NewSource returns a source of objs. Of two with the same name the last one
// counts. One that has no apiVersion, kind or name makes every call of Objects
// fail, so that it is not overlooked.
func NewSource(objs ...*unstructured.Unstructured) *Source {
	s := &Source{objects: map[key]*unstructured.Unstructured{}}
	for _, obj := range objs {
		s.invalid = errors.Join(s.invalid, s.Put(obj))
	}
	return s
}

// Put adds a copy of obj, or replaces the object of that name. An object
// without apiVersion, kind or name is ErrPermanent. After Keep there may be
// other errors.
func (s *Source) Put(obj *unstructured.Unstructured) error {
	k, err := identify(obj)
	if err != nil {
		return err
	}
	copied := &unstructured.Unstructured{Object: copyTree(obj.Object)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.set(context.Background(), k, copied); err != nil {
		return failed("put", k.String(), err)
	}
	return nil
}

// Delete removes the object that id names, in whatever version, if it exists.
// It has no error before Keep.
func (s *Source) Delete(id snapshot.ID) error {
	k := keyOf(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.set(context.Background(), k, nil); err != nil {
		return failed("delete", k.String(), err)
	}
	return nil
}

// set puts an object, or with nil takes it away.
func (s *Source) set(ctx context.Context, k key, obj *unstructured.Unstructured) error {
	if err := s.fresh(ctx); err != nil {
		return err
	}
	if err := s.save(ctx, k, obj); err != nil {
		return err
	}
	if obj == nil {
		delete(s.objects, k)
	} else {
		s.objects[k] = obj
	}
	return nil
}

// Objects yields the objects that match q as they were when it began. See
// [snapshot.Source].
func (s *Source) Objects(ctx context.Context, q snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		if err := errors.Join(ctx.Err(), s.invalid); err != nil {
			yield(nil, failed("list", "objects", err))
			return
		}
		objs, err := s.matching(ctx, q)
		if err != nil {
			yield(nil, failed("list", "objects", err))
			return
		}
		for _, obj := range objs {
			if !yield(obj, nil) {
				return
			}
		}
	}
}

func (s *Source) matching(ctx context.Context, q snapshot.Query) ([]*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fresh(ctx); err != nil {
		return nil, err
	}
	var keys []key
	for k, obj := range s.objects {
		if matches(k, obj, q) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, compareKeys)
	out := make([]*unstructured.Unstructured, len(keys))
	for i, k := range keys {
		out[i] = s.objects[k]
	}
	return out, nil
}

// matches reports whether an object is asked for; an empty Kind asks for all
// kinds, whatever else it says about them.
func matches(k key, obj *unstructured.Unstructured, q snapshot.Query) bool {
	if q.Kind != "" {
		_, version := splitVersion(obj.GetAPIVersion())
		if q.Kind != k.kind || q.Group != k.group || q.Version != "" && q.Version != version {
			return false
		}
	}
	return (q.Name == "" || q.Name == k.name) && (q.Namespace == "" || q.Namespace == k.namespace)
}
