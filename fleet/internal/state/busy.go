package state

import (
	"context"
	"sync"
)

// Busy are runs that something is being done with in this process, each with a channel
// that is closed when it is done. A caller that waits for the end of a run need not read the
// store before that.
type Busy struct{ runs sync.Map }

// Begin notes that something is being done with a run, until end is called.
func (b *Busy) Begin(run string) (end func()) {
	over := make(chan struct{})
	b.runs.Store(run, over)
	return func() {
		b.runs.CompareAndDelete(run, over)
		close(over)
	}
}

// Has reports whether something is being done with a run.
func (b *Busy) Has(run string) bool {
	_, ok := b.runs.Load(run)
	return ok
}

// Wait waits until it is done with a run, and reports whether ctx has not ended.
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
