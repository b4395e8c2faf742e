package fleet_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// The items of two snapshots show their differences. The error for an unknown index names the kept
// indexes.
func TestItemsOfTwoSnapshotsCompare(t *testing.T) {
	w := newEngineEnv(t)
	e, ctx := w.engine(w.store, "one"), t.Context()
	if err := e.PutPlacement(ctx, tutorialPlacement()); err != nil {
		t.Fatal(err)
	}
	var items [2][]snapshot.Item
	for i, value := range []string{"value1", "value2"} {
		if err := w.source.Put(configMap("test-cm", value)); err != nil {
			t.Fatal(err)
		}
		s, err := e.Placement("example-placement").Capture(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if items[i], err = viewOf(t, e, ep).Items(ctx, s.Index); err != nil {
			t.Fatal(err)
		}
	}
	want := snapshot.Changes{Changed: []snapshot.ID{{Version: "v1", Kind: "ConfigMap", Namespace: "test-namespace", Name: "test-cm"}}}
	if diff := cmp.Diff(want, snapshot.Compare(items[0], items[1])); diff != "" {
		t.Error(diff)
	}
	if _, err := viewOf(t, e, ep).Items(ctx, 7); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("index 7: %v", err)
	}
	names, err := e.Placements(ctx)
	if err != nil || !slices.Equal(names, []string{"example-placement"}) {
		t.Errorf("placements %v, %v", names, err)
	}
}
