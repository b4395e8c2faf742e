package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
)

// DriftOptions narrow a drift report. The zero value is about every cluster of
// the inventory that the placement picks or has been to.
type DriftOptions struct {
	// Clusters restricts the report to these; empty means all. A cluster that the placement does not pick and
	// has not been to, or that the inventory does not have, is an error.
	Clusters []string
	// Index compares with a snapshot instead of with what each cluster was last
	// brought to.
	Index *int
	// Comparison overrides that of the placement.
	Comparison drift.Comparison
}

// driftOptions narrow a comparison. They are what [DriftOptions] ask for.
type driftOptions struct {
	Clusters   []string
	Index      *int
	Comparison drift.Comparison
}

// Drift compares the clusters of a placement with what they should have: what
// its ledger says of each, or, where the placement only reports, the latest
// snapshot. It only reads, on the clusters and in the store, and may be called
// at any time.
//
// It yields every cluster once, as soon as it has been compared; a few are compared at the same time. A
// cluster that cannot be read is yielded with its problems; an object that [Engine.Drifted] has keeps its
// FirstObserved. After an error, which is about the placement, it yields nothing more. [GroupDrift] groups
// clusters that differ in the same way.
func (e *Engine) Drift(ctx context.Context, name string, o DriftOptions) iter.Seq2[ClusterDrift, error] {
	return e.drift(ctx, name, driftOptions(o))
}

