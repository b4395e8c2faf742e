package durable

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/snapshot"
)

// Source is a [memory.Source] whose objects are in a store, under source.
type Source struct {
	mu     sync.Mutex
	now    *memory.Source // replaced by each change
	record record
}

var _ snapshot.Source = (*Source)(nil)

// sourceRecord is the record of a source.
type sourceRecord struct {
	Format  int              `json:"format"`
	Objects []map[string]any `json:"objects"`
}

// OpenSource returns the source that is in the store, or one of objs.
func OpenSource(ctx context.Context, st backend.Store, objs ...*unstructured.Unstructured) (*Source, error) {
	s := &Source{record: record{store: st, key: "source"}}
	err := s.read(ctx)
	if errors.Is(err, backend.ErrNotFound) {
		err = s.save(ctx, memory.NewSource(objs...))
	}
	return s, err
}

// Objects yields the objects that match q. See [snapshot.Source].
func (s *Source) Objects(ctx context.Context, q snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.settle(ctx); err != nil {
		return func(yield func(*unstructured.Unstructured, error) bool) { yield(nil, err) }
	}
	return s.now.Objects(ctx, q)
}

// Put adds a copy of obj, or replaces the object of that identity.
func (s *Source) Put(ctx context.Context, obj *unstructured.Unstructured) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.settle(ctx); err != nil {
		return err
	}
	next := memory.NewSource()
	for existing, err := range s.now.Objects(ctx, snapshot.Query{}) {
		if err = cmp.Or(err, next.Put(existing)); err != nil {
			return err
		}
	}
	if err := next.Put(obj); err != nil {
		return err
	}
	return s.save(ctx, next)
}

// settle sets the objects to the stored state after a change that the store failed.
func (s *Source) settle(ctx context.Context) error {
	if !s.record.unsure {
		return nil
	}
	return s.read(ctx)
}

// read sets the objects to the content of the record.
func (s *Source) read(ctx context.Context) error {
	if err := s.record.load(ctx); err != nil {
		return err
	}
	var r sourceRecord
	if err := s.record.decode(&r, func() int { return r.Format }); err != nil {
		return err
	}
	s.now = memory.NewSource()
	for _, o := range r.Objects {
		if err := s.now.Put(&unstructured.Unstructured{Object: o}); err != nil {
			return err
		}
	}
	return nil
}

// save stores the objects of next, and then makes them the objects of the source.
func (s *Source) save(ctx context.Context, next *memory.Source) error {
	r := sourceRecord{Format: format}
	for obj, err := range next.Objects(ctx, snapshot.Query{}) {
		if err != nil {
			return err
		}
		r.Objects = append(r.Objects, obj.Object)
	}
	value, err := json.Marshal(r)
	if err == nil {
		err = s.record.save(ctx, value)
	}
	if err == nil {
		s.now = next
	}
	return err
}
