package overrides

import "testing"

// TestContentsThatNoSnapshotHasAreForgotten: the cache holds only the contents in existing
// snapshots.
func TestContentsThatNoSnapshotHasAreForgotten(t *testing.T) {
	var r Reconciler
	r.contents.Store("of the latest snapshot", []string{"one"})
	r.contents.Store("of a snapshot that is gone", []string{"one", "two"})
	r.keepContents(map[string]bool{"of the latest snapshot": true, "": true})
	for digest, want := range map[string]bool{"of the latest snapshot": true, "of a snapshot that is gone": false} {
		if _, got := r.contents.Load(digest); got != want {
			t.Errorf("%q is kept: %t", digest, got)
		}
	}
}
