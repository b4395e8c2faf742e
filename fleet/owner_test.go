package fleet_test

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
)

// wantOwnerError checks that an error names the owner of the tutorial's placement and the expected
// owner.
func wantOwnerError(t *testing.T, what string, err error, want, have string) {
	t.Helper()
	text := "placement " + ep + " belongs to " + ownerText(have) + " and not to " + ownerText(want) + ": delete it first, or choose another name"
	if !errors.Is(err, backend.ErrConflict) || err.Error() != text {
		t.Errorf("%s: %v, want %s", what, err, text)
	}
}

func ownerText(owner string) string {
	if owner == "" {
		return "no owner"
	}
	return "owner " + strconv.Quote(owner)
}

// A deletion that names an owner deletes no placement of another owner, even if the engine has seen
// the placement with the named owner before. Without an owner it deletes any placement.
func TestADeletionOfAnotherOwnersPlacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := rolledOut(t, func(p *fleet.Placement) { p.Owner = "one" })
		defer stop()
		for _, owner := range []string{"two", ""} {
			wantOwnerError(t, "a deletion", e.Placement(ep).Delete(t.Context(), fleet.DeleteOptions{Owner: &owner}), owner, "one")
		}
		if _, err := e.Placement(ep).Deletion(t.Context()); !errors.Is(err, backend.ErrNotFound) {
			t.Fatalf("the placement is being deleted: %v", err)
		}
		one, two := "one", "two"
		placed := must(e.Placement(ep).Get(t.Context()))(t)
		late := w.engine(w.store, "late")
		if _, err := late.Placement(ep).Capture(t.Context()); err != nil { // the late engine keeps the record that it read
			t.Fatal(err)
		}
		deleteAndWait(t, e, fleet.DeleteOptions{Owner: &one})
		if err := e.Placement(ep).Delete(t.Context(), fleet.DeleteOptions{Owner: &one}); err != nil {
			t.Errorf("a deletion of what the owner has deleted: %v", err)
		}
		if err := e.Placement(ep).Delete(t.Context(), fleet.DeleteOptions{Owner: &two}); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("a deletion of what another owner has deleted: %v", err)
		}
		placed.Owner = "two"
		if err := e.PutPlacement(t.Context(), placed); err != nil {
			t.Fatal(err)
		}
		wantOwnerError(t, "a late deletion", late.Placement(ep).Delete(t.Context(), fleet.DeleteOptions{Owner: &one}), "one", "two")
		deleteAndWait(t, e, fleet.DeleteOptions{})
		w.wantErased()
	})
}

// A placement keeps its owner: another owner cannot declare the name, and the owner can change
// everything else.
func TestAPlacementKeepsItsOwner(t *testing.T) {
	for _, owner := range []string{"", "one"} {
		_, e := declared(t, func(p *fleet.Placement) { p.Owner = owner })
		p := must(e.Placement(ep).Get(t.Context()))(t)
		p.HistoryLimit = 3
		if err := e.PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		p.Owner = "two"
		wantOwnerError(t, "a declaration", e.PutPlacement(t.Context(), p), "two", owner)
		if got := must(e.Placement(ep).Get(t.Context()))(t); got.Owner != owner || got.HistoryLimit != 3 {
			t.Errorf("the placement has owner %q, and keeps %d snapshots", got.Owner, got.HistoryLimit)
		}
	}
}
