package state

import (
	"context"
	"sync"
)

// Busy is the set of runs that this process is working on. Each has a channel that is closed when
// the work is done. A caller that waits for the end of a run need not read the store before that.
type Busy struct{ runs sync.Map }

// Begin adds a run to the set until end is called.
func (b *Busy) Begin(run string) (end func()) {
	over := make(chan struct{})
	b.runs.Store(run, over)
	return func() {
		b.runs.CompareAndDelete(run, over)
		close(over)
	}
}

// Has reports whether the run is in the set.
func (b *Busy) Has(run string) bool {
	_, ok := b.runs.Load(run)
	return ok
}

// Wait waits until the run leaves the set. It returns false if ctx ends first.
func (b *Busy) Wait(ctx context.Context, run string) bool {
	over, ok := b.runs.Load(run)
	if !ok {
		return true
	}
	select {
	case <-over.(chan struct{}):
		return true
	case <-ctx.Done():
		return false
	}
}
