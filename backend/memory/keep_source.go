package memory

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
)

const sourcePrefix = "source/"

// Keep makes the objects of the source survive its process. Where st has been
// given the objects of a source before, those replace what this one holds;
// otherwise st is given what it holds. From then on every Put and Delete is in
// st before it is acknowledged, and one that st fails, fails with that error:
// it may or may not have happened, and the next call reads from st what is
// true, or fails as well. One process at a time may keep its source in st. Keep
// is called once, before the source is used. The keys are
//
//	source/head       that a source was kept
//	source/<digest>   an object
func (s *Source) Keep(ctx context.Context, st backend.Store) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.invalid != nil {
		return failed("keep", "source", s.invalid)
	}
	prefixStore := newPrefixStore(st, sourcePrefix)
	found, err := s.load(ctx, &prefixStore)
	if err == nil && !found {
		err = s.give(ctx, &prefixStore)
	}
	if err != nil {
		return failed("keep", "source", err)
	}
	s.kept = &prefixStore
	return nil
}

// load takes what is stored, if a source was kept. The lock is held, here and
// below.
func (s *Source) load(ctx context.Context, from *prefixStore) (found bool, err error) {
	bodies, err := from.load(ctx)
	if err != nil {
		return false, err
	}
	head, found := bodies[sourcePrefix+"head"]
	if !found {
		return false, nil
	}
	if err := decodeStrictly(sourcePrefix+"head", head, &header{}); err != nil {
		return true, err
	}
	delete(bodies, sourcePrefix+"head")
	objects := make(map[key]*unstructured.Unstructured, len(bodies))
	for at, body := range bodies {
		k, obj, err := decodeSourceObject(at, body)
		if err != nil {
			return true, err
		}
		objects[k] = obj
	}
	s.objects, from.stale = objects, false
	return true, nil
}

// give stores what the source holds, and then that it is kept.
func (s *Source) give(ctx context.Context, to *prefixStore) error {
	var changes []change
	mine := map[string]bool{}
	for k, obj := range s.objects {
		value, err := encodeSourceObject(obj)
		if err != nil {
			return err
		}
		at := sourcePrefix + recordName(k)
		mine[at] = true
		changes = append(changes, change{at, value})
	}
	for at := range to.revisions {
		if !mine[at] && at != sourcePrefix+"head" {
			changes = append(changes, change{key: at})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return strings.Compare(a.key, b.key) })
	head, err := seal(header{Format: keptFormat})
	if err != nil {
		return err
	}
	return to.write(ctx, append(changes, change{sourcePrefix + "head", head}))
}

// fresh makes the source what is stored after a write failed.
func (s *Source) fresh(ctx context.Context) error {
	if s.kept == nil || !s.kept.stale {
		return nil
	}
	found, err := s.load(ctx, s.kept)
	if err == nil && !found {
		err = damaged(sourcePrefix+"head", "it is missing")
	}
	return err
}

// save stores an object, or with nil that it is gone.
func (s *Source) save(ctx context.Context, k key, obj *unstructured.Unstructured) error {
	if s.kept == nil {
		return nil
	}
	step := change{key: sourcePrefix + recordName(k)}
	if obj != nil {
		value, err := encodeSourceObject(obj)
		if err != nil {
			return err
		}
		step.value = value
	}
	return s.kept.write(ctx, []change{step})
}

func encodeSourceObject(obj *unstructured.Unstructured) ([]byte, error) {
	raw, err := encodeTree(obj.Object)
	if err != nil {
		return nil, err
	}
	return seal(sourceRecord{header{Format: keptFormat}, raw})
}

func decodeSourceObject(at string, body []byte) (key, *unstructured.Unstructured, error) {
	var r sourceRecord
	if err := decodeStrictly(at, body, &r); err != nil {
		return key{}, nil, err
	}
	k, t, err := decodeIdentified(at, r.Object)
	return k, &unstructured.Unstructured{Object: t}, err
}
