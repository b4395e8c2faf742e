package driftwatch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
)

// Events about the clusters of a placement are written in batches, because all of them go into one
// record, and an edit on a thousand clusters is observed on all of them at once. The first event is
// written at once. Later events wait at most eventsWait, and one write has at most eventsMost
// events.
const (
	eventsWait = 200 * time.Millisecond
	eventsMost = 500
)

// eventBatch holds the pending events of a placement.
type eventBatch struct {
	placement string
	// next is when events may be written again. Only the reconcile of the events uses it.
	next time.Time

	mu      sync.Mutex
	pending []stages.Event
}

// event queues an event of the placement.
func (w *placementWatch) event(ev stages.Event) {
	w.events.mu.Lock()
	w.events.pending = append(w.events.pending, ev)
	w.events.mu.Unlock()
	w.r.events.Add(w.name)
}

// writeEvents writes the pending events of a placement, unless the last write is too recent.
func (r *Reconciler) writeEvents(ctx context.Context, placement string) (time.Duration, error) {
	w := r.watch(placement)
	if w == nil {
		return 0, nil // its events were written when its watch ended
	}
	if wait := time.Until(w.events.next); wait > 0 {
		return wait, nil
	}
	if w.events.writeAll(ctx, r.reporter) {
		w.events.next = time.Now().Add(eventsWait)
	}
	return 0, nil
}

// writeAll writes the pending events, even if ctx has ended, and reports whether there were any.
// Events that cannot be written are logged and dropped, because a failed write may have succeeded.
func (b *eventBatch) writeAll(ctx context.Context, r *Reporter) bool {
	b.mu.Lock()
	all := b.pending
	b.pending = nil
	b.mu.Unlock()
	for some := range slices.Chunk(all, eventsMost) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.CallTimeout)
		err := r.state.UpdatePlacement(ctx, b.placement, func(*record.Placement) ([]stages.Event, error) { return some, nil })
		cancel()
		if err != nil && !state.IsNotFound(err) {
			r.log.Warn("events about drift were not written", "placement", b.placement, "events", len(some), "error", err)
		}
	}
	return len(all) > 0
}

// driftEvent returns an event of a placement about a cluster that differs.
func driftEvent(t stages.EventType, c *drift.ClusterReport) stages.Event {
	first := &c.Objects[0]
	text := fmt.Sprintf("%s %s: %s", first.Kind, first.Name, member.Summary(&first.Report))
	if more := c.Total - 1; more > 0 {
		text += fmt.Sprintf("; %d more objects", more)
	}
	return stages.Event{Type: t, Cluster: c.Cluster, Count: c.Total, Message: guard.Clip(text)}
}
