package fleet

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// collectTries is how often a collection begins again because the placement
// changed under it. What it leaves is collected the next time.
const collectTries = 5

func isNotFound(err error) bool { return errors.Is(err, backend.ErrNotFound) }

func contentPrefix(placement string) string { return "content/" + placement + "/" }

// trim drops the snapshots and the ended runs beyond their limits that nothing
// needs, and reports whether there is something to collect: these, or events of
// the placement that are too old.
func (rec *placementRecord) trim() bool {
	rec.retire()
	drop := snapshot.Retain(rec.Snapshots, rec.Placement.HistoryLimit, rec.needed())
	rec.Snapshots = slices.DeleteFunc(rec.Snapshots, func(s snapshot.Snapshot) bool {
		return slices.Contains(drop, s.Index)
	})
	return len(drop) > 0 || len(rec.Retired) > 0 || rec.Journal.kept() > 2*rec.eventsKept()
}

// retire forgets the runs that ended first, beyond the limit.
func (rec *placementRecord) retire() {
	var ended []int64
	for i := range rec.Runs {
		switch r := &rec.Runs[i]; {
		case r.Ended == "":
			r.Nth = 0
			continue
		case r.Nth == 0:
			rec.Ended++
			r.Nth = rec.Ended
		}
		ended = append(ended, rec.Runs[i].Nth)
	}
	keep := rec.runsKept()
	if len(ended) <= keep {
		return
	}
	slices.Sort(ended)
	rec.drop(func(r runEntry) bool {
		return r.Nth != 0 && r.Nth < ended[len(ended)-keep] && !rec.isUndone(r.UID)
	})
}

// runsKept is how many runs that have ended are kept.
func (rec *placementRecord) runsKept() int {
	return cmp.Or(max(0, rec.Placement.RunHistory), runHistoryKept)
}

// drop forgets the runs that match. What is stored of them is deleted by the
// next collection.
func (rec *placementRecord) drop(match func(runEntry) bool) (dropped []runEntry) {
	for _, r := range rec.Runs {
		if match(r) {
			rec.forgetBase(r.UID)
			dropped = append(dropped, r)
			rec.Line = rec.Line.Leave(r.UID)
		}
	}
	rec.Retired = append(rec.Retired, dropped...)
	rec.Runs = slices.DeleteFunc(rec.Runs, match)
	return dropped
}

// needed are the indexes that a run, a cluster's ledger or a rollback needs.
func (rec *placementRecord) needed() map[int]bool {
	out := map[int]bool{}
	for _, i := range append(slices.Clone(rec.InUse), rec.Base.inUse()...) {
		out[i] = true
	}
	for _, i := range []*int{rec.Whole, rec.Previous} { // Whole is what the next one comes from
		if i != nil {
			out[*i] = true
		}
	}
	for _, r := range rec.Runs {
		if r.Ended == "" || r.Ended == stages.Failed {
			out[r.Index] = true
		}
	}
	return out
}

// digestsOf adds the digest of everything that a set consists of to into.
func (e *Engine) digestsOf(ctx context.Context, placement, set string, into map[string]bool) error {
	if into[set] {
		return nil
	}
	items, pages, err := e.contents.indexed(ctx, placement, set)
	if err != nil {
		return err
	}
	into[set] = true
	for _, p := range pages {
		into[p] = true
	}
	for i := range items {
		into[items[i].Digest] = true
	}
	return nil
}

// collect deletes what is stored of retired runs, and of the placement what
// nothing refers to.
//
// It is safe beside captures, new runs and other commits of the placement: that
// something is to go is announced in the placement's record, and only revisions
// that were seen before are deleted. Whoever stored a content or a plan before
// the announcement and has not committed a reference to it sees that Sweeps was
// raised, and stores it again; if it did not live to do so, and has recorded a
// run, that run is forgotten by whoever finds it. Pages for a commit of the record
// as it was before the announcement cannot be committed any more.
func (e *Engine) collect(ctx context.Context, name string) {
	err := backend.ErrConflict
	for try := 0; try < collectTries && errors.Is(err, backend.ErrConflict); try++ {
		err = e.tryCollect(ctx, name)
	}
	if err != nil && ctx.Err() == nil {
		e.log.Warn("a placement was not cleaned up, which is tried again later", "placement", name, "error", err)
	}
}

func (e *Engine) tryCollect(ctx context.Context, name string) error {
	rec, rev, err := e.placementAt(ctx, name)
	if err != nil {
		return err
	}
	g, unclear := e.garbage(ctx, rec)
	if g.isEmpty(rec) {
		return unclear
	}
	rec.Sweeps++
	rec.Journal = g.journal
	if _, err := e.store.Put(ctx, placementKey(name), encodeRecord(rec), rev); err != nil {
		return err
	}
	if err := e.remove(ctx, g); err != nil {
		return err
	}
	for _, r := range rec.Retired {
		if err := e.erase(ctx, r); err != nil {
			return err
		}
	}
	return errors.Join(unclear, e.settle(ctx, name, rec.Retired))
}

// settle takes the runs that were erased out of the placement's record.
func (e *Engine) settle(ctx context.Context, name string, erased []runEntry) error {
	if len(erased) == 0 {
		return nil
	}
	_, err := e.updatePlacement(ctx, name, func(rec *placementRecord) ([]stages.Event, error) {
		rec.Retired = slices.DeleteFunc(rec.Retired, func(r runEntry) bool { return slices.Contains(erased, r) })
		return nil, nil
	})
	return err
}

// revisions lists the keys under a prefix with their revisions.
func (e *Engine) revisions(ctx context.Context, prefix string) (out []backend.Record, err error) {
	for r, err := range e.store.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		out = append(out, backend.Record{Key: r.Key, Revision: r.Revision})
	}
	return out, nil
}

// referenced are the digests of all contents that are needed: those of the
// snapshots that are kept, what runs of these bring to clusters by their plans, and
// what clusters have, or had before a run that may be taken back.
func (e *Engine) referenced(ctx context.Context, rec *placementRecord, plans map[string]bool) (map[string]bool, error) {
	used := map[string]bool{}
	for _, s := range rec.Snapshots {
		if s.Overrides != "" {
			used[s.Overrides] = true
		}
		if err := e.digestsOf(ctx, rec.Placement.Name, s.Set, used); err != nil {
			return nil, err
		}
	}
	if err := e.proven(ctx, rec, used); err != nil {
		return nil, err
	}
	for digest, kept := range plans {
		if !kept {
			continue
		}
		p, err := e.readPlan(ctx, digest)
		if isNotFound(err) || err == nil && !rec.has(p.Index) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, set := range p.Revisions {
			if err := e.digestsOf(ctx, rec.Placement.Name, set, used); err != nil && !isNotFound(err) {
				return nil, err
			}
		}
	}
	return used, nil
}

// has reports whether the snapshot of an index is kept.
func (rec *placementRecord) has(index int) bool {
	return slices.ContainsFunc(rec.Snapshots, func(s snapshot.Snapshot) bool { return s.Index == index })
}
