package state

import (
	"context"
	"errors"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
)

// collectTries is how often a collection is retried after a conflict on the placement's record. What is left
// then is collected the next time.
const collectTries = 5

// DigestsOf adds the digest of everything that a set consists of to into.
func (st *State) DigestsOf(ctx context.Context, placement, set string, into map[string]bool) error {
	if into[set] {
		return nil
	}
	items, root, err := st.contents.Indexed(ctx, placement, set)
	if err != nil {
		return err
	}
	into[set] = true
	for _, p := range root.Pages {
		into[p] = true
	}
	for i := range items {
		into[items[i].Digest] = true
	}
	return nil
}

// collector deletes what nothing refers to any more.
type collector struct{ *State }

// collect deletes what is stored of retired runs, and of the placement what
// nothing refers to.
//
// It is safe beside captures, new runs and other commits of the placement. The collection first raises
// GCGeneration in the placement's record, and then deletes only the revisions that it listed before. A writer
// that stored a content or a plan before that, and has not committed a reference to it, finds that
// GCGeneration was raised and stores it again. If the writer died and has recorded a run, the engine that
// finds the run abandons it. Pages that were written for a commit of the older record cannot be committed any
// more.
func (c collector) collect(ctx context.Context, name string) {
	err := backend.ErrConflict
	for try := 0; try < collectTries && errors.Is(err, backend.ErrConflict); try++ {
		err = c.tryCollect(ctx, name)
	}
	if err != nil && ctx.Err() == nil {
		c.log.Warn("a placement was not cleaned up, which is tried again later", "placement", name, "error", err)
	}
}

func (c collector) tryCollect(ctx context.Context, name string) error {
	rec, rev, err := c.Placement(ctx, name)
	if err != nil {
		return err
	}
	g, unclear := c.garbage(ctx, rec)
	if g.isEmpty(rec) {
		return unclear
	}
	step, err := lifecycle.Advance(rec.State, lifecycle.CollectionBegun{GCGeneration: rec.GCGeneration}, lifecycle.Facts{})
	if err != nil {
		return err
	}
	rec.State, rec.Journal = step.State, g.journal
	if _, err := c.store.Put(ctx, record.PlacementKey(name), record.Encode(rec), rev); err != nil {
		return err
	}
	if err := c.remove(ctx, g); err != nil {
		return err
	}
	for _, r := range rec.Retired {
		if err := c.Erase(ctx, r); err != nil {
			return err
		}
	}
	return errors.Join(unclear, c.settle(ctx, name, rec.Retired))
}

// settle removes runs that were erased from the placement's record.
func (c collector) settle(ctx context.Context, name string, erased []lifecycle.Run) error {
	if len(erased) == 0 {
		return nil
	}
	var uids []string
	for _, r := range erased {
		uids = append(uids, r.UID)
	}
	_, _, err := c.Decide(ctx, name, &Transition{Input: Always(lifecycle.Collected{UIDs: uids})})
	return err
}

// Revisions lists the keys under a prefix with their revisions.
func (st *State) Revisions(ctx context.Context, prefix string) (out []backend.Record, err error) {
	for r, err := range st.store.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		out = append(out, backend.Record{Key: r.Key, Revision: r.Revision})
	}
	return out, nil
}

// referenced returns the digests of all contents that are in use: those of the snapshots that are kept, of
// the revisions in the plans of runs of those snapshots, and of what clusters have, or had before a run that
// may be rolled back.
func (c collector) referenced(ctx context.Context, rec *record.Placement, plans map[string]bool) (map[string]bool, error) {
	used := map[string]bool{}
	for _, s := range rec.Snapshots {
		used[s.Overrides], used[s.Origins] = true, true
		if err := c.DigestsOf(ctx, rec.Placement.Name, s.Set, used); err != nil {
			return nil, err
		}
	}
	if err := c.bound(ctx, rec, used); err != nil {
		return nil, err
	}
	for digest, kept := range plans {
		if !kept {
			continue
		}
		p, err := c.ReadPlan(ctx, digest)
		if IsNotFound(err) || err == nil && !rec.Has(p.Index) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, set := range p.Revisions {
			if err := c.DigestsOf(ctx, rec.Placement.Name, set, used); err != nil && !IsNotFound(err) {
				return nil, err
			}
		}
	}
	return used, nil
}

// bound adds the digests of all that clusters have by the bindings, and of what they had before a run that
// may be rolled back.
func (c collector) bound(ctx context.Context, rec *record.Placement, into map[string]bool) error {
	heads := []lifecycle.Generation{rec.Bindings}
	if rec.Base != nil && rec.Base.Bindings != rec.Bindings {
		heads = append(heads, rec.Base.Bindings)
	}
	for _, head := range heads {
		r, err := c.Bindings(ctx, rec, head)
		if err != nil {
			return err
		}
		for _, h := range r {
			if h.Revision == "" {
				continue
			}
			if err := c.DigestsOf(ctx, rec.Placement.Name, h.Revision, into); err != nil && !IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}

// Erase deletes what is stored of a run besides its plan. The intent is left for the next collection, which
// finds what a paused driver of the run has written meanwhile.
func (st *State) Erase(ctx context.Context, r lifecycle.Run) error {
	rr, rev, err := st.Run(ctx, r.Name)
	if err == nil && rr.Run.UID == r.UID {
		err = st.store.Delete(ctx, record.RunKey(r.Name), rev)
	}
	if err != nil && !IsNotFound(err) && !errors.Is(err, backend.ErrPermanent) {
		return err
	}
	for _, prefix := range record.OwnPrefixes(r.UID) {
		record.DiscardAll(ctx, st.store, prefix)
	}
	return nil
}
