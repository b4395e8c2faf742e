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

// FreeFrom returns from when on another engine may take what a record says is held until until. The record has been
// the same since since; alive reports whether it replaced another one then.
//
// Clocks that disagree by more than skew must neither keep a run from being
// taken over nor have it taken from an engine that is well. So a record that
// stood still for a lease and skew is free, whatever time is in it: its holder
// would have renewed it several times. And one that was seen to change is not
// free within a lease of that, even if the holder's clock is far behind.
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

// Acquire takes the lease of a run under a new epoch, and returns the record of the
// placement as it was written with it.
//
// It begins with the record that this engine saw last: where that is old, nothing is written.
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
				continue // it was the placement that changed meanwhile
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

// takeover gives a run's record a new lease and returns the commit of it. The
// epoch is the placement's, so that it is higher than that of every run and every
// engine that wrote to a cluster for this placement before: the placement's
// record is written first.
func (st *State) takeover(rec *record.Run, rev backend.Revision, p *record.Placement, prev backend.Revision) (*record.Commit, error) {
	out, err := lifecycle.Advance(p.State, lifecycle.RunTaken{Epoch: p.Epoch + 1}, lifecycle.Facts{})
	if err != nil {
		return nil, HostError(err)
	}
	p.State = out.State
	rec.Lease = record.Lease{Holder: st.cfg.Name, Epoch: p.Epoch, Until: stages.At(st.cfg.Clock()).Add(st.cfg.Lease)}
	rec.Seq++
	taken := stages.Event{
		Time: st.Now(), Type: stages.RunTaken, Placement: rec.Run.Placement, Run: rec.Run.Name,
		By: st.cfg.Name, Epoch: p.Epoch,
	}
	c := &record.Commit{Pages: []backend.Write{{Key: record.PlacementKey(rec.Run.Placement), Value: record.Encode(p), Prev: prev}}}
	rec.Journal = rec.Journal.Append(c, rec.Run.UID, []stages.Event{taken})
	c.Record = backend.Write{Key: record.RunKey(rec.Run.Name), Value: rec.Encode(), Prev: rev}
	return c, nil
}
