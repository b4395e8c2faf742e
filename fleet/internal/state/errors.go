package state

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/versioned"
)

// ErrDeleting is matched by the error of every operation that a placement refuses while it is being deleted.
var ErrDeleting = errors.New("the placement is being deleted")

// ErrOutdated is matched by the error of a run that was decided on another version of the placement.
var ErrOutdated = errors.New("outdated")

// DeletingError says that a placement is being deleted. It matches [ErrDeleting]
// and backend.ErrPermanent.
type DeletingError struct {
	Placement string
	Since     time.Time
}

func (e *DeletingError) Error() string {
	return fmt.Sprintf("placement %s is being deleted since %s: declare it again once it is gone, Deletion tells", e.Placement, e.Since.Format(time.RFC3339))
}

// Is makes the error ErrDeleting and backend.ErrPermanent.
func (e *DeletingError) Is(target error) bool {
	return target == ErrDeleting || target == backend.ErrPermanent
}

// OwnerError says that a placement has another owner than the caller named. It matches backend.ErrConflict.
type OwnerError struct {
	Placement  string
	Want, Have string
}

func (e *OwnerError) Error() string {
	return fmt.Sprintf("placement %s belongs to %s and not to %s: delete it first, or choose another name", e.Placement, ownerText(e.Have), ownerText(e.Want))
}

// Is makes the error backend.ErrConflict.
func (e *OwnerError) Is(target error) bool { return target == backend.ErrConflict }

func ownerText(owner string) string {
	if owner == "" {
		return "no owner"
	}
	return "owner " + strconv.Quote(owner)
}

// CheckOwner returns an OwnerError if a placement has another owner than want.
func CheckOwner(placement, have, want string) error {
	if have == want {
		return nil
	}
	return &OwnerError{Placement: placement, Want: want, Have: have}
}

// NotFoundError says that a host named something that does not exist.
type NotFoundError struct {
	// Kind is placement, run, snapshot, selection, deletion, cluster, request or cap.
	Kind string
	Name string
	// Hint says what would be right.
	Hint string
}

func (e *NotFoundError) Error() string {
	s := e.Kind + " " + e.Name + " does not exist"
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

// Replaced says that a run was deleted, and that another one has its name.
func Replaced(run string) error {
	return &NotFoundError{Kind: "run", Name: run, Hint: "it was deleted, and another one has its name"}
}

// Is makes the error backend.ErrNotFound.
func (e *NotFoundError) Is(target error) bool { return target == backend.ErrNotFound }

// PermanentIfGone makes that a page is gone which a record names no reason to
// believe that the run is.
func PermanentIfGone(err error) error {
	if !IsNotFound(err) {
		return err
	}
	return fmt.Errorf("%w: %s", backend.ErrPermanent, err.Error())
}

// ReasonOf returns the text of an error as a reason to record: without its kind, and clipped.
func ReasonOf(err error) string {
	text := strings.TrimSuffix(err.Error(), ": "+backend.ErrPermanent.Error())
	return guard.Clip(text)
}

// IsLasting reports whether an error of a record will not go away by itself.
func IsLasting(err error) bool {
	newer := (*versioned.FormatError)(nil)
	return IsNotFound(err) || errors.Is(err, backend.ErrPermanent) || errors.As(err, &newer)
}

// IsNotFound reports whether an error says that a record does not exist.
func IsNotFound(err error) bool { return errors.Is(err, backend.ErrNotFound) }
