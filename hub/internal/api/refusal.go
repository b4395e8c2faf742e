package api

import (
	"errors"
	"fmt"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/formats/problem"
	"github.com/slipway-dev/slipway/stages"
)

// IsRefusal reports whether an error lasts until an object or a document changes, so that a retry
// does not help.
func IsRefusal(err error) bool {
	var rejected *stages.RejectedError
	if errdef.IsMissing(err, errdef.Snapshot) {
		return true // the snapshot of the index does not exist
	}
	return errors.As(err, &rejected) || errors.Is(err, backend.ErrPermanent) || isInvalid(err)
}

// Refused marks an error as permanent: a retry does not help.
func Refused(err error) error { return fmt.Errorf("%w%w", err, quiet{backend.ErrPermanent}) }

// quiet is an error that adds no text to a message.
type quiet struct{ error }

func (quiet) Error() string { return "" }

func (q quiet) Unwrap() error { return q.error }

// isInvalid reports whether an error is about the content of a document.
func isInvalid(err error) bool {
	var one *field.Error
	var several utilerrors.Aggregate
	var problems problem.List
	return errors.As(err, &one) || errors.As(err, &several) || errors.As(err, &problems)
}
