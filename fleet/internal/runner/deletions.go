package runner

import (
	"context"
	"sync"

	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/backoff"
)

// deletions carries out what placements have under way that no run does: their
// deletion, and the planning of a run that takes another one back, one goroutine
// for each placement. Of several engines all do: whoever comes first takes a step.
type deletions struct {
	e  *engine
	mu sync.Mutex
	// going are the placements that have something under way, and what says that
	// something of one has changed.
	going map[string]chan struct{}
	all   sync.WaitGroup
}

func newDeletions(e *engine) *deletions { return &deletions{e: e, going: map[string]chan struct{}{}} }

// changed begins what a placement has under way, or says who does it that
// something changed. read returns the placement's record.
func (d *deletions) changed(ctx context.Context, name string, read func() (*record.Placement, error)) {
	if d.tell(name) {
		return
	}
	rec, err := read()
	if ctx.Err() != nil || state.IsNotFound(err) || err == nil && !rec.IsUnderway() {
		return // where it is not known, the deletion finds out
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.going[name] == nil {
		d.going[name] = make(chan struct{}, 1)
		d.all.Go(func() { d.run(ctx, name, d.going[name]) })
	}
}

func (d *deletions) tell(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed, ok := d.going[name]
	if ok {
		backoff.Wake(changed)
	}
	return ok
}

// run takes one step after the other until there is none.
func (d *deletions) run(ctx context.Context, name string, changed <-chan struct{}) {
	pause := backoff.Poll(d.e.cfg.Poll)
	for ctx.Err() == nil {
		done, err := d.e.admission.Continue(ctx, name)
		if err != nil && ctx.Err() == nil {
			d.e.log.Warn("what a placement has under way is tried again", "placement", name, "error", err)
		}
		if done && err == nil {
			break
		}
		pause.WaitFor(ctx, changed)
	}
	d.ended(ctx, name)
}

// ended forgets a deletion, and begins another one where the placement was
// declared and deleted again meanwhile.
func (d *deletions) ended(ctx context.Context, name string) {
	d.mu.Lock()
	delete(d.going, name)
	d.mu.Unlock()
	if ctx.Err() == nil {
		d.changed(ctx, name, d.e.state.LastSeen(ctx, name))
	}
}
