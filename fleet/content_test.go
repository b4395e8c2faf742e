package fleet_test

import (
	"strings"
	"testing"
)

// Content has the objects of a snapshot as they were frozen, whatever the source has by now.
func TestTheContentOfASnapshotIsWhatWasFrozen(t *testing.T) {
	w := newWorld(t)
	e, ctx := w.engine(w.store, "one"), t.Context()
	if err := e.PutPlacement(ctx, tutorialPlacement()); err != nil {
		t.Fatal(err)
	}
	taken, err := e.Capture(ctx, "example-placement")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.source.Put(configMap("test-cm", "later")); err != nil {
		t.Fatal(err)
	}
	set, err := e.Content(ctx, "example-placement", taken.Index)
	if err != nil {
		t.Fatal(err)
	}
	if set.Digest != taken.Set || len(set.Bodies) != taken.Objects {
		t.Errorf("set %s of %d objects, the snapshot says %s of %d", set.Digest, len(set.Bodies), taken.Set, taken.Objects)
	}
	for _, body := range set.Bodies {
		if strings.Contains(string(body), "later") {
			t.Errorf("the source's value got in: %s", body)
		}
	}
	if _, err := e.Content(ctx, "example-placement", 9); err == nil {
		t.Error("an index that is not kept has a content")
	}
}
