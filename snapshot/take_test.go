package snapshot_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/snapshot"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestNew(t *testing.T) {
	set := mustSet(t, many(3)...)
	overrides := snapshot.Digest([]byte("overrides"))
	s := snapshot.New("example-placement", 1, set, overrides, noon)
	want := snapshot.Snapshot{
		Placement: "example-placement", Index: 1, Set: set.Digest, Overrides: overrides, Objects: 3, TakenAt: noon,
		Digest: "647dde856cc76554b8d54d660bfe4df7b752040c3548db01692fd57153a8f7fa",
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("New (-want +got):\n%s", diff)
	}
	if s.Name() != "example-placement-1-snapshot" {
		t.Errorf("Name = %s", s.Name())
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	same := snapshot.New("other", 7, set, overrides, noon.Add(time.Hour))
	plain := snapshot.New("example-placement", 1, set, "", noon)
	if same.Digest != s.Digest || plain.Digest == s.Digest || plain.Verify() != nil {
		t.Error("the digest must cover the set and the overrides, and nothing else")
	}
}

func TestSnapshotVerifyErrors(t *testing.T) {
	good := snapshot.New("p", 0, mustSet(t), "", noon)
	other := snapshot.Digest([]byte("other"))
	tests := []struct {
		name string
		edit func(*snapshot.Snapshot)
		want string
	}{
		{"no placement", func(s *snapshot.Snapshot) { s.Placement = "" }, "placement is missing"},
		{"negative index", func(s *snapshot.Snapshot) { s.Index = -1 }, "index must be"},
		{"negative count", func(s *snapshot.Snapshot) { s.Objects = -1 }, "objects must be"},
		{"no set", func(s *snapshot.Snapshot) { s.Set = "" }, "set must be"},
		{"bad overrides", func(s *snapshot.Snapshot) { s.Overrides = "x" }, "overrides must be"},
		{"another set", func(s *snapshot.Snapshot) { s.Set = other }, "p-0-snapshot: snapshot: content has the digest"},
		{"other overrides", func(s *snapshot.Snapshot) { s.Overrides = other }, "content has the digest"},
		{"set and overrides swapped", func(s *snapshot.Snapshot) { s.Set, s.Overrides = other, s.Set }, "content has the digest"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := good
			tt.edit(&s)
			err := s.Verify()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want one with %q", err, tt.want)
			}
			var digest *snapshot.DigestError
			if errors.As(err, &digest) != strings.Contains(tt.want, "digest") {
				t.Errorf("error %v has the wrong type", err)
			}
		})
	}
}

func TestRetain(t *testing.T) {
	tests := []struct {
		name    string
		indexes []int
		limit   int
		needed  []int
		want    []int
	}{
		{"fewer than the limit", []int{0, 1, 2}, 3, nil, nil},
		{"the oldest go", []int{0, 1, 2, 3, 4}, 2, nil, []int{0, 1, 2}},
		{"in any order", []int{3, 0, 4, 1, 2}, 2, nil, []int{0, 1, 2}},
		{"the latest always stays", []int{7, 8}, 1, nil, []int{7}},
		{"needed ones stay beyond the limit", []int{0, 1, 2, 3, 4}, 2, []int{0, 2}, []int{1}},
		{"needed ones among the newest take no place", []int{0, 1, 2, 3, 4}, 2, []int{4}, []int{0, 1, 2}},
		{"no limit is ten", []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 0, nil, []int{0, 1}},
		{"a negative limit is ten", []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, -1, nil, []int{0}},
		{"gaps", []int{2, 9, 40}, 1, []int{9}, []int{2}},
		{"nothing", nil, 5, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var history []snapshot.Snapshot
			for _, index := range tt.indexes {
				history = append(history, snapshot.Snapshot{Index: index})
			}
			needed := map[int]bool{}
			for _, index := range tt.needed {
				needed[index] = true
			}
			if got := snapshot.Retain(history, tt.limit, needed); !slices.Equal(got, tt.want) {
				t.Errorf("Retain = %v, want %v", got, tt.want)
			}
		})
	}
}
