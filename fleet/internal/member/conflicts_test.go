package member

import (
	"errors"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/backend"
)

// TestConflictsAreRefused: with RefuseConflicts an object of which another manager has a field at another value is not
// applied, and the error names that manager; the other objects are, and so is that one once the field has the same value.
func TestConflictsAreRefused(t *testing.T) {
	k := newKit(t)
	k.exists(configMap("default", "x", "theirs"))
	a := k.want("C", 1, "r1")
	a.Strategy.RefuseConflicts = true
	var failing []FailingObject
	u := k.leader(nil)
	u.noted = func(_ *Assignment, _ bool, objects []FailingObject) { failing = objects }
	if _, err := u.Update(t.Context(), a); !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), `"editor"`) {
		t.Errorf("%v", err)
	}
	if len(failing) != 1 || failing[0].Name != "x" {
		t.Errorf("failing: %v", failing)
	}
	if got := k.objects(); got["ConfigMap/app/a"] != "1+ours" || got["ConfigMap/default/x"] != "theirs" {
		t.Errorf("%v", got)
	}
	k.exists(configMap("default", "x", "ours"))
	k.must(u, a)
	if got := k.objects(); got["ConfigMap/default/x"] != "ours+ours" {
		t.Errorf("%v", got)
	}
}

// TestTheMarksOfAPlacementAreNoConflict: a leader's mark on an object is a field of the placement's own, so the next leader
// applies the object over it.
func TestTheMarksOfAPlacementAreNoConflict(t *testing.T) {
	k := newKit(t)
	k.place("A", 1, "r0")
	marked := mark{epoch: 2}.on(configMapID("app", "a"), kitPlacement)
	if _, err := k.member.Conn().Apply(t.Context(), marked, backend.ApplyOptions{Manager: marker(kitPlacement)}); err != nil {
		t.Fatal(err)
	}
	a := k.want("B", 3, "r1")
	a.Strategy.RefuseConflicts = true
	k.must(k.leader(nil), a)
	if got := k.objects(); got["ConfigMap/app/a"] != "2+ours" {
		t.Errorf("%v", got)
	}
}
