package plan

import "github.com/slipway-dev/slipway/internal/versioned"

// FormatError refuses a stored record that a newer version wrote. Nothing was read from
// it, and it must not be overwritten.
type FormatError = versioned.FormatError