// drift compares the clusters of a placement, and keeps when a difference was observed first.
func (e *Engine) drift(ctx context.Context, name string, o driftOptions) iter.Seq2[ClusterDrift, error] {
	return func(yield func(ClusterDrift, error) bool) {
		seen, err := e.drifted(ctx, name)
		if err != nil && !isLasting(err) { // what cannot be read of the past keeps no report back
			yield(ClusterDrift{Placement: name}, err)
			return
		}
		before := make(map[string]*ClusterDrift, len(seen))
		for i := range seen {
			before[seen[i].Cluster] = &seen[i]
		}
		for c, err := range e.driftOf(ctx, name, o, true) {
			if old := before[c.Cluster]; old != nil {
				keepFirstObserved(&c, old)
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// driftOf is Drift; strict reports whether clusters of o that are not compared are an error.
func (e *Engine) driftOf(ctx context.Context, name string, o driftOptions, strict bool) iter.Seq2[ClusterDrift, error] {
	return func(yield func(ClusterDrift, error) bool) {
		s, err := e.survey(ctx, name, o)
		if err == nil && strict {
			err = s.missing(o.Clusters)
		}
		if err != nil {
			yield(ClusterDrift{Placement: name}, err)
			return
		}
		for c := range s.all(ctx) {
			if !yield(c, nil) {
				return
			}
		}
		if ctx.Err() != nil {
			yield(ClusterDrift{Placement: name}, ctx.Err())
		}
	}
}

// survey compares the clusters of a placement.
type survey struct {
	e        *Engine
	rec      *record.Placement
	strategy ApplyStrategy
	clusters []placement.Cluster
	// wanted are the revisions to compare with; nil is that of each ledger.
	wanted *wanted
}

// survey plans a comparison of the clusters of a placement.
func (e *Engine) survey(ctx context.Context, name string, o driftOptions) (s *survey, err error) {
	if e.snapshots == nil {
		return nil, fmt.Errorf("placement %s: drift cannot be told with an Updater of the host's: it is about objects that the engine applies", name)
	}
	if err := errors.Join(about("drift of placement "+name, o.problems())); err != nil {
		return nil, err
	}
	err = e.withPlacement(ctx, name, func(rec *record.Placement) error {
		s = &survey{e: e, rec: rec, strategy: rec.Placement.ApplyStrategy}
		s.strategy.ComparisonOption = cmp.Or(o.Comparison, s.strategy.ComparisonOption)
		return s.plan(ctx, o)
	})
	return s, err
}

// plan works out which clusters are compared, and with what.
func (s *survey) plan(ctx context.Context, o driftOptions) error {
	inventory, err := s.e.inventory(ctx)
	if err != nil {
		return err
	}
	decision, err := s.e.resolve(ctx, s.rec, inventory)
	if err != nil {
		return err
	}
	bindings, err := s.e.bindingsOf(ctx, s.rec)
	if err != nil {
		return err
	}
	names := append(slices.Collect(maps.Keys(bindings)), decision.Clusters...)
	slices.Sort(names)
	only := slices.Sorted(slices.Values(o.Clusters))
	for _, n := range slices.Compact(names) {
		c, known := inventory[n]
		if _, asked := slices.BinarySearch(only, n); known && (asked || len(only) == 0) {
			s.clusters = append(s.clusters, c)
		}
	}
	if o.Index == nil && !member.ReportsOnly(&s.strategy) {
		return nil
	}
	s.wanted, err = s.e.want(ctx, s.rec, o.Index, s.clusters)
	return err
}

// missing returns an error that names the clusters of asked that are not compared.
func (s *survey) missing(asked []string) error {
	var errs []error
	for _, name := range asked {
		_, ok := slices.BinarySearchFunc(s.clusters, name, func(c placement.Cluster, n string) int { return cmp.Compare(c.Name, n) })
		if !ok {
			errs = append(errs, &NotFoundError{
				Kind: "cluster", Name: name + " of placement " + s.rec.Placement.Name,
				Hint: "the placement must pick it or have been to it, and the inventory must have it",
			})
		}
	}
	return member.JoinProblems(errs)
}

// all compares every cluster.
func (s *survey) all(ctx context.Context) iter.Seq[ClusterDrift] {
	return surveyed(ctx, s.clusters, s.look)
}

// look compares one cluster, within the limits of concurrency.
func (s *survey) look(ctx context.Context, c placement.Cluster) ClusterDrift {
	x := s.comparison(c)
	leave, err := s.e.lanes.Enter(ctx, c.Name)
	if err != nil {
		return x.Failed(err)
	}
	found, err := s.e.snapshots.Compare(ctx, x)
	if errors.Is(err, member.ErrRevisionGone) {
		s.e.renderAgain(ctx, s.rec, c)
		found, err = s.e.snapshots.Compare(ctx, x)
	}
	leave(err)
	if err != nil {
		return x.Failed(err)
	}
	return found
}

// comparison is that of one cluster.
func (s *survey) comparison(c placement.Cluster) member.Comparison {
	x := member.Comparison{
		Placement: s.rec.Placement.Name, Strategy: s.strategy, Key: s.rec.Key, Cluster: c, Now: s.e.now(),
	}
	if s.wanted != nil {
		x.Revision = s.wanted.of(c.Name)
	}
	return x
}

// wanted are the revisions that clusters should have by a snapshot.
type wanted struct {
	most     *member.Revision
	variants map[string]*member.Revision
}

func (w *wanted) of(cluster string) *member.Revision { return cmp.Or(w.variants[cluster], w.most) }

// want renders a snapshot, the latest one without an index, for clusters.
func (e *Engine) want(ctx context.Context, rec *record.Placement, index *int, clusters []placement.Cluster) (*wanted, error) {
	last, ok := rec.Latest()
	if index == nil && !ok {
		return nil, &NotFoundError{Kind: "snapshot", Name: "of placement " + rec.Placement.Name, Hint: "take one with Capture"}
	}
	if index == nil {
		index = &last.Index
	}
	f, err := e.load(ctx, rec, *index)
	if err != nil {
		return nil, err
	}
	d := &draft{frozen: f}
	t := d.target(rec)
	if err := d.render(&t, clusters, nil); err != nil { // nil allows everything: the result is compared, never applied
		return nil, err
	}
	w := &wanted{variants: map[string]*member.Revision{}}
	if w.most, err = member.NewRevision(rec.Placement.Name, f.set); err != nil {
		return nil, err
	}
	byDigest := map[string]*member.Revision{}
	for cluster, digest := range t.Revision {
		if byDigest[digest] == nil {
			if byDigest[digest], err = d.variants.revision(rec.Placement.Name, digest); err != nil {
				return nil, err
			}
		}
		w.variants[cluster] = byDigest[digest]
	}
	return w, nil
}

// DriftGroup are clusters that differ in the same way.
type DriftGroup struct {
	Fingerprint string `json:"fingerprint"`
	// Clusters are their names, ascending.
	Clusters []string `json:"clusters"`
	// Objects are those of the first cluster; times, generations and field managers may differ on the others.
	Objects []ObjectDrift `json:"objects"`
}

// GroupDrift puts clusters together that differ in the same way, so that one
// edit on a thousand clusters is one group. The largest group comes first;
// clusters that do not differ are in none.
func GroupDrift(all []ClusterDrift) []DriftGroup {
	by := map[string]*DriftGroup{}
	for _, c := range slices.SortedFunc(slices.Values(all), func(a, b ClusterDrift) int { return cmp.Compare(a.Cluster, b.Cluster) }) {
		f := c.Fingerprint()
		if f == "" {
			continue
		}
		if by[f] == nil {
			by[f] = &DriftGroup{Fingerprint: f, Objects: c.Objects}
		}
		by[f].Clusters = append(by[f].Clusters, c.Cluster)
	}
	out := make([]DriftGroup, 0, len(by))
	for _, g := range by {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b DriftGroup) int {
		return cmp.Or(cmp.Compare(len(b.Clusters), len(a.Clusters)), cmp.Compare(a.Clusters[0], b.Clusters[0]))
	})
	return out
}
