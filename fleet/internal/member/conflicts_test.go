package member

import (
	"errors"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
)

// TestConflictsAreRefused checks that an object is not applied with RefuseConflicts if another
// manager has one of its fields with another value, and that the error names that manager. The
// other objects are applied, and this object is applied once the field has the same value.
func TestConflictsAreRefused(t *testing.T) {
	k := newKit(t)
	k.exists(configMap("default", "x", "theirs"))
	a := k.want("C", 1, "r1")
	a.Strategy.RefuseConflicts = true
	var failing []apply.FailingObject
	u := k.leader(nil)
	u.noted = func(_ *Assignment, _ bool, objects []apply.FailingObject) { failing = objects }
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
