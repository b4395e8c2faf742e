package runner

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/caps"
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
	caps *caps.Caps
	// run, uid and epoch are the values of the lease.
	run, uid string
	epoch    int64
	cap      stages.Cap
	// claimed reports whether a claim was made under the driver's epoch. given reports whether the
	// cap has given the run slots that no step has seen yet.
	claimed, given bool
	// stale reports whether the cap has changed since it was last read.
	stale atomic.Bool
	// swept is the time when ended runs were last removed from the cap, sweeps the shortest time
	// between two removals.
	swept  time.Time
	sweeps time.Duration
}

// newCapShare returns the share of a run whose cap was not read yet.
func newCapShare(e *engine, t *tenure) *capShare {
	s := &capShare{name: t.plan.Strategy.Cap, caps: e.Caps, run: t.name, uid: t.uid, epoch: t.epoch, sweeps: e.Lease}
	s.stale.Store(true)
	return s
}

// holds returns the number of slots that the run holds.
func (s *capShare) holds() int {
	own, _ := s.cap.Share(s.uid)
	return own.Holds
}

// take replaces the cap with its current value and updates claimed and given.
func (s *capShare) take(c stages.Cap) {
	_, had := s.cap.Share(s.uid)
	before := s.holds()
	s.cap = c
	_, has := c.Share(s.uid)
	s.claimed = s.claimed && (has || !had)
	s.given = s.given || s.holds() > before
}

// read reads the cap if it has changed. A cap that is missing or permanently unreadable gives the
// run no slots: clusters in flight continue, and commands still work.
func (s *capShare) read(ctx context.Context) error {
	if s.name == "" || !s.stale.Swap(false) {
		return nil
	}
	c, _, err := s.caps.Get(ctx, s.name)
	if err != nil && !state.IsLasting(err) {
		s.stale.Store(true)
		return err
	}
	s.take(c)
	return nil
}

// changed notes the change of a record, and reports whether it is the record of the cap. It may be
// called concurrently.
func (s *capShare) changed(key string) bool {
	if s.name == "" || record.CapKey(s.name) != key {
		return false
	}
	s.stale.Store(true)
	return true
}

// slots returns the maximum number of clusters that the run may have in flight under its cap.
func (s *capShare) slots(run *step.Run) int {
	switch {
	case s.name == "" || !s.claimed || run.IsEnded():
		return 0
	case s.given:
		return s.holds()
	default:
		return s.cap.Slots(s.uid)
	}
}

// claim updates the run's claim if the cap disagrees with the saved clusters in flight or with the
// slots that the run wants. It reports whether the cap has given the run slots for another step.
func (s *capShare) claim(ctx context.Context, run *step.Run, wants int) (given bool, err error) {
	if s.name == "" || run.IsEnded() {
		return false, nil
	}
	s.given = false
	k := stages.Claim{UID: s.uid, Run: s.run, Epoch: s.epoch, Uses: inFlight(run), Wants: wants}
	own, has := s.cap.Share(s.uid)
	settled := s.claimed && own.Wants == wants && own.Holds <= max(k.Uses, s.cap.Slots(s.uid))
	if settled || !has && s.claimed && wants == 0 {
		return false, s.seekRoom(ctx, k)
	}
	fenced := false
	c, err := s.caps.Update(ctx, s.name, false, func(c stages.Cap) (stages.Cap, error) {
		next, ok := c.Claim(k)
		if fenced = !ok; fenced {
			return c, state.ErrUnchanged
		}
		return next, nil
	})
	if err != nil && s.caps.Lacks(ctx, s.name) {
		return false, nil // the run waits: a change of the cap's key wakes its driver
	}
	if err != nil {
		return false, err
	}
	if fenced {
		return false, fmt.Errorf("run %s: %w: another engine has claimed of cap %s for it", s.run, backend.ErrFenced, s.name)
	}
	s.cap, s.claimed = c, true
	s.given = s.holds() > k.Uses
	return s.given, s.seekRoom(ctx, k)
}

// seekRoom removes ended runs from the cap while this run waits for slots, at most once per lease
// duration.
func (s *capShare) seekRoom(ctx context.Context, k stages.Claim) error {
	if s.holds() >= k.Wants || time.Since(s.swept) < s.sweeps {
		return nil
	}
	s.swept = time.Now()
	return s.caps.Sweep(ctx, s.name)
}

// leave returns all slots of the run.
func (s *capShare) leave(ctx context.Context) error {
	if s.name == "" {
		return nil
	}
	return s.caps.Leave(ctx, s.name, s.uid, s.epoch)
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
