package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Capture freezes the objects that the selectors pick from src: it calls [Select], then [Clean],
// then [NewSet]. The same objects give the same set, in any order of src.
//
// If a ClusterResourceEnvelope or a ResourceEnvelope is picked, the set has the objects in it
// instead of the envelope: these objects take effect on the clusters and not on the hub. An
// envelope carries 1 to [MaxEnveloped] objects in data, under arbitrary keys. A
// ClusterResourceEnvelope carries cluster-scoped objects, a ResourceEnvelope objects of its own
// namespace. Capture keeps all of their fields except the status and the metadata that servers
// write.
//
// If an object of an envelope has the wrong scope or no name, or duplicates a selected object or an
// object of another envelope, it is in [Set.Unplaced] and the other objects are in the set. The
// error names every other invalid entry: entries that are no objects, and objects that are never
// placed (see [Propagates]). An object that no API server can read is an error too, from any
// source: see [ValidateContent].
func Capture(ctx context.Context, src Source, selectors []Selector) (Set, error) {
	return Rules{}.Capture(ctx, src, selectors)
}

// Capture is the function [Capture] without the objects that the rules exclude. An excluded
// object in an envelope is an error, because its author put it there to be placed.
func (r Rules) Capture(ctx context.Context, src Source, selectors []Selector) (Set, error) {
	return r.CaptureFrom(ctx, src, selectors, Rules{})
}

// CaptureFrom is Capture with further rules, authors, for objects from a ResourceEnvelope,
// because the author of a placement may have fewer rights than the host. An entry that authors
// exclude is an error like any invalid entry. The argument carry names parts of objects that the
// set has in addition; other captures leave them out, and [Set].Omitted lists them.
func (r Rules) CaptureFrom(ctx context.Context, src Source, selectors []Selector, authors Rules, carry ...Carry) (Set, error) {
	s, err := r.selectFrom(ctx, src, selectors, carry)
	if err != nil {
		return Set{}, err
	}
	u, err := r.unpack(s.objects, authors, cleaning{
		carryDefaulted: slices.Contains(carry, CarryDefaulted), scaled: scaledBy(s.objects), omitted: s.omitted,
	})
	if err != nil {
		return Set{}, err
	}
	if err := validateContents(u.objects); err != nil {
		return Set{}, err
	}
	set, err := NewSet(u.objects)
	if err != nil {
		return Set{}, err
	}
	set.Envelopes, set.Omitted = u.opened, s.omitted.list()
	for i := range set.Items {
		set.Items[i].Envelope = u.from[set.Items[i].object()]
	}
	if len(u.unplaced) > 0 {
		set.Unplaced = u.unplaced
		set.Digest = Digest(set.Root().Encode())
	}
	return set, nil
}

// NewSet puts objects in the order of a set (see [ID.Compare]) and in canonical form (see
// [Canonical]), and digests them. It does not clean them: call [Clean] first for objects that
// come from a cluster. An empty list gives an empty set.
//
// The error names every object without a name, every duplicate (in any version), and every object
// without a canonical form.
func NewSet(objs []*unstructured.Unstructured) (Set, error) {
	entries, err := sorted(objs)
	if err != nil {
		return Set{}, err
	}
	s := Set{Items: make([]Item, 0, len(entries)), Bodies: make([][]byte, 0, len(entries))}
	var enc encoder
	var errs []error
	for _, e := range entries {
		body, err := enc.encode(e.obj)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.Bodies = append(s.Bodies, body)
		s.Items = append(s.Items, Item{ID: e.id, Digest: Digest(body)})
	}
	if err := errors.Join(errs...); err != nil {
		return Set{}, err
	}
	s.Digest = Digest(s.Root().Encode())
	return s, nil
}

// entry is an object before it becomes an item of a set.
type entry struct {
	rank int
	id   ID
	obj  map[string]any
}

func (e entry) compare(other entry) int {
	if c := cmp.Compare(e.rank, other.rank); c != 0 {
		return c
	}
	return e.id.compareText(other.id)
}

// sorted returns the objects in the order of a set.
func sorted(objs []*unstructured.Unstructured) ([]entry, error) {
	entries := make([]entry, 0, len(objs))
	var errs []error
	var last entry
	for i, obj := range objs {
		e := entry{id: IDOf(obj)}
		if err := e.id.check(); err != nil {
			errs = append(errs, fmt.Errorf("snapshot: object %d, %s: %w", i, e.id, err))
			continue
		}
		e.obj, e.rank = obj.Object, last.rank
		if i == 0 || e.id.Kind != last.id.Kind || e.id.Group != last.id.Group {
			e.rank = rank(e.id.Group, e.id.Kind)
		}
		entries, last = append(entries, e), e
	}
	slices.SortFunc(entries, entry.compare)
	return entries, errors.Join(append(errs, duplicates(entries)...)...)
}

// duplicates returns an error for every object that occurs more than once in the sorted entries.
func duplicates(entries []entry) []error {
	var errs []error
	for i := 1; i < len(entries); i++ {
		if entries[i].id.object() == entries[i-1].id.object() {
			errs = append(errs, fmt.Errorf("snapshot: %s is there more than once; a set has every object once", entries[i].id))
		}
	}
	return errs
}
