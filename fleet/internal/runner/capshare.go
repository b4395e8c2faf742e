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

// capShare is a driver's part in the cap of its strategy.
//
// What is in flight is saved before slots are given back, and slots are taken
// before what uses them is saved, so at every moment the run holds what its record
// has in flight. Only its driver lowers what a run holds, under the epoch of its
// lease; a driver that takes a run over makes a claim before it uses anything. So
// what is known of the cap may be old: what it gives the run is there.
type capShare struct {
	// name is that of the cap, empty where the strategy names none.
	name string
	cap  stages.Cap
	// claimed reports whether a claim was made under the driver's epoch, given that slots
	// were given to it that no step has seen.
	claimed, given bool
	// stale reports whether the cap has changed and was not read since.
	stale atomic.Bool
	// swept is when runs that are over were last removed from the cap.
	swept time.Time
}

// holds is how many slots the run holds.
func (s *capShare) holds(uid string) int {
	own, _ := s.cap.Share(uid)
	return own.Holds
}

// take updates the share by the cap as it is now.
func (s *capShare) take(c stages.Cap, uid string) {
	_, had := s.cap.Share(uid)
	before := s.holds(uid)
	s.cap = c
	_, has := c.Share(uid)
	s.claimed = s.claimed && (has || !had)
	s.given = s.given || s.holds(uid) > before
}

// readCap reads the cap where it has changed. One that cannot be read gives
// nothing, as one that is not there: what is in flight goes on, and so do commands.
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

// slots is how many clusters the run may have in flight by its cap.
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

// claimCap makes a claim where what the run has in flight, as it was saved, or what
// it wants is not what the cap says.
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
		d.nudge()
	}
	return d.seekRoom(ctx, k)
}

// seekRoom removes runs that are over from the cap, at most once per lease, while this run waits for slots.
func (d *driver) seekRoom(ctx context.Context, k stages.Claim) error {
	s := &d.share
	if s.holds(d.uid) >= k.Wants || time.Since(s.swept) < d.e.cfg.Lease {
		return nil
	}
	s.swept = time.Now()
	return d.e.caps.Sweep(ctx, s.name)
}

// inFlight counts the clusters that a run has in flight.
func inFlight(r *step.Run) (n int) {
	for i := range r.Form(runstate.Key{}).InFlight {
		if r.Form(runstate.Key{}).InFlight[i].Attempt != 0 {
			n++
		}
	}
	return n
}

// capChanged wakes the drivers whose runs share a cap, which read it again.
func (r *Runner) capChanged(_ context.Context, c backend.Change) {
	r.wake(func(d *driver) bool {
		if d.share.name == "" || record.CapKey(d.share.name) != c.Key {
			return false
		}
		d.share.stale.Store(true)
		return true
	})
}
