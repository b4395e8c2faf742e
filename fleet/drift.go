package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// DriftState says what a [ClusterDrift] is based on.
type DriftState string

// The states of a report.
const (
	// Compared: every object was looked at.
	Compared DriftState = "Compared"
	// NotPlaced: the cluster never got the placement, or gave it up. That is no
	// drift.
	NotPlaced DriftState = "NotPlaced"
	// Updating: an update has begun and not ended, so that objects may be
	// anything between what they were and what they are to be. They are compared
	// only where they are being put back.
	Updating DriftState = "Updating"
	// Unknown: the cluster could not be looked at; Problems say why.
	Unknown DriftState = "Unknown"
)

// DriftReason says what a difference means for the object.
type DriftReason string

// The reasons.
const (
	// FoundDrifts: somebody changed what the placement applied.
	FoundDrifts DriftReason = "FoundDrifts"
	// FoundDiff: the placement only reports.
	FoundDiff DriftReason = "FoundDiff"
	// NotTakenOver: the object was there before and is never taken over.
	NotTakenOver DriftReason = "NotTakenOver"
	// FailedToTakeOver: it was there before, and differs.
	FailedToTakeOver DriftReason = "FailedToTakeOver"
	// ToCreate, ToChange, ToRemove and ToRelease are what a run would do, see
	// [Engine.Diff]. What is released is no longer the placement's and stays.
	ToCreate  DriftReason = "ToCreate"
	ToChange  DriftReason = "ToChange"
	ToRemove  DriftReason = "ToRemove"
	ToRelease DriftReason = "ToRelease"
)

// ObjectDrift is how one object differs.
type ObjectDrift struct {
	drift.Report
	Reason DriftReason `json:"reason"`
	// Observed is when it was looked at, FirstObserved since when each look found
	// a difference.
	Observed      time.Time `json:"observationTime"`
	FirstObserved time.Time `json:"firstObservedTime"`
}

// ClusterDrift is how one cluster differs from what it should have.
type ClusterDrift struct {
	Placement string     `json:"placement"`
	Cluster   string     `json:"cluster"`
	State     DriftState `json:"state"`
	// Revision is the digest of the set that it was compared with.
	Revision string    `json:"revision,omitempty"`
	Observed time.Time `json:"observationTime"`
	// Objects are those that differ, in the order of application. Total is how
	// many there are; what is kept in the store is cut at 100 objects and 256 KiB.
	Objects []ObjectDrift `json:"objects,omitempty"`
	Total   int           `json:"total"`
	// Problems are what could not be compared, and why.
	Problems []string `json:"problems,omitempty"`
}

// Fingerprint is the same for clusters that differ in the same way, empty for
// one that does not differ.
func (c *ClusterDrift) Fingerprint() string {
	if len(c.Objects) == 0 {
		return ""
	}
	var all []byte
	for i := range c.Objects {
		o := &c.Objects[i]
		all = fmt.Appendf(all, "%s/%s/%s/%s %s %s\n", o.Group, o.Kind, o.Namespace, o.Name, o.Reason, o.Report.Fingerprint)
	}
	return snapshot.Digest(all)
}

// DriftOptions narrow a drift report. The zero value is about every cluster of
// the inventory that the placement picks or has been to.
type DriftOptions struct {
	// Clusters are the only ones to look at, where there are any. One that the
	// placement does not pick and has not been to, or that the inventory does not
	// have, is an error.
	Clusters []string
	// Index compares with a snapshot instead of with what each cluster was last
	// brought to.
	Index *int
	// Comparison overrides that of the placement.
	Comparison drift.Comparison
}

