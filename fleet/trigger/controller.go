package trigger

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/slipway-dev/slipway/fleet"
)

// DefaultInterval is the default interval at which a [Controller] fires its triggers.
const DefaultInterval = time.Minute

// Controller fires triggers at intervals.
type Controller struct {
	Engine *fleet.Engine
	// Triggers returns the current triggers; it is called before each round. It must not be nil.
	Triggers func(context.Context) ([]Trigger, error)
	// Interval is the time between two rounds; 0 is [DefaultInterval]. Each wait is extended at random
	// by up to a tenth, so that several processes do not fire at once.
	Interval time.Duration
	// Tell, if not nil, is called for each trigger whose outcome or error differs from the previous
	// round. If Triggers fails, it is called with an empty trigger and the error. It is called by one
	// goroutine.
	Tell func(Trigger, Outcome, error)
}

// spread is the largest random delay of a round, as a fraction of the interval.
const spread = 0.1

// Run fires the triggers until ctx ends, and returns its error. The first round is at once. An
// error of one trigger does not affect the others; that trigger is retried in the next round.
func (c *Controller) Run(ctx context.Context) error {
	if c.Engine == nil || c.Triggers == nil {
		return errors.New("trigger: a controller needs an Engine and Triggers")
	}
	interval := c.Interval
	if interval == 0 {
		interval = DefaultInterval
	}
	told := map[string]string{}
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) { told = c.round(ctx, told) }, interval, spread, true)
	return ctx.Err()
}

// round fires all triggers, and returns the outcome or error of each as text, by name.
func (c *Controller) round(ctx context.Context, before map[string]string) map[string]string {
	now := map[string]string{}
	tell := func(t Trigger, o Outcome, err error) {
		if ctx.Err() != nil {
			return // the error is the end
		}
		text := string(o.State) + " " + o.Revision + " " + o.Run
		if err != nil {
			text = err.Error()
		}
		now[t.Name] = text
		if c.Tell != nil && before[t.Name] != text {
			c.Tell(t, o, err)
		}
	}
	all, err := c.Triggers(ctx)
	if err != nil {
		tell(Trigger{}, Outcome{}, err)
		return now
	}
	for _, t := range all {
		o, err := Fire(ctx, c.Engine, t)
		tell(t, o, err)
	}
	return now
}
