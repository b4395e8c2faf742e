package stages

// planPiece is how many clusters are looked at one after the other. What is asked
// of a cluster lies anywhere in memory, and a fleet that is larger than this does
// not fit the processor's caches: it is looked at in several pieces at a time, so
// that one does not wait for the memory of another.
const planPiece = 1 << 14

// planPieces is how many pieces n clusters are, at least 1. It depends on nothing
// else, so that everything is done in the same way on every machine.
func planPieces(n int) int { return max(1, (n+planPiece-1)/planPiece) }

// planSplit calls do for every piece of n clusters, with its number and its bounds,
// for several at the same time where there are several, and returns when all of
// them are done. What they write must not be the same. This is the only place in
// which the package starts a goroutine, and none outlives the call.
func planSplit(n int, do func(piece, from, to int)) {
	done := make(chan struct{})
	others := planPieces(n) - 1
	for piece := 1; piece <= others; piece++ {
		go func() {
			do(piece, piece*planPiece, min((piece+1)*planPiece, n))
			done <- struct{}{}
		}()
	}
	do(0, 0, min(planPiece, n))
	for range others {
		<-done
	}
}
