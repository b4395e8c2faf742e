package drift

import (
	"math"
	"time"
)

const (
	// FightHalfLife is the time after which a returned difference contributes only half to the score.
	FightHalfLife = time.Hour
	// FightScore is the score at which another writer is assumed: six returns a quarter
	// of an hour apart, or five within minutes.
	FightScore = 4
)

// Fight detects a difference that returns each time it is corrected,
// because a controller or a person wants another value. Use one Fight for each
// unit that is corrected: an object, or a whole cluster. The zero value is
// ready to use. A Fight reads no clock and must be used by one goroutine at a time.
type Fight struct {
	score    float64
	at       time.Time
	restored bool
}

// Restored records that the hub's value was applied again.
func (f *Fight) Restored() { f.restored = true }

// Drifted records a difference. If Restored was called since the last call, the
// difference has returned and the score grows by one. The score halves every
// [FightHalfLife]. Drifted returns the score, and reports a fight at [FightScore] or
// more. In a fight another apply does not help: add an ignore rule, or talk to the owner of the
// other writer.
func (f *Fight) Drifted(now time.Time) (score float64, fighting bool) {
	f.score *= decay(now.Sub(f.at))
	if f.restored {
		f.score++
	}
	f.restored, f.at = false, now
	return f.score, f.score >= FightScore
}

// decay returns the factor by which the score shrinks; it is 1 if the clock went back.
func decay(passed time.Duration) float64 {
	return math.Exp2(-float64(max(passed, 0)) / float64(FightHalfLife))
}
