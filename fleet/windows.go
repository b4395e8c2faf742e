package fleet

import (
	"context"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
)

// Windows provides the maintenance windows and freezes that say when clusters may be started. An
// engine reads the rules when it takes a run, and then repeatedly until the run ends: at first once
// per Config.Poll, and up to ten times less often while they do not change. A new freeze takes
// effect at the next read.
//
// Until Rules has returned valid rules for a run, no cluster of the run is started. After that the
// last valid rules apply. No windows apply to the run that cleans the clusters of a placement under
// deletion. An engine without Windows starts clusters at any time, so engines that share a store
// must have the same Windows.
type Windows interface {
	// Rules returns the rules for the clusters of a plan, which it must not change. The returned
	// value must not change either: new rules are a new value, with maps of its own. It may be
	// called concurrently.
	Rules(ctx context.Context, p *stages.Plan) (calendar.Rules, error)
}

// WindowsFunc adapts a function to [Windows].
type WindowsFunc func(ctx context.Context, p *stages.Plan) (calendar.Rules, error)

// Rules calls f.
func (f WindowsFunc) Rules(ctx context.Context, p *stages.Plan) (calendar.Rules, error) {
	return f(ctx, p)
}
