package state

import (
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/versioned"
)

// ErrOutdated matches the error of a run that was decided on another version of the placement.
var ErrOutdated = errors.New("outdated")

// PermanentIfGone turns the error of a missing page into a permanent error, so that the caller does
// not take the run for missing.
func PermanentIfGone(err error) error {
	if !IsNotFound(err) {
		return err
	}
	return fmt.Errorf("%w: %s", backend.ErrPermanent, err.Error())
}

// IsLasting reports whether an error of a record is permanent, so that a retry cannot succeed.
func IsLasting(err error) bool {
	newer := (*versioned.FormatError)(nil)
	return IsNotFound(err) || errors.Is(err, backend.ErrPermanent) || errors.As(err, &newer)
}

// IsNotFound reports whether an error means that a record does not exist.
func IsNotFound(err error) bool { return errors.Is(err, backend.ErrNotFound) }