// Drift compares the clusters of a placement with what they should have: what
// its ledger says of each, or, where the placement only reports, the latest
// snapshot. It only reads, on the clusters and in the store, and may be called
// at any time.
//
// It yields every cluster once, as soon as it has been looked at; a few are
// looked at at the same time. A cluster that cannot be looked at is yielded with
// its problems; an object that [Engine.Drifted] knows of keeps the time since when
// it differs. After an error, which is about the placement, it yields nothing
// more. [GroupDrift] puts together what is the same.
func (e *Engine) Drift(ctx context.Context, name string, o DriftOptions) iter.Seq2[ClusterDrift, error] {
	return func(yield func(ClusterDrift, error) bool) {
		seen, err := e.Drifted(ctx, name)
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
				c.since(old)
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// driftOf is Drift, where clusters that cannot be looked at need not be an error.
func (e *Engine) driftOf(ctx context.Context, name string, o DriftOptions, strict bool) iter.Seq2[ClusterDrift, error] {
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

// survey is a look at the clusters of a placement.
type survey struct {
	e        *Engine
	rec      *placementRecord
	strategy ApplyStrategy
	clusters []placement.Cluster
	// wanted are the revisions to compare with; nil is that of each ledger.
	wanted *wanted
}

// survey plans a look.
func (e *Engine) survey(ctx context.Context, name string, o DriftOptions) (s *survey, err error) {
	if e.conns == nil {
		return nil, fmt.Errorf("placement %s: drift cannot be told with an Updater of the host's: it is about objects that the engine applies", name)
	}
	if err := errors.Join(about("drift of placement "+name, o.problems())); err != nil {
		return nil, err
	}
	err = e.withPlacement(ctx, name, func(rec *placementRecord) error {
		s = &survey{e: e, rec: rec, strategy: rec.Placement.ApplyStrategy}
		s.strategy.ComparisonOption = cmp.Or(o.Comparison, s.strategy.ComparisonOption)
		return s.plan(ctx, o)
	})
	return s, err
}

// plan works out which clusters are looked at, and what they are compared with.
func (s *survey) plan(ctx context.Context, o DriftOptions) error {
	inventory, err := s.e.inventory(ctx)
	if err != nil {
		return err
	}
	decision, err := s.e.resolve(ctx, s.rec, inventory)
	if err != nil {
		return err
	}
	roster, err := s.e.readRoster(ctx, s.rec)
	if err != nil {
		return err
	}
	names := append(slices.Collect(maps.Keys(roster)), decision.Clusters...)
	slices.Sort(names)
	only := slices.Sorted(slices.Values(o.Clusters))
	for _, n := range slices.Compact(names) {
		c, known := inventory[n]
		if _, asked := slices.BinarySearch(only, n); known && (asked || len(only) == 0) {
			s.clusters = append(s.clusters, c)
		}
	}
	if o.Index == nil && !s.strategy.reportsOnly() {
		return nil
	}
	s.wanted, err = s.e.want(ctx, s.rec, o.Index, s.clusters)
	return err
}

// missing is an error that names the clusters that are not looked at although
// somebody asked for them.
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
	return joinProblems(errs)
}

// all looks at every cluster.
func (s *survey) all(ctx context.Context) iter.Seq[ClusterDrift] {
	return surveyed(ctx, s.clusters, s.look)
}

// look looks at one cluster, in its turn.
func (s *survey) look(ctx context.Context, c placement.Cluster) ClusterDrift {
	x := s.examination(c)
	leave, err := s.e.lanes.enter(ctx, c.Name)
	if err != nil {
		return x.failed(err)
	}
	found, err := x.examine(ctx)
	if errors.Is(err, errRevisionGone) {
		s.e.renderAgain(ctx, s.rec, c)
		found, err = x.examine(ctx)
	}
	leave(err)
	if err != nil {
		return x.failed(err)
	}
	return found
}

// examination is the look at one cluster.
func (s *survey) examination(c placement.Cluster) *examination {
	x := &examination{
		u: s.e.snapshots, placement: s.rec.Placement.Name, strategy: s.strategy, secretKey: s.rec.secretKey(), cluster: c, now: s.e.now(),
	}
	if s.wanted != nil {
		x.revision = s.wanted.of(c.Name)
	}
	return x
}

// wanted are the revisions that clusters should have by a snapshot.
type wanted struct {
	most     *revision
	variants map[string]*revision
}

func (w *wanted) of(cluster string) *revision { return cmp.Or(w.variants[cluster], w.most) }

// want renders a snapshot, the latest one without an index, for clusters.
func (e *Engine) want(ctx context.Context, rec *placementRecord, index *int, clusters []placement.Cluster) (*wanted, error) {
	last, ok := rec.latest()
	if index == nil && !ok {
		return nil, &NotFoundError{Kind: "snapshot", Name: "of placement " + rec.Placement.Name, Hint: "take one with Capture"}
	}
	if index == nil {
		index = &last.Index
	}
	f, err := e.thaw(ctx, rec, *index)
	if err != nil {
		return nil, err
	}
	d := &draft{frozen: f}
	t := d.target(rec)
	if err := d.render(&t, clusters, nil); err != nil { // what is looked for is not to be brought
		return nil, err
	}
	w := &wanted{variants: map[string]*revision{}}
	if w.most, err = newRevision(rec.Placement.Name, f.set); err != nil {
		return nil, err
	}
	byDigest := map[string]*revision{}
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
	// Objects are those of the first cluster; times, generations and who did it
	// may be others on the others.
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
