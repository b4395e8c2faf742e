package fleet

import "github.com/slipway-dev/slipway/fleet/internal/state"

// RollbackName is the name of the nth run, from 1, that rolls back what another one brought: that of the
// other one with "-rollback" behind it, and the number from the second on. Where that is longer than 63
// characters, the other one's is cut, and 8 characters of its digest distinguish it from others with the same
// beginning.
func RollbackName(run string, n int) string { return state.DefaultRollbackName(run, n) }
