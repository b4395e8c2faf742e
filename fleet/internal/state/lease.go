package state

import (
	"context"
	"errors"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
)

// FreeFrom returns the time from which another engine may take a lease. According to its record,
// the lease ends at the argument until. The argument since is the time at which this revision of
// the record was first seen, and alive reports whether it replaced another revision then.
//
// Clocks that differ by more than skew must neither prevent the takeover of a run nor cause a
// takeover from a healthy engine. Therefore a record that did not change for a lease duration plus
// skew is free, whatever time it contains, because its holder would have renewed it several times.
// A record that was seen to change is not free within a lease duration of that change, even if the
// holder's clock is far behind.
func FreeFrom(until, since time.Time, alive bool, length, skew time.Duration) time.Time {
	still := since.Add(length + skew)
	ended := until.Add(skew + time.Millisecond)
	if alive {
		if lives := since.Add(length); ended.Before(lives) {
			ended = lives
		}
	}
	if still.Before(ended) {
		return still
	}
	return ended
}

// Acquire takes the lease of a run under a new epoch. It returns the new revision of the run's
// record, and the placement's record that it wrote with it.
//
// It begins with the placement's record that this engine saw last. If that record is old, nothing
// is written and Acquire reads the current one.
func (st *State) Acquire(ctx context.Context, rec *record.Run, rev backend.Revision) (backend.Revision, *record.Placement, error) {
	name := rec.Run.Placement
	seen, known := st.seen.Get(name)
	for {
		if !known {
			var err error
			if seen.rec, seen.rev, err = st.Placement(ctx, name); err != nil {
				return "", nil, err
			}
		}
		next, p := *rec, *seen.rec
		c, err := st.takeover(&next, rev, &p, seen.rev)
		if err != nil {
			return "", nil, err
		}
		got, err := c.Write(ctx, st.store)
		if errors.Is(err, backend.ErrConflict) {
			if len(c.Revisions) == 0 {
				known = false
				continue // the placement has changed
			}
			c.Abandon(ctx, st.store)
		}
		if written := c.Revisions[record.PlacementKey(name)]; written != "" {
			st.seen.Add(name, seenPlacement{&p, written})
		}
		*rec = next
		return got, &p, err
	}
}

// takeover gives a run's record a new lease and returns the commit. The placement's record is
// written first and provides the epoch. The epoch is therefore higher than the epoch of every run
// and every engine that wrote to a cluster for this placement before.
func (st *State) takeover(rec *record.Run, rev backend.Revision, p *record.Placement, prev backend.Revision) (*record.Commit, error) {
	out, err := lifecycle.Advance(p.State, lifecycle.RunTaken{Epoch: p.Epoch + 1}, lifecycle.Facts{})
	if err != nil {
		return nil, HostError(err)
	}
	p.State = out.State
	rec.Lease = record.Lease{Holder: st.name, Epoch: p.Epoch, Until: stages.At(st.clock()).Add(st.lease)}
	rec.Seq++
	taken := stages.Event{
		Time: st.Now(), Type: stages.RunTaken, Placement: rec.Run.Placement, Run: rec.Run.Name,
		By: st.name, Epoch: p.Epoch,
	}
	c := &record.Commit{Pages: []backend.Write{{Key: record.PlacementKey(rec.Run.Placement), Value: record.Encode(p), Prev: prev}}}
	rec.Journal = rec.Journal.Append(c, rec.Run.UID, []stages.Event{taken})
	c.Record = backend.Write{Key: record.RunKey(rec.Run.Name), Value: rec.Encode(), Prev: rev}
	return c, nil
}
