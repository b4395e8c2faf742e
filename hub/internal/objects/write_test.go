package objects

import (
	"errors"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/backend"
)

// A write whose object is gone has nothing left to do. A write to a kind that the API server does
// not serve has, because definitions come back with their objects.
func TestTheErrorsOfAWriteThatWasOvertaken(t *testing.T) {
	runs := schema.GroupResource{Group: "placement.kubernetes-fleet.io", Resource: "clusterstagedupdateruns"}
	unserved := apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", runs, "x", "404 page not found", 0, true)
	refused := apierrors.NewForbidden(runs, "x", errors.New("no"))
	for name, c := range map[string]struct{ err, want error }{
		"none":     {nil, nil},
		"missing":  {apierrors.NewNotFound(runs, "x"), nil},
		"unserved": {unserved, unserved},
		"changed":  {apierrors.NewConflict(runs, "x", errors.New("changed")), backend.ErrConflict},
		"exists":   {apierrors.NewAlreadyExists(runs, "x"), backend.ErrConflict},
		"refused":  {refused, refused},
	} {
		if err := Settled(c.err); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
