package guard

import (
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
)

// Permanent makes err, if there is one, ErrPermanent.
func Permanent(err error) error {
	if err == nil || errors.Is(err, backend.ErrPermanent) {
		return err
	}
	return fmt.Errorf("%w: %w", backend.ErrPermanent, err)
}

// Transient reports whether err is none of the kinds that say what is wrong, and so may go away by itself.
func Transient(err error) bool {
	return err != nil && !errors.Is(err, backend.ErrNotFound) && !errors.Is(err, backend.ErrConflict) &&
		!errors.Is(err, backend.ErrFenced) && !errors.Is(err, backend.ErrPermanent)
}

// Clip bounds a text that comes from outside and takes control characters out
// of it.
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
