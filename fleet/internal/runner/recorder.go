package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// recorder has the record of a run and saves its changes. The lease is part of the record, so each
// save also renews it.
//
// A save may fail with an unknown outcome: it may have taken effect, or take effect later. The
// recorder then saves nothing more before it has read the record again, see resolve.
type recorder struct {
	store backend.Store
	// read reads the record of a run.
	read func(ctx context.Context, name string) (*record.Run, backend.Revision, error)
	// now is the engine's clock, length the duration of a lease.
	now    func() time.Time
	length time.Duration
	plan   *stages.Plan

	// rec is the record as it was last saved or read, rev its revision, pages its pages.
	rec   *record.Run
	rev   backend.Revision
	pages record.InFlightPages
	// tried are the attempts since the last successful save, by their number. unsure reports
	// whether the outcome of the last one is unknown.
	tried  map[int]attempt
	unsure bool
	pace   pace
	own    ownWrites
	// inFlight is the number of clusters in flight.
	inFlight atomic.Int64
}

// attempt is an attempt to save. If the save succeeds, the marked part of the input is consumed and
// drops are superfluous.
type attempt struct {
	mark  mark
	began time.Time
	drops []backend.Write
}

// ownWrites tells a driver's own writes of its run's record from the writes of others.
type ownWrites struct {
	// told is the last revision of the run that a watch reported. wrote are the last revisions that
	// the driver wrote.
	told  atomic.Value
	wrote [8]backend.Revision
}

// add notes that the driver has written the record with this sequence number, which is negative if
// it has overflowed.
func (w *ownWrites) add(seq int64, rev backend.Revision) {
	w.wrote[uint64(seq)%uint64(len(w.wrote))] = rev
}

// reported notes a revision that a watch has reported. It may be called concurrently.
func (w *ownWrites) reported(rev backend.Revision) { w.told.Store(rev) }

// last reports whether the driver itself made the run's last change that the watch reported. If
// not, another engine may have the run.
func (w *ownWrites) last() bool {
	last, told := w.told.Load().(backend.Revision)
	return !told || slices.Contains(w.wrote[:], last)
}

// newRecorder returns the recorder of a run that has just been taken.
func newRecorder(e *engine, plan *stages.Plan, rec *record.Run, rev backend.Revision) *recorder {
	r := &recorder{
		store: e.Store, read: e.State.Run, now: e.Clock, length: e.Lease, plan: plan, rec: rec, rev: rev,
		pages: record.InFlightPages{
			Store: e.Store, UID: rec.Run.UID, None: len(plan.Clusters) <= min(record.InFlightHere, record.ListHere),
		},
	}
	r.own.add(rec.Seq, rev)
	return r
}

// run returns the run as it was last saved.
func (r *recorder) run() *step.Run { return &r.rec.Run }

// open reads the clusters in flight, and deletes the pages that earlier engines left.
func (r *recorder) open(ctx context.Context) error {
	err := r.pages.Read(ctx, r.rec)
	if state.IsNotFound(err) {
		return record.Damaged(record.RunKey(r.rec.Run.Name), errors.New(err.Error()))
	}
	if err != nil {
		return err
	}
	if err := r.rec.Check(r.plan); err != nil {
		return err
	}
	if r.rec.Run.Started == 0 { // nothing was in flight
		return nil
	}
	return r.pages.Sweep(ctx, r.rec.Lease.Epoch-1, r.rec.InFlight.Names())
}

// save saves the outcome of a step, and returns the attempt. mark is the part of the input that the
// step had; drops are deleted with the save.
func (r *recorder) save(ctx context.Context, ready *step.Ready, m mark, drops []backend.Write) (attempt, error) {
	next, c := r.compose(ready, m, drops)
	began := time.Now()
	rev, err := c.Write(ctx, r.store)
	r.pace.add(time.Since(began))
	if err != nil {
		r.unsure = true
		return attempt{}, fmt.Errorf("run %s: %w", r.rec.Run.Name, err)
	}
	r.pages.Commit(c, next.InFlight, next.Run.Form(runstate.Key{}).InFlight)
	return r.saved(next, rev), nil
}

