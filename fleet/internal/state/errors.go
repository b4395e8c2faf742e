package state

import (
	"errors"
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/versioned"
)

// ErrOutdated is matched by the error of a run that was decided on another version of the placement.
var ErrOutdated = errors.New("outdated")

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
