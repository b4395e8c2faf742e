package drift

import (
	"math"
	"time"
)

const (
	// FightHalfLife is how long it takes until a return counts half.
	FightHalfLife = time.Hour
	// FightScore is the score from which on another writer is assumed: six returns in a quarter of an hour
	// each, or five within minutes.
	FightScore = 4
)

// Fight finds out whether a difference comes back each time it is put back,
// because a controller or a person wants something else. There is one for each
// thing that is put back: an object, or all of a cluster. The zero value is
// ready. It reads no clock and is used by one goroutine at a time.
type Fight struct {
	score   float64
	at      time.Time
	putBack bool
}

// PutBack notes that the hub's value was applied again.
func (f *Fight) PutBack() { f.putBack = true }

// Drifted notes that there is a difference. Where it was put back before, it has
// come back: its score, which halves every [FightHalfLife], grows by one. It
// returns the score, and whether that is a fight, at [FightScore] or more; then
// an ignore rule, or a word with the other side, is better than another apply.
func (f *Fight) Drifted(now time.Time) (score float64, fighting bool) {
	f.score *= decay(now.Sub(f.at))
	if f.putBack {
		f.score++
	}
	f.putBack, f.at = false, now
	return f.score, f.score >= FightScore
}

// decay is 1 where a clock went back.
func decay(passed time.Duration) float64 {
	return math.Exp2(-float64(max(passed, 0)) / float64(FightHalfLife))
}