// compose returns the next record and its commit. The commit writes the pages that the record
// refers to. It deletes drops and the pages that the record no longer needs.
func (r *recorder) compose(ready *step.Ready, m mark, drops []backend.Write) (next *record.Run, c *record.Commit) {
	next, c = new(record.Run), new(record.Commit)
	*next = *r.rec
	next.Run = ready.Run
	next.Seq++
	next.Lease.Until = stages.At(r.now()).Add(r.length)
	next.InFlight = r.pages.Write(c, next.Lease.Epoch, next.Seq, &ready.Run)
	next.Try = r.pages.Tries
	next.Journal = r.rec.Journal.Append(c, r.rec.Run.UID, ready.Events)
	c.Record = backend.Write{Key: record.RunKey(r.rec.Run.Name), Value: next.Encode(), Prev: r.rev}
	c.Drops = append(c.Drops, drops...)
	if r.tried == nil {
		r.tried = map[int]attempt{}
	}
	r.tried[next.Try] = attempt{m, time.Now(), c.Drops}
	return next, c
}

// saved notes that a record was committed, and returns the attempt that did it.
func (r *recorder) saved(next *record.Run, rev backend.Revision) attempt {
	r.rec, r.rev = next, rev
	r.own.add(next.Seq, rev)
	r.inFlight.Store(int64(len(next.Run.Form(runstate.Key{}).InFlight)))
	took := r.tried[next.Try]
	r.tried = nil
	return took
}

// resolve finds out the outcome of a failed save. It returns the attempt that has taken effect, nil
// if there is none. No other engine writes the record under this driver's epoch, so a record with a
// higher sequence number is this driver's.
func (r *recorder) resolve(ctx context.Context) (*attempt, error) {
	if !r.unsure {
		return nil, nil
	}
	name := r.rec.Run.Name
	rec, rev, err := r.read(ctx, name)
	if err != nil {
		return nil, err
	}
	if rec.Run.UID != r.rec.Run.UID || rec.Lease.Epoch != r.rec.Lease.Epoch {
		return nil, fmt.Errorf("run %s: %w: %s has it at epoch %d, this engine had it at %d", name, backend.ErrFenced, rec.Lease.Holder, rec.Lease.Epoch, r.rec.Lease.Epoch)
	}
	pages := record.InFlightPages{Store: r.store, UID: rec.Run.UID, None: r.pages.None, Tries: r.pages.Tries}
	if err = pages.Read(ctx, rec); state.IsNotFound(err) {
		return nil, fmt.Errorf("another writer saved run %s: %w: %s", name, backend.ErrConflict, err.Error())
	}
	if err != nil {
		return nil, err
	}
	if err := rec.Check(r.plan); err != nil {
		return nil, err
	}
	r.unsure = false
	if rec.Seq <= r.rec.Seq {
		r.rev = rev
		return nil, nil
	}
	r.pages = pages
	record.Discard(ctx, r.store, r.tried[rec.Try].drops)
	took := r.saved(rec, rev)
	return &took, nil
}

// sweep deletes the unused pages of this engine and of earlier engines.
func (r *recorder) sweep(ctx context.Context, kept []string) error {
	return r.pages.Sweep(ctx, r.rec.Lease.Epoch, kept)
}

// release saves the ended run without a holder.
func (r *recorder) release(ctx context.Context) error {
	next := *r.rec
	next.Lease.Holder, next.Lease.Until = "", 0
	next.Seq++
	rev, err := r.store.Put(ctx, record.RunKey(next.Run.Name), next.Encode(), r.rev)
	if err != nil {
		return err
	}
	r.rec, r.rev = &next, rev
	r.own.add(next.Seq, rev)
	return nil
}

// giveBack releases the lease of a run that its engine stops driving. A run that has ended keeps
// its holder, which marks that its end is not recorded with the placement.
func (r *recorder) giveBack(ctx context.Context) {
	if _, err := r.resolve(ctx); err != nil || r.rec.Lease.Holder == "" {
		return
	}
	next := *r.rec
	next.Lease.Until = 0
	if !next.Run.IsEnded() {
		next.Lease.Holder = ""
	}
	next.Seq++
	_, _ = r.store.Put(ctx, record.RunKey(next.Run.Name), next.Encode(), r.rev)
}
