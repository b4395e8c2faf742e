package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// New returns the snapshot of a set for a placement and an index. overridesDigest is the digest of
// the overrides at that moment, empty if there are none. Digest is the sha256 over the two digests,
// each with its length before it: equal content has the same Digest under any placement, index and
// time.
func New(placement string, index int, set Set, overridesDigest string, at time.Time) Snapshot {
	s := Snapshot{
		Placement: placement,
		Index:     index,
		Set:       set.Digest,
		Overrides: overridesDigest,
		Objects:   len(set.Items),
		Envelopes: set.Envelopes,
		Unplaced:  set.Unplaced,
		Omitted:   set.Omitted,
		TakenAt:   at,
	}
	if origins := set.Origins(); origins != nil {
		s.Origins = Digest(origins)
	}
	s.Digest = s.digest()
	return s
}

// digest hashes a unique prefix first, so that no other document has the same digest.
func (s Snapshot) digest() string {
	return Digest(appendFields(nil, "slipway snapshot 1", s.Set, s.Overrides))
}

// Verify returns an error unless the snapshot is complete: it must have a placement, an index and a
// count of at least 0, digests in the form of a sha256, and a Digest that covers Set and Overrides.
// If Digest does not match, the error is a [*DigestError]. It does not check the objects behind
// Set; see the function [Verify].
func (s Snapshot) Verify() error {
	switch {
	case s.Placement == "":
		return fmt.Errorf("snapshot: index %d: placement is missing", s.Index)
	case s.Index < 0:
		return fmt.Errorf("snapshot: %s: index must be 0 or more", s.Name())
	case s.Repeats < 0 || s.Repeats > s.Index:
		return fmt.Errorf("snapshot: %s: repeats must be 0 to %d", s.Name(), s.Index)
	case s.Objects < 0:
		return fmt.Errorf("snapshot: %s: objects must be 0 or more", s.Name())
	case !isDigest(s.Set):
		return fmt.Errorf("snapshot: %s: set must be a sha256 in lower-case hex", s.Name())
	case s.Overrides != "" && !isDigest(s.Overrides):
		return fmt.Errorf("snapshot: %s: overrides must be empty or a sha256 in lower-case hex", s.Name())
	case s.Origins != "" && !isDigest(s.Origins):
		return fmt.Errorf("snapshot: %s: origins must be empty or a sha256 in lower-case hex", s.Name())
	}
	if got := s.digest(); got != s.Digest {
		return fmt.Errorf("snapshot: %s: %w", s.Name(), &DigestError{Want: s.Digest, Got: got})
	}
	return nil
}

// DefaultLimit is the number of snapshots that are kept for a placement without its own limit.
const DefaultLimit = 10

// Retain returns, ascending, the indexes of the snapshots of one placement that can be deleted.
// It keeps the newest snapshots, as many as limit says. It also keeps every snapshot in needed,
// however old, because a run, a cluster or a rollback refers to it. A limit of 0 or less is
// [DefaultLimit]. The history may be in any order.
func Retain(history []Snapshot, limit int, needed map[int]bool) (drop []int) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	indexes := make([]int, len(history))
	for i, s := range history {
		indexes[i] = s.Index
	}
	slices.SortFunc(indexes, func(a, b int) int { return cmp.Compare(b, a) })
	indexes = slices.Compact(indexes)
	for _, index := range slices.Backward(indexes[min(limit, len(indexes)):]) {
		if !needed[index] {
			drop = append(drop, index)
		}
	}
	return drop
}
