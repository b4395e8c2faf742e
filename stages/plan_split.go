package stages

import (
	"runtime"
	"sync"
)

// planSplitFrom is how many clusters a plan has for which its work is divided
// among processors. It takes a few milliseconds with fewer.
const planSplitFrom = 1 << 15

// planParts is into how many parts the work on n clusters is divided.
func planParts(n int) int {
	if n < planSplitFrom {
		return 1
	}
	return min(runtime.GOMAXPROCS(0), n)
}

// planSplit divides n things, in their order, into parts and calls do for each,
// at the same time, with its number and bounds. It returns when all of them have
// been done.
func planSplit(n, parts int, do func(part, from, to int)) {
	var others sync.WaitGroup
	for part := 1; part < parts; part++ {
		others.Go(func() { do(part, n*part/parts, n*(part+1)/parts) })
	}
	do(0, 0, n/parts)
	others.Wait()
}
