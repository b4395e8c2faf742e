package fleet

import (
	"context"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
)

// Windows tells when clusters may be started: maintenance windows, and freezes.
// It is asked when an engine takes a run, and then again for as long as the run
// goes on, every Config.Poll at first and up to ten times as seldom while it
// answers the same, so that a freeze takes effect within that time.
//
// As long as it has never answered for a run, or what it answered is not valid, no
// cluster of the run is started. After that the last valid answer counts. The run
// that cleans the clusters of a placement which is being deleted does not ask. An
// engine without Windows starts clusters at any time, so those that share a store
// have the same.
type Windows interface {
	// Rules returns the rules for the clusters of a plan, which it must not
	// change. What it returned stays as it is: other rules are another value, with
	// maps of its own. It may be called concurrently.
	Rules(ctx context.Context, p *stages.Plan) (calendar.Rules, error)
}

// WindowsFunc is a function as [Windows].
type WindowsFunc func(ctx context.Context, p *stages.Plan) (calendar.Rules, error)

// Rules calls f.
func (f WindowsFunc) Rules(ctx context.Context, p *stages.Plan) (calendar.Rules, error) {
	return f(ctx, p)
}
