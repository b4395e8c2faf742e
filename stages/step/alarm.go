package step

import "github.com/slipway-dev/slipway/stages"

// alarm keeps the earliest moment after now.
type alarm struct{ now, first stages.Instant }

func (a *alarm) at(t stages.Instant) {
	if t > a.now && (a.first == 0 || t < a.first) {
		a.first = t
	}
}
