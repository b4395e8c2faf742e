package backendtest_test

import (
	"context"
	"runtime"

	"github.com/slipway-dev/slipway/backend"
)

// Fencing returns the claim of the connection, whatever its flaw.
func (f *flawed) Fencing() backend.Fencing {
	switch f.flaw {
	case "no fences":
		return backend.FencingNone
	case "late fences", "ignores fences later":
		return backend.FencingEventual
	}
	return backend.FencingOf(f.ConnWatcher)
}

// fence returns the fence that a flawed connection compares.
func (f *flawed) fence(ctx context.Context, fence backend.Fence, creates bool) backend.Fence {
	if !fence.Demands() {
		return fence
	}
	holds := f.ledgerIs(ctx, fence)
	switch f.flaw {
	case "no fences", "ignores fences", "ignores fences later":
		return backend.Fence{}
	case "late fences":
		if f.count()%3 != 0 {
			return backend.Fence{}
		}
	case "ledger of any version":
		fence.ResourceVersion = ""
	case "one fence for all":
		if other := fence.Ledger; other.Name == "slipway-test-fence-other" {
			fence.Ledger.Name += "-more"
		}
	case "fences creations":
		if !creates {
			return backend.Fence{}
		}
	case "needs no ledger":
		if _, err := f.ConnWatcher.Get(ctx, fence.Ledger); err != nil {
			return backend.Fence{}
		}
	case "fence first":
		for range 1000 {
			if !holds || !f.ledgerIs(ctx, fence) {
				break
			}
			runtime.Gosched()
		}
		if holds {
			return backend.Fence{}
		}
	}
	return fence
}

// ledgerIs reports whether a fence holds now.
func (f *flawed) ledgerIs(ctx context.Context, fence backend.Fence) bool {
	l, err := f.ConnWatcher.Get(ctx, fence.Ledger)
	return err == nil && l.GetResourceVersion() == fence.ResourceVersion
}
