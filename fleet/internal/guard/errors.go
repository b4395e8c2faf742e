package guard

import (
	"errors"
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/backend"
)

// Permanent returns err as an ErrPermanent, or nil if err is nil.
func Permanent(err error) error {
	if err == nil || errors.Is(err, backend.ErrPermanent) {
		return err
	}
	return fmt.Errorf("%w: %w", backend.ErrPermanent, err)
}

// Transient reports whether err is an error of no kind that package backend defines, which may
// disappear without a change.
func Transient(err error) bool {
	return err != nil && !errors.Is(err, backend.ErrNotFound) && !errors.Is(err, backend.ErrConflict) &&
		!errors.Is(err, backend.ErrFenced) && !errors.Is(err, backend.ErrPermanent)
}

// ReasonOf returns the text of an error as a reason to record, without its kind, and clipped.
func ReasonOf(err error) string {
	return Clip(strings.TrimSuffix(err.Error(), ": "+backend.ErrPermanent.Error()))
}

// Clip bounds a text from outside to 256 characters and replaces its control characters by spaces.
func Clip(s string) string {
	const most = 256
	out := make([]rune, 0, min(len(s), most))
	for _, r := range s {
		if r < ' ' || r == 0x7f {
			r = ' '
		}
		if out = append(out, r); len(out) == most {
			break
		}
	}
	return string(out)
}
