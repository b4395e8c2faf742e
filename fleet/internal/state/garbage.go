package state

import (
	"context"
	"errors"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
)

// garbage is the unreferenced data of a placement that a collection deletes, at the revisions that
// the collection read.
type garbage struct {
	records []backend.Record
	// plans are the plans that only retired or lost runs refer to, by digest.
	plans map[string][]backend.Record
	// lost are intents of runs that have no record. An earlier collection has marked these intents,
	// so this one deletes them.
	lost []RunIntent
	// selections are the selections of runs that are not admitted yet; they are kept.
	selections map[string]bool
	// journal is the placement's journal after trimming.
	journal record.Journal
}

// isEmpty reports whether there is nothing to delete.
func (g *garbage) isEmpty(rec *record.Placement) bool {
	return len(g.records)+len(g.plans)+len(g.lost)+len(rec.Retired) == 0 && g.journal.IsAt(rec.Journal)
}

// garbage finds unreferenced data. If references are unreadable, it keeps all data that they may
// refer to and returns the error.
func (c collector) garbage(ctx context.Context, rec *record.Placement) (*garbage, error) {
	g := &garbage{plans: map[string][]backend.Record{}, selections: map[string]bool{}, journal: rec.Journal}
	used, err := c.usedPlans(ctx, rec, g)
	if err != nil {
		return g, err
	}
	return g, errors.Join(
		c.unusedPlans(ctx, rec, used, g),
		c.unusedContents(ctx, rec, used, g),
		c.unusedPages(ctx, rec, g),
	)
}

// usedPlans returns the digests of the plans that runs refer to. The value is true if the snapshot
// of the plan may be kept. It marks the intents of lost runs, or collects those that were marked
// before.
func (c collector) usedPlans(ctx context.Context, rec *record.Placement, g *garbage) (map[string]bool, error) {
	used := map[string]bool{}
	for _, r := range rec.Runs {
		used[r.Plan] = used[r.Plan] || rec.Has(r.Index)
	}
	all, err := c.RunIntents(ctx, rec.Placement.Name)
	for i := 0; i < len(all) && err == nil; i++ {
		b := &all[i]
		switch {
		case rec.HasRun(b.UID):
		case rec.IsRetired(b.UID):
			err = c.markLost(ctx, b)
		default:
			err = c.collectIntent(ctx, b, used, g)
		}
	}
	return used, err
}

// collectIntent collects the intent of a run that its placement does not know, if the run is lost
// and was marked before. Until then the plan of the run is in use, because the run may still be
// admitted.
func (c collector) collectIntent(ctx context.Context, b *RunIntent, used map[string]bool, g *garbage) error {
	lost, err := c.isLost(ctx, b)
	if err != nil {
		return err
	}
	if lost && b.Lost {
		g.lost = append(g.lost, *b)
		return nil
	}
	used[b.Plan] = true
	if lost {
		return c.markLost(ctx, b)
	}
	g.selections[b.selection] = true
	return nil
}

func (c collector) unusedPlans(ctx context.Context, rec *record.Placement, used map[string]bool, g *garbage) error {
	elsewhere := map[string]bool{} // the plans that a kept record refers to
	for _, r := range rec.Retired {
		elsewhere[r.Plan] = true
		if err := c.unusedPlan(ctx, r.Plan, used, g); err != nil {
			return err
		}
	}
	for i := range g.lost {
		l := &g.lost[i]
		if err := c.unusedPlan(ctx, l.Plan, used, g); err != nil {
			return err
		}
		l.bare = len(l.pages) == 0 && (elsewhere[l.Plan] || len(g.plans[l.Plan]) == 0)
		elsewhere[l.Plan] = elsewhere[l.Plan] || !l.bare
	}
	return nil
}

func (c collector) unusedPlan(ctx context.Context, digest string, used map[string]bool, g *garbage) error {
	_, is := used[digest]
	if is || digest == "" || len(g.plans[digest]) > 0 {
		return nil
	}
	plan, err := c.Revisions(ctx, PlanKey(digest))
	if len(plan) > 0 {
		g.plans[digest] = plan
	}
	return err
}

func (c collector) unusedContents(ctx context.Context, rec *record.Placement, plans map[string]bool, g *garbage) error {
	prefix := record.ContentPrefix(rec.Placement.Name)
	contents, err := c.Revisions(ctx, prefix)
	if err != nil {
		return err
	}
	used, err := c.referenced(ctx, rec, plans)
	if err != nil {
		return err
	}
	for _, r := range contents {
		if !used[strings.TrimPrefix(r.Key, prefix)] {
			g.records = append(g.records, r)
		}
	}
	return nil
}

// unusedPages collects the pages of the placement that its record does not name. A writer that
// wrote them for a commit can no longer make that commit after the record has changed.
func (c collector) unusedPages(ctx context.Context, rec *record.Placement, g *garbage) error {
	name := rec.Placement.Name
	pages, err := c.Revisions(ctx, record.BindingsPrefix(name))
	if err != nil {
		return err
	}
	for _, r := range pages {
		if !rec.NamesBindings(r.Key) {
			g.records = append(g.records, r)
		}
	}
	if err := c.unusedSelections(ctx, rec, g); err != nil {
		return err
	}
	head, old, err := record.Trimmed(ctx, c.store, rec)
	if err != nil {
		return err
	}
	g.journal, g.records = head, append(g.records, old...)
	return nil
}

func (c collector) unusedSelections(ctx context.Context, rec *record.Placement, g *garbage) error {
	prefix := record.SelectionPrefix(rec.Placement.Name)
	if rec.Selection != nil {
		g.selections[rec.Selection.Digest] = true
	}
	pages, err := c.Revisions(ctx, prefix)
	for _, r := range pages {
		digest, _, _ := strings.Cut(strings.TrimPrefix(r.Key, prefix), "/")
		if !g.selections[digest] {
			g.records = append(g.records, r)
		}
	}
	return err
}

// remove deletes the garbage. It deletes an intent only if no other data of its run was found.
func (c collector) remove(ctx context.Context, g *garbage) error {
	all := g.records
	for _, plan := range g.plans {
		all = append(all, plan...)
	}
	for i := range g.lost {
		all = append(all, g.lost[i].pages...)
		if g.lost[i].bare {
			all = append(all, g.lost[i].self)
		}
	}
	for _, r := range all {
		if err := c.store.Delete(ctx, r.Key, r.Revision); err != nil && !IsNotFound(err) && !errors.Is(err, backend.ErrConflict) {
			return err
		}
	}
	return nil
}
