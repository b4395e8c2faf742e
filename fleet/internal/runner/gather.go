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

// gather takes in what is new since the last step. Observations that follow one another closely are taken in together.
func (d *driver) gather(ctx context.Context) error {
	select {
	case err := <-d.fenced:
		return err
	default:
	}
	if d.deleted.Load() {
		if held, err := d.held(ctx); err == nil && !held {
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
		d.hear(o)
		d.hearOn(ctx)
		d.drain()
	default:
	}
	if time.Since(d.renewed) >= d.e.cfg.Lease/3 {
		d.renewLease()
	}
	return nil
}

// renewLease has the lease saved, unless the session of the engine extends it and the run is as this driver saved it. The
// driver looks again when it may no longer rely on the session, at the latest.
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

// hear takes an observation.
func (d *driver) hear(o word) {
	d.in.Observations = append(d.in.Observations, o.Observation)
	o.by.unheard.Add(-1)
}

// hearOn waits for what other clusters in flight have to tell, so that one save
// takes in all of it: until a quarter of them was heard, and not for long beside
// what a save takes. A store that is quick is not waited for.
func (d *driver) hearOn(ctx context.Context) {
	longest := min(savesWorth*slices.Min(d.saves[:]), hearLongest)
	if longest < hearShortest {
		return
	}
	late := time.NewTimer(longest)
	defer late.Stop()
	for len(d.in.Observations) < len(d.rec.Run.Form(runstate.Key{}).InFlight)/4 {
		select {
		case o := <-d.inbox:
			d.hear(o)
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// What is heard waits for more at most as long as so many saves take, of the quickest
// of the last ones: a store is not slow because the machine was busy once. Less than
// hearShortest is not worth it, and hearLongest is the most.
const (
	savesWorth   = 4
	hearShortest = 4 * time.Millisecond
	hearLongest  = 100 * time.Millisecond
)

// drain takes every observation that has arrived.
func (d *driver) drain() {
	for range inboxSize {
		select {
		case o := <-d.inbox:
			d.hear(o)
		default:
			return
		}
	}
}

// listen reads what operators ask of the run.
func (d *driver) listen(ctx context.Context) error {
	cs, taken, err := d.e.commands.List(ctx, d.uid)
	if err != nil {
		return err
	}
	cs = slices.DeleteFunc(cs, func(c stages.Command) bool { return slices.Contains(d.rec.Run.Form(runstate.Key{}).Seen, c.ID) })
	if len(cs) > commandsAtOnce {
		cs = cs[:commandsAtOnce]
		d.nudge()
	}
	d.in.Commands, d.taken, d.commanded = cs, taken, d.commanded || len(taken) > 0
	return nil
}

// commandsAtOnce bounds the commands that one step takes in, well under the
// number that a run remembers.
const commandsAtOnce = 16

// nudge makes the driver read its commands and take another turn.
func (d *driver) nudge() {
	d.asked.Store(true)
	d.wake()
}

// tellFleet hands the driver a changed inventory, and has it take another turn.
func (d *driver) tellFleet(fleet map[string]placement.Cluster) {
	d.setFleet(fleet)
	d.wake()
}

// setFleet hands the driver a changed inventory, in place of one that it has not taken in yet.
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

// gone names the clusters of the plan that the inventory no longer has, or has
// as another cluster. What it was told may be older than the plan, so it looks
// itself before it says so.
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
