package driftwatch

import (
	"context"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/stages"
)

// What the clusters of a placement have to say is written together: its record
// is one, and an edit on a thousand clusters is seen on all of them at once.
const (
	notesWait = 200 * time.Millisecond
	notesMost = 500
)

// notes are events of a placement that are about to be written.
type notes struct {
	e         *Reporter
	placement string
	more      chan struct{}

	mu  sync.Mutex
	all []stages.Event
}

// add has an event written soon.
func (n *notes) add(ev stages.Event) {
	n.mu.Lock()
	n.all = append(n.all, ev)
	n.mu.Unlock()
	backoff.Wake(n.more)
}

// keep writes what is added until ctx ends.
func (n *notes) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.more:
		}
		for some := n.take(); len(some) > 0; some = n.take() {
			n.write(ctx, some)
		}
		backoff.Sleep(ctx, notesWait)
	}
}

func (n *notes) take() []stages.Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	some := n.all[:min(len(n.all), notesMost)]
	if n.all = n.all[len(some):]; len(n.all) == 0 {
		n.all = nil
	}
	return some
}

func (n *notes) write(ctx context.Context, some []stages.Event) {
	err := n.e.state.UpdatePlacement(ctx, n.placement, func(*record.Placement) ([]stages.Event, error) { return some, nil })
	if err != nil && ctx.Err() == nil {
		n.e.log.Warn("what drifted was not noted", "placement", n.placement, "events", len(some), "error", err)
	}
}

// pace makes what is done again and again wait: the first time not at all, then
// longer each time. What was left alone for a while begins again.
type pace struct {
	last time.Time
	wait time.Duration
}

// The waits of a pace.
const (
	paceFirst = time.Second
	paceMost  = 5 * time.Minute
	paceCalm  = 10 * time.Minute
)

// left is how long to wait yet.
func (p *pace) left() time.Duration {
	since := time.Since(p.last)
	if since > paceCalm {
		p.wait = 0
	}
	return max(0, p.wait-since)
}

// done reports that it was done now.
func (p *pace) done() {
	p.last, p.wait = time.Now(), min(max(2*p.wait, paceFirst), paceMost)
}
