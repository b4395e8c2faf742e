package runner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// gather adds everything new since the last step to the input. It batches observations that arrive
// shortly after one another.
func (d *driver) gather(ctx context.Context) error {
	select {
	case err := <-d.fenced:
		return err
	default:
	}
	if d.deleted.Load() {
		if held, err := d.holdsLease(ctx); err == nil && !held {
			return fmt.Errorf("run %s was deleted: %w", d.name, backend.ErrNotFound)
		}
	}
	if d.asked.Swap(false) {
		if err := d.listen(ctx); err != nil {
			d.asked.Store(true)
			return err
		}
	}
	select {
	case fleet := <-d.fleet:
		d.in.Gone = d.gone(ctx, fleet)
	default:
	}
	select {
	case c := <-d.calendars:
		d.in.Calendar, d.in.NewCalendar = c, true
		d.calendar++
	default:
	}
	d.in.Measured = append(d.in.Measured, d.meter.taken()...)
	select {
	case o := <-d.inbox:
		d.receive(o)
		d.receiveMore(ctx)
		d.drain()
	default:
	}
	if time.Since(d.renewed) >= d.e.cfg.Lease/3 {
		d.renewLease()
	}
	return nil
}

// renewLease requests a save of the lease, unless the engine's session extends it and the record is
// the one that this driver saved. The driver checks again at the latest when the session no longer
// covers the lease.
func (d *driver) renewLease() {
	var until time.Time
	if d.e.session != nil {
		until = d.e.session.CoversUntil(record.RunKey(d.name), d.leased)
	}
	left := time.Until(until)
	if left <= 0 || !d.wroteLast() {
		d.renew = true
		return
	}
	d.renewed = time.Now().Add(min(0, left-d.e.cfg.Lease/3))
}

// receive adds an observation to the input.
func (d *driver) receive(o received) {
	d.in.Observations = append(d.in.Observations, o.Observation)
	o.by.unheard.Add(-1)
}

// receiveMore waits for observations of other clusters in flight, so that one save takes them all.
// It stops when a quarter of the clusters in flight have reported, or at the time limit that
// follows from savesWorth and batchLongest. It does not wait at all if the store is fast, see
// batchShortest.
func (d *driver) receiveMore(ctx context.Context) {
	longest := min(savesWorth*slices.Min(d.saves[:]), batchLongest)
	if longest < batchShortest {
		return
	}
	late := time.NewTimer(longest)
	defer late.Stop()
	for len(d.in.Observations) < len(d.rec.Run.Form(runstate.Key{}).InFlight)/4 {
		select {
		case o := <-d.inbox:
			d.receive(o)
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// receiveMore batches observations for at most savesWorth times the fastest recent save, because
// one slow save on a busy machine does not make a store slow. It does not batch at all for less
// than batchShortest, and never for more than batchLongest.
const (
	savesWorth    = 4
	batchShortest = 4 * time.Millisecond
	batchLongest  = 100 * time.Millisecond
)

// drain adds every observation that has arrived to the input.
func (d *driver) drain() {
	for range inboxSize {
		select {
		case o := <-d.inbox:
			d.receive(o)
		default:
			return
		}
	}
}

// listen reads the commands of operators for the run.
func (d *driver) listen(ctx context.Context) error {
	cs, taken, err := d.e.commands.List(ctx, d.uid)
	if err != nil {
		return err
	}
	cs = slices.DeleteFunc(cs, func(c stages.Command) bool { return slices.Contains(d.rec.Run.Form(runstate.Key{}).Seen, c.ID) })
	if len(cs) > commandsAtOnce {
		cs = cs[:commandsAtOnce]
		d.wakeUp()
	}
	d.in.Commands, d.taken, d.commanded = cs, taken, d.commanded || len(taken) > 0
	return nil
}

// commandsAtOnce is the maximum number of commands in one step. It is well below the number of
// commands that a run remembers.
const commandsAtOnce = 16

// wakeUp makes the driver read its commands and take another turn.
func (d *driver) wakeUp() {
	d.asked.Store(true)
	d.wake()
}

// tellFleet hands the driver a changed inventory and wakes it.
func (d *driver) tellFleet(fleet map[string]placement.Cluster) {
	d.setFleet(fleet)
	d.wake()
}

// setFleet hands the driver a changed inventory. It replaces an inventory that the driver has not
// read yet.
func (d *driver) setFleet(fleet map[string]placement.Cluster) {
	for {
		select {
		case d.fleet <- fleet:
			return
		default:
		}
		select {
		case <-d.fleet:
		default:
		}
	}
}

// gone returns the clusters of the plan that are no longer in the inventory, or are there with
// another UID. The inventory that it receives may be older than the plan, so it reads the inventory
// again before it reports a cluster as gone.
func (d *driver) gone(ctx context.Context, fleet map[string]placement.Cluster) []string {
	if len(d.missing(fleet)) == 0 {
		return nil
	}
	brief, cancel := context.WithTimeout(ctx, d.e.cfg.Lease/5)
	defer cancel()
	now, err := d.e.state.Inventory(brief)
	if err != nil {
		time.AfterFunc(retryFirst, func() { d.tellFleet(fleet) })
		return nil
	}
	return d.missing(now)
}

func (d *driver) missing(fleet map[string]placement.Cluster) []string {
	var out []string
	for i := range d.plan.Clusters {
		c := &d.plan.Clusters[i]
		now, ok := fleet[c.Name]
		if !ok || c.UID != "" && now.UID != "" && now.UID != c.UID {
			out = append(out, c.Name)
		}
	}
	return out
}
