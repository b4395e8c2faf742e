package fleet_test

import (
	"errors"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
)

// Each view reads a placement's record again, whether or not it was decoded before, so changes are
// noticed. The host may change the returned values.
func TestViewRereadsAChangedPlacement(t *testing.T) {
	w, e := declared(t, nil)
	w.capture(e, "a")
	if err := e.Placement(ep).SetIrreversible(t.Context(), 0, true, "ann"); err != nil {
		t.Fatal(err)
	}
	ask := func() (any, error) {
		v, err := e.Placement(ep).View(t.Context())
		if err != nil {
			return nil, err
		}
		items, err := v.Items(t.Context(), 0)
		return []any{v.Snapshots(), v.Irreversible(), items}, err
	}
	want, err := ask()
	if err != nil {
		t.Fatal(err)
	}

	v := viewOf(t, e, ep)
	v.Snapshots()[0].Index, v.Irreversible()[0] = 7, 7
	if got, err := ask(); err != nil || gocmp.Diff(want, got) != "" {
		t.Errorf("after a host changed what it got: %v, %v", gocmp.Diff(want, got), err)
	}
	if marked := irreversible(t, e, ep); !slices.Equal(marked, []int{0}) {
		t.Errorf("after a host changed what it got, %v are marked", marked)
	}

	edit(t, w.store, "placement/"+ep, damage)
	if got, err := ask(); !errors.Is(err, backend.ErrPermanent) {
		t.Errorf("a damaged record: %v, %v", got, err)
	}
	edit(t, w.store, "placement/"+ep, damage)
	if got, err := ask(); err != nil || gocmp.Diff(want, got) != "" {
		t.Errorf("a record that was mended: %v, %v", gocmp.Diff(want, got), err)
	}

	w.capture(e, "b")
	if all := viewOf(t, e, ep).Snapshots(); len(all) != 2 {
		t.Errorf("after another snapshot: %v", all)
	}
}
