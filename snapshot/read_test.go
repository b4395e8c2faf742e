package snapshot_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/snapshot"
)

// stored keeps documents under their digests.
type stored map[string][]byte

func (s stored) put(body []byte) string {
	digest := snapshot.Digest(body)
	s[digest] = body
	return digest
}

var errGone = errors.New("gone")

func (s stored) get(digest string) ([]byte, error) {
	body, ok := s[digest]
	if !ok {
		return nil, errGone
	}
	return body, nil
}

func store(set snapshot.Set) stored {
	s := stored{}
	s.put(set.Root().Encode())
	for _, p := range set.Pages() {
		s.put(p.Encode())
	}
	return s
}

func TestReadItems(t *testing.T) {
	for _, n := range []int{0, 1, 1000} {
		set := mustSet(t, many(n)...)
		got, err := snapshot.ReadItems(set.Digest, store(set).get)
		if err != nil || !slices.Equal(got, set.Items) {
			t.Errorf("%d items: read %d, %v", n, len(got), err)
		}
	}
}

func TestReadItemsErrors(t *testing.T) {
	set := mustSet(t, many(1000)...)
	root := set.Root()
	swapped := snapshot.Root{Format: 1, Objects: root.Objects, Pages: slices.Clone(root.Pages)}
	slices.Reverse(swapped.Pages)
	short := snapshot.Root{Format: 1, Objects: root.Objects - 1, Pages: root.Pages}
	s := store(set)
	tests := []struct{ name, digest, want string }{
		{"pages out of order", s.put(swapped.Encode()), "out of order"},
		{"wrong count", s.put(short.Encode()), "objects: 1000 are on the pages, want 999"},
		{"a page for a root", root.Pages[0], "unknown field"},
		{"nothing there", strings.Repeat("0", 64), "gone"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := snapshot.ReadItems(tt.digest, s.get); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	if _, err := snapshot.ReadItems(strings.Repeat("0", 64), s.get); !errors.Is(err, errGone) {
		t.Errorf("error %v does not wrap the store's", err)
	}
}

// TestT5TamperedStore replaces each stored document with another valid one.
func TestT5TamperedStore(t *testing.T) {
	set, other := mustSet(t, many(1000)...), mustSet(t, ordered()...)
	good := store(set)
	for digest := range good {
		bad := store(set)
		bad[digest] = other.Pages()[0].Encode()
		if digest == set.Digest {
			bad[digest] = other.Root().Encode()
		}
		var wrong *snapshot.DigestError
		if _, err := snapshot.ReadItems(set.Digest, bad.get); !errors.As(err, &wrong) || wrong.Want != digest {
			t.Errorf("document %s swapped: error %v, want a DigestError", digest, err)
		}
	}
}
