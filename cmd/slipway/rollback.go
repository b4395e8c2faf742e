package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// rollbackEffect has the effects of a rollback, besides its plan.
type rollbackEffect struct {
	plan *stages.Plan
	// policy is the delete policy of the placement.
	policy placement.DeletePolicy
	// gone are the objects that clusters lose, by the index of the snapshot that they return to; -1
	// stands for clusters that had nothing. An index without an entry is not known.
	gone map[int][]snapshot.ID
	// superseded are the runs that the rollback supersedes.
	superseded []string
}

// effectOf returns the effect of the rollback of a run. Parts of it are not known without the right
// to the records of a hub, and if a snapshot is no longer kept.
func effectOf(ctx context.Context, c call, run string, p *stages.Plan) (*rollbackEffect, error) {
	e := &rollbackEffect{plan: p, gone: map[int][]snapshot.ID{}}
	r, err := c.summary(ctx, run)
	if err != nil {
		return nil, err
	}
	all, err := c.Placement(r.Placement).Runs(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Name != run && isQueued(c, &all[i]) {
			e.superseded = append(e.superseded, all[i].Name)
		}
	}
	placed, err := c.Placement(r.Placement).Get(ctx)
	if err != nil {
		return nil, err
	}
	e.policy = placed.DeletePolicy
	now, err := objectsOf(ctx, c, r.Placement, r.Index)
	if err != nil || now == nil {
		return e, err
	}
	for pos := range p.Clusters {
		to := p.IndexAt(pos)
		if _, known := e.gone[to]; known {
			continue
		}
		before, err := objectsOf(ctx, c, r.Placement, to)
		if err != nil {
			return nil, err
		}
		if to < 0 || before != nil {
			e.gone[to] = slices.DeleteFunc(slices.Clone(now), func(id snapshot.ID) bool { return slices.Contains(before, id) })
		}
	}
	return e, nil
}

// isQueued reports whether a run waits for its turn. A run on hold has no place in the queue, and
// neither has a run that a hub has not taken.
func isQueued(c call, r *fleet.RunSummary) bool {
	return r.State == stages.Pending || r.State == stages.NotStarted && !r.Hold && c.Hub == nil
}

// objectsOf returns the objects of a snapshot, nil if they are not known.
func objectsOf(ctx context.Context, c call, name string, index int) ([]snapshot.ID, error) {
	if index < 0 {
		return nil, nil
	}
	all, err := c.Placement(name).SnapshotObjects(ctx, index)
	if refusal, is := errors.AsType[*httpapi.Error](err); errors.Is(err, backend.ErrNotFound) || is && refusal.Reason == "Forbidden" {
		return nil, nil
	}
	ids := make([]snapshot.ID, 0, len(all))
	for i := range all {
		id := all[i].ID
		id.Version = "" // an object may have several
		ids = append(ids, id)
	}
	return ids, err
}

// goesTo returns the state that the cluster at a position of the plan returns to.
func (e *rollbackEffect) goesTo(pos int) string {
	index := e.plan.IndexAt(pos)
	text := "nothing"
	if index >= 0 {
		text = fmt.Sprintf("snapshot %d", index)
	}
	switch gone, known := e.gone[index]; {
	case known && len(gone) > 0:
		text += fmt.Sprintf(" (%s %s)", numberOf(len(gone), "object"), e.fate())
	case !known && index < 0:
		text += fmt.Sprintf(" (its objects %s)", e.fate())
	}
	return text
}

// fate describes the end of the objects that a cluster loses.
func (e *rollbackEffect) fate() string {
	if e.policy == placement.Abandon {
		return "left there"
	}
	return "deleted"
}

// loses says which objects clusters lose, a line for each index that clusters return to, those with
// nothing before first.
func (e *rollbackEffect) loses() (lines []string) {
	clusters := map[int]int{}
	var indexes []int
	for pos := range e.plan.Clusters {
		index := e.plan.IndexAt(pos)
		if clusters[index]++; clusters[index] == 1 {
			indexes = append(indexes, index)
		}
	}
	slices.Sort(indexes)
	for _, index := range indexes {
		gone, known := e.gone[index]
		if known && len(gone) == 0 || !known && index >= 0 {
			continue
		}
		text, there := numberOf(clusters[index], "cluster"), "there"
		if clusters[index] > 1 {
			there = "on each"
		}
		if index < 0 {
			text += " had nothing before it"
		} else {
			text = fmt.Sprintf("%s will return to snapshot %d", text, index)
		}
		objects, which := "its objects are", ""
		switch {
		case len(gone) == 1:
			objects, which = "1 object is", ": "+named(gone)
		case known:
			objects, which = numberOf(len(gone), "object")+" are", ": "+named(gone)
		}
		if e.policy == placement.Abandon {
			lines = append(lines, fmt.Sprintf("%s; %s left %s (policy Abandon)%s", text, objects, there, which))
		} else {
			lines = append(lines, fmt.Sprintf("%s, so %s DELETED %s%s", text, objects, there, which))
		}
	}
	return lines
}

// mostNamed is the maximum number of objects that a question names.
const mostNamed = 3

// named names some of the objects, with the Namespaces first, because their content goes with them.
func named(all []snapshot.ID) string {
	isNamespace := func(id snapshot.ID) bool { return id.Group == "" && id.Kind == "Namespace" }
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b snapshot.ID) int {
		switch {
		case isNamespace(a) && !isNamespace(b):
			return -1
		case isNamespace(b) && !isNamespace(a):
			return 1
		}
		return 0
	})
	var names []string
	for _, id := range sorted[:min(len(sorted), mostNamed)] {
		name := id.Kind + " " + strings.TrimPrefix(id.Namespace+"/"+id.Name, "/")
		if isNamespace(id) {
			name += " with all in it"
		}
		names = append(names, name)
	}
	return some(names, len(sorted))
}

// some lists the first of n names.
func some(names []string, n int) string {
	names = slices.Clone(names[:min(len(names), mostNamed)])
	if more := n - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// says returns the lines about the effect.
func (e *rollbackEffect) says() []string {
	lines := e.loses()
	switch n := len(e.superseded); n {
	case 0:
	case 1:
		lines = append(lines, "run "+e.superseded[0]+", which waits for its turn, becomes Superseded")
	default:
		lines = append(lines, fmt.Sprintf("%s, which wait for their turn, become Superseded: %s", numberOf(n, "run"), some(e.superseded, n)))
	}
	return lines
}
