package fleet

import (
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// now is the engine's clock, in the precision that runs keep.
func (e *Engine) now() time.Time { return stages.At(e.cfg.Clock()).Time() }

// here is when the engine's clock shows t, unless it jumps, in the time that
// timers go by.
func (e *Engine) here(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.Now().Add(t.Sub(e.cfg.Clock().Round(0)))
}
