package state

import (
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// Now is the engine's clock, in the precision that runs keep.
func (st *State) Now() time.Time { return stages.At(st.cfg.Clock()).Time() }

// Here is when the engine's clock shows t, unless it jumps, in the time that
// timers go by.
func (st *State) Here(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.Now().Add(t.Sub(st.cfg.Clock().Round(0)))
}
