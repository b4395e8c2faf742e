package fleet

import "time"

// UseFor lets the last forecast be used for so long.
func (r *Forecaster) UseFor(d time.Duration) { r.good = time.Now().Add(d) }
