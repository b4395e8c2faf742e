package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Capture freezes what the selectors pick from src: [Select], then [Clean], then
// [NewSet]. The same objects give the same set, in whatever order src yields
// them.
//
// A ClusterResourceEnvelope or ResourceEnvelope that is picked stands for the
// objects in it, which take effect where they are placed and not on the hub: the
// set has them and not the envelope. An envelope carries 1 to [MaxEnveloped]
// objects in data, under names of any kind; a ClusterResourceEnvelope such as are
// in no namespace, a ResourceEnvelope those of its own. They are taken as they are
// but for their status and for what a server writes into metadata. An object of
// the wrong scope, without a name, or that is there already, selected or in another
// envelope, is in [Set.Unplaced], and the others are in the set. The error names every
// entry that is wrong otherwise: no object, or never placed (see [Propagates]). An object that no API server can read is an error too, wherever it came
// from: see [ValidateContent].
func Capture(ctx context.Context, src Source, selectors []Selector) (Set, error) {
	return Rules{}.Capture(ctx, src, selectors)
}

// Capture is the function [Capture] without what the rules exclude. In an envelope
// that is an error, because it was put there to be placed.
func (r Rules) Capture(ctx context.Context, src Source, selectors []Selector) (Set, error) {
	return r.CaptureFrom(ctx, src, selectors, Rules{})
}

// CaptureFrom is Capture where what a ResourceEnvelope brings obeys authors, too: who
// selects it may have fewer rights than the host. An entry that authors exclude is an error, as any that is wrong. The set has what carry names,
// too, which is left out otherwise; [Set].Omitted says what is.
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

// NewSet puts objects in the order of a set (see [ID.Compare]) and in
// canonical form (see [Canonical]), and digests them. The objects are taken as
// they are: call [Clean] first for objects that come from a cluster. No objects
// make an empty set.
//
// The error names every object that has no name, that is there twice (in
// whatever version) or that has no canonical form.
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

// entry is an object on its way into a set.
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

// duplicates names every object that is in the sorted entries more than once.
func duplicates(entries []entry) []error {
	var errs []error
	for i := 1; i < len(entries); i++ {
		if entries[i].id.object() == entries[i-1].id.object() {
			errs = append(errs, fmt.Errorf("snapshot: %s is there more than once; a set has every object once", entries[i].id))
		}
	}
	return errs
}
