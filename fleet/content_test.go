package fleet_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/backend"
)

// Content returns the objects that the snapshot froze, even if the source has changed since.
func TestContentOfASnapshotIsFrozen(t *testing.T) {
	w := newEngineEnv(t)
	e, ctx := w.engine(w.store, "one"), t.Context()
	if err := e.PutPlacement(ctx, tutorialPlacement()); err != nil {
		t.Fatal(err)
	}
	taken, err := e.Placement("example-placement").Capture(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.source.Put(configMap("test-cm", "later")); err != nil {
		t.Fatal(err)
	}
	set, err := viewOf(t, e, ep).Content(ctx, taken.Index)
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
	if _, err := viewOf(t, e, ep).Content(ctx, 9); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("the content of an index that is not kept: %v", err)
	}
}
