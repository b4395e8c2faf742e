package member

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
)

// TestExclusiveKeepsToItself checks that an exclusive placement never applies an object of another
// placement, and takes over an object with an owner only if co-ownership is allowed. The other
// objects are applied.
func TestExclusiveKeepsToItself(t *testing.T) {
	for _, c := range []struct {
		name              string
		exclusive, allows bool
		other, owner      bool
		refused           string
		a, x              string
	}{
		{name: "another placement's", other: true, refused: "applied by placement shop already", x: "theirs"},
		{name: "another placement's, allowed", allows: true, other: true, a: "1+ours", x: "ours+ours"},
		{
			name: "another placement's, exclusive", exclusive: true, other: true,
			refused: "applied by placement shop already", a: "1+ours", x: "theirs",
		},
		{
			name: "another placement's, exclusive and allowed", exclusive: true, allows: true, other: true,
			refused: "take it out of one of them: ", a: "1+ours", x: "theirs",
		},
		{name: "an owner's", owner: true, a: "1+ours", x: "ours+ours"},
		{name: "an owner's, exclusive", exclusive: true, owner: true, refused: "Tenant t owns it", a: "1+ours", x: "theirs"},
		{name: "an owner's, exclusive and allowed", exclusive: true, allows: true, owner: true, a: "1+ours", x: "ours+ours"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKit(t)
			x := configMap("default", "x", "theirs")
			if c.other {
				x.SetAnnotations(map[string]string{digestMark + "shop": "d"})
			}
			if c.owner {
				x.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Tenant", Name: "t", UID: "u"}})
			}
			k.exists(x)
			a := k.want("C", 1, "r1")
			a.Exclusive, a.AllowCoOwnership = c.exclusive, c.allows
			var failing []apply.FailingObject
			u := k.leader(nil)
			u.noted = func(_ *Assignment, _ bool, objects []apply.FailingObject) { failing = objects }
			_, err := u.Update(t.Context(), a)
			switch {
			case c.refused == "" && err != nil:
				t.Error(err)
			case c.refused != "" && (!errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), c.refused)):
				t.Errorf("%v, want %q", err, c.refused)
			case c.refused != "" && (len(failing) != 1 || failing[0].Name != "x" || failing[0].Reason != apply.HeldForeign):
				t.Errorf("failing: %v", failing)
			}
			got := k.objects()
			if got["ConfigMap/app/a"] != c.a || got["ConfigMap/default/x"] != c.x {
				t.Errorf("%v", got)
			}
		})
	}
}
