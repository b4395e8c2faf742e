package runner

import (
	"slices"
	"time"
)

// A driver batches observations for at most savesWorth times the fastest recent save, because one
// slow save on a busy machine does not make a store slow. It does not batch at all for less than
// batchShortest, and never for more than batchLongest.
const (
	savesWorth    = 4
	batchShortest = 4 * time.Millisecond
	batchLongest  = 100 * time.Millisecond
)

// pace measures the saves of a driver.
type pace struct {
	// last are the durations of the last saves, saves is the number of all saves.
	last  [4]time.Duration
	saves int
}

func (p *pace) add(took time.Duration) {
	p.last[p.saves%len(p.last)] = took
	p.saves++
}

// batch returns how long observations may wait for others, so that one save takes them all. It is
// zero if the store is fast.
func (p *pace) batch() time.Duration {
	longest := min(savesWorth*slices.Min(p.last[:]), batchLongest)
	if longest < batchShortest {
		return 0
	}
	return longest
}
