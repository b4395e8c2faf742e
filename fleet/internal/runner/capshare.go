package runner

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// capShare is a driver's share of the cap of its strategy.
//
// The clusters in flight are saved before slots are returned, and slots are claimed before the save
// that uses them, so the run always holds at least as many slots as its record has clusters in
// flight. Only the run's driver lowers its number of slots, under the epoch of its lease. A driver
// that takes over a run makes a claim before it uses any slot. The driver may therefore use an old
// copy of the cap: the slots that it gives the run are reserved.
type capShare struct {
	// name is the name of the cap, empty if the strategy has none.
	name string
	cap  stages.Cap
	// claimed reports whether a claim was made under the driver's epoch. given reports whether the
	// cap has given the run slots that no step has seen yet.
	claimed, given bool
	// stale reports whether the cap has changed since it was last read.
	stale atomic.Bool
	// swept is the time when ended runs were last removed from the cap.
	swept time.Time
}

// holds returns the number of slots that the run holds.
func (s *capShare) holds(uid string) int {
	own, _ := s.cap.Share(uid)
	return own.Holds
}

// take replaces the cap with its current value and updates claimed and given.
func (s *capShare) take(c stages.Cap, uid string) {
	_, had := s.cap.Share(uid)
	before := s.holds(uid)
	s.cap = c
	_, has := c.Share(uid)
	s.claimed = s.claimed && (has || !had)
	s.given = s.given || s.holds(uid) > before
}

// readCap reads the cap if it has changed. A cap that is missing or permanently unreadable gives
// the run no slots: clusters in flight continue, and commands still work.
func (d *driver) readCap(ctx context.Context) error {
	s := &d.share
	if s.name == "" || !s.stale.Swap(false) {
		return nil
	}
	c, _, err := d.e.caps.Get(ctx, s.name)
	if err != nil && !state.IsLasting(err) {
		s.stale.Store(true)
		return err
	}
	s.take(c, d.uid)
	return nil
}

// slots returns the maximum number of clusters that the run may have in flight under its cap.
func (d *driver) slots() int {
	s := &d.share
	switch {
	case s.name == "" || !s.claimed || d.rec.Run.IsEnded():
		return 0
	case s.given:
		return s.holds(d.uid)
	default:
		return s.cap.Slots(d.uid)
	}
}

// claimCap updates the run's claim if the cap disagrees with the saved clusters in flight or with
// the slots that the run wants.
func (d *driver) claimCap(ctx context.Context, wants int) error {
	s := &d.share
	if s.name == "" || d.rec.Run.IsEnded() {
		return nil
	}
	s.given = false
	k := stages.Claim{UID: d.uid, Run: d.name, Epoch: d.epoch, Uses: inFlight(&d.rec.Run), Wants: wants}
	own, has := s.cap.Share(d.uid)
	settled := s.claimed && own.Wants == wants && own.Holds <= max(k.Uses, s.cap.Slots(d.uid))
	if settled || !has && s.claimed && wants == 0 {
		return d.seekRoom(ctx, k)
	}
	fenced := false
	c, err := d.e.caps.Update(ctx, s.name, false, func(c stages.Cap) (stages.Cap, error) {
		next, ok := c.Claim(k)
		if fenced = !ok; fenced {
			return c, state.ErrUnchanged
		}
		return next, nil
	})
	if err != nil && d.e.caps.Lacks(ctx, s.name) {
		return nil // the run waits: a change of the cap's key wakes its driver
	}
	if err != nil {
		return err
	}
	if fenced {
		return fmt.Errorf("run %s: %w: another engine has claimed of cap %s for it", d.name, backend.ErrFenced, s.name)
	}
	s.cap, s.claimed = c, true
	if s.holds(d.uid) > k.Uses {
		s.given = true
		d.wakeUp()
	}
	return d.seekRoom(ctx, k)
}

// seekRoom removes ended runs from the cap while this run waits for slots, at most once per lease
// duration.
func (d *driver) seekRoom(ctx context.Context, k stages.Claim) error {
	s := &d.share
	if s.holds(d.uid) >= k.Wants || time.Since(s.swept) < d.e.cfg.Lease {
		return nil
	}
	s.swept = time.Now()
	return d.e.caps.Sweep(ctx, s.name)
}

// inFlight returns the number of clusters that a run has in flight.
func inFlight(r *step.Run) (n int) {
	for i := range r.Form(runstate.Key{}).InFlight {
		if r.Form(runstate.Key{}).InFlight[i].Attempt != 0 {
			n++
		}
	}
	return n
}

// capChanged marks the cap as stale for the drivers that share it, and wakes them.
func (r *Runner) capChanged(_ context.Context, c backend.Change) {
	r.wake(func(d *driver) bool {
		if d.share.name == "" || record.CapKey(d.share.name) != c.Key {
			return false
		}
		d.share.stale.Store(true)
		return true
	})
}
