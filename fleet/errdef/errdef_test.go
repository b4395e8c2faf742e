package errdef

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/backend"
)

func TestAnErrorMatchesItsCauseAndNoOther(t *testing.T) {
	causes := []error{ErrNotFound, ErrDeleting, ErrPlanChanged, backend.ErrNotFound, backend.ErrConflict, backend.ErrPermanent, backend.ErrFenced}
	for _, c := range []struct {
		err  error
		text string
		is   []error
	}{
		{NotFound(Cap, "room", "declare it"), "cap room does not exist: declare it", []error{ErrNotFound, backend.ErrNotFound}},
		{NotFound(Cap, "room", ""), "cap room does not exist", []error{ErrNotFound, backend.ErrNotFound}},
		{Replaced("r"), "run r does not exist: it was deleted, and another run has its name", []error{ErrNotFound, backend.ErrNotFound}},
		{
			Deleting("shop", time.Unix(0, 0).UTC()), "placement shop is being deleted since 1970-01-01T00:00:00Z: declare it again after the end of the deletion",
			[]error{ErrDeleting, backend.ErrPermanent},
		},
		{PlanChanged("r", "a", "b"), "run r would have plan b instead of the requested plan a: preview it again", []error{ErrPlanChanged}},
		{
			OtherOwner("shop", "", "me"), `placement shop belongs to no owner and not to owner "me": delete it first, or choose another name`,
			[]error{backend.ErrConflict},
		},
	} {
		if c.err.Error() != c.text {
			t.Errorf("%q, want %q", c.err, c.text)
		}
		wrapped := fmt.Errorf("w: %w", c.err)
		for _, cause := range causes {
			want := slices.Contains(c.is, cause)
			if errors.Is(wrapped, cause) != want {
				t.Errorf("%v: is %v: %v", c.err, cause, !want)
			}
		}
	}
}

func TestIsMissing(t *testing.T) {
	err := fmt.Errorf("w: %w", NotFound(Run, "r", ""))
	if !IsMissing(err, Run) || IsMissing(err, Placement) || IsMissing(Deleting("p", time.Time{}), Placement) || IsMissing(backend.ErrNotFound, Run) || IsMissing(nil, Run) {
		t.Error("a kind is missing that is not, or the other way around")
	}
}
