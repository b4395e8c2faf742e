package state

import (
	"context"
	"errors"
	"log/slog"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
)

// collectTries is the number of attempts of a collection after conflicts on the placement's record.
// The next collection deletes the rest.
const collectTries = 5

// DigestsOf adds the digests of a set, its pages and its objects to into.
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

// collector deletes unreferenced data.
type collector struct{ *State }

// collect deletes the data of retired runs and the unreferenced data of the placement.
//
// It is safe while captures, new runs and other commits of the placement are in progress. The
// collection first raises GCGeneration in the placement's record, and then deletes only the
// revisions that it listed before. If a writer stored a content or a plan before that and has not
// committed a reference to it, the writer finds GCGeneration raised and stores the data again. If
// the writer died and has recorded a run, the engine that finds the run abandons it. Pages that
// were written for a commit of the older record can no longer be committed.
func (c collector) collect(ctx context.Context, name string) {
	err := backend.ErrConflict
	for try := 0; try < collectTries && errors.Is(err, backend.ErrConflict); try++ {
		err = c.tryCollect(ctx, name)
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	level := slog.LevelWarn
	if errors.Is(err, backend.ErrConflict) { // others write the placement all the time, so the next collection comes soon
		level = slog.LevelDebug
	}
	c.log.Log(ctx, level, "a placement was not cleaned up, which is tried again later", "placement", name, "error", err)
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

// settle removes erased runs from the placement's record.
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

// Revisions returns the keys under a prefix with their revisions.
func (st *State) Revisions(ctx context.Context, prefix string) (out []backend.Record, err error) {
	for r, err := range st.store.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		out = append(out, backend.Record{Key: r.Key, Revision: r.Revision})
	}
	return out, nil
}

// referenced returns the digests of all contents in use: the contents of kept snapshots, the
// revisions in the plans of runs of those snapshots, and the revisions in the bindings and in Base.
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
		p, err := c.Plans.Read(ctx, digest)
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

// bound adds the digests of all revisions in the current bindings and in the bindings of Base.
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

// Erase deletes the stored data of a run except its plan. The intent remains for the next
// collection, which deletes the data that a paused driver of the run has written since.
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
