package driftwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/parallel"
	"github.com/slipway-dev/slipway/placement"
)

// Query narrows a comparison, see fleet.DriftOptions.
type Query struct {
	Clusters   []string
	Index      *int
	Comparison drift.Comparison
}

// Drift compares the clusters of a placement. The first observation of a known difference comes
// from the recorded drift.
func (r *Reporter) Drift(ctx context.Context, name string, o Query) iter.Seq2[drift.ClusterReport, error] {
	return func(yield func(drift.ClusterReport, error) bool) {
		recorded, err := r.Drifted(ctx, name)
		if err != nil && !state.IsLasting(err) { // an undecodable record must not block a report
			yield(drift.ClusterReport{Placement: name}, err)
			return
		}
		before := make(map[string]*drift.ClusterReport, len(recorded))
		for i := range recorded {
			before[recorded[i].Cluster] = &recorded[i]
		}
		for c, err := range r.driftOf(ctx, name, o, true) {
			if old := before[c.Cluster]; old != nil {
				keepFirstObserved(&c, old)
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// driftOf compares like Drift, without the recorded drift. If strict, clusters of o that are not
// compared are an error.
func (r *Reporter) driftOf(ctx context.Context, name string, o Query, strict bool) iter.Seq2[drift.ClusterReport, error] {
	return func(yield func(drift.ClusterReport, error) bool) {
		x, err := r.comparison(ctx, name, o)
		if err == nil && strict {
			err = x.missing(o.Clusters)
		}
		if err != nil {
			yield(drift.ClusterReport{Placement: name}, err)
			return
		}
		for c := range x.all(ctx) {
			if !yield(c, nil) {
				return
			}
		}
		if ctx.Err() != nil {
			yield(drift.ClusterReport{Placement: name}, ctx.Err())
		}
	}
}

// comparedAtOnce is the number of clusters that a report compares concurrently.
const comparedAtOnce = 32

// comparison is a set of clusters of a placement, with the revisions to compare them with.
type comparison struct {
	reporter *Reporter
	rec      *record.Placement
	strategy apply.Strategy
	clusters []placement.Cluster
	// wanted are the revisions to compare with; nil means the revision in each ledger.
	wanted *planning.Revisions
}

// comparison plans a comparison of the clusters of a placement.
func (r *Reporter) comparison(ctx context.Context, name string, o Query) (x *comparison, err error) {
	if r.applier == nil {
		return nil, fmt.Errorf("placement %s: there is no drift with Config.Updater: drift is about objects that the engine applies", name)
	}
	if err := errors.Join(problems.About("drift of placement "+name, o.problems())); err != nil {
		return nil, err
	}
	err = r.state.WithPlacement(ctx, name, func(rec *record.Placement) error {
		x = &comparison{reporter: r, rec: rec, strategy: rec.Placement.ApplyStrategy}
		x.strategy.ComparisonOption = cmp.Or(o.Comparison, x.strategy.ComparisonOption)
		return x.plan(ctx, o)
	})
	return x, err
}

// plan determines the clusters and the revisions of the comparison.
func (x *comparison) plan(ctx context.Context, o Query) error {
	inventory, err := x.reporter.state.World.Inventory(ctx)
	if err != nil {
		return err
	}
	decision, err := x.reporter.planner.Resolve(ctx, x.rec, inventory)
	if err != nil {
		return err
	}
	bindings, err := x.reporter.state.BindingsOf(ctx, x.rec)
	if err != nil {
		return err
	}
	names := append(slices.Collect(maps.Keys(bindings)), decision.Clusters...)
	slices.Sort(names)
	only := slices.Sorted(slices.Values(o.Clusters))
	for _, n := range slices.Compact(names) {
		c, known := inventory[n]
		if _, asked := slices.BinarySearch(only, n); known && (asked || len(only) == 0) {
			x.clusters = append(x.clusters, c)
		}
	}
	if o.Index == nil && !x.strategy.ReportsOnly() {
		return nil
	}
	x.wanted, err = x.reporter.planner.Want(ctx, x.rec, o.Index, x.clusters)
	return err
}

// missing returns an error that names the clusters of asked that are not compared.
func (x *comparison) missing(asked []string) error {
	var errs []error
	for _, name := range asked {
		_, ok := slices.BinarySearchFunc(x.clusters, name, func(c placement.Cluster, n string) int { return cmp.Compare(c.Name, n) })
		if !ok {
			errs = append(errs, errdef.NotFound(errdef.Cluster, name+" of placement "+x.rec.Placement.Name,
				"the placement must pick it or have been to it, and the inventory must have it"))
		}
	}
	return member.JoinProblems(errs)
}

// all compares all clusters.
func (x *comparison) all(ctx context.Context) iter.Seq[drift.ClusterReport] {
	return parallel.Map(ctx, comparedAtOnce, x.clusters, x.compare)
}

// compare compares one cluster.
func (x *comparison) compare(ctx context.Context, c placement.Cluster) drift.ClusterReport {
	return x.carryOut(ctx, c, x.of(c))
}

// compareWatched compares a watched cluster. It reports the status of the objects if the placement
// asks for it. It returns whether an object has ended and the ledger does not know that.
func (x *comparison) compareWatched(ctx context.Context, c placement.Cluster) (found drift.ClusterReport, ended bool) {
	one := x.of(c)
	one.Ended = func() { ended = true }
	if x.rec.Placement.ReportStatus {
		one.Reported = x.reporter.cfg.Reported
	}
	found = x.carryOut(ctx, c, one)
	return found, ended
}

// carryOut compares a cluster within the limits of concurrency.
func (x *comparison) carryOut(ctx context.Context, c placement.Cluster, one member.Comparison) drift.ClusterReport {
	leave, err := x.reporter.limiter.Enter(ctx, c.Name)
	if err != nil {
		return one.Failed(err)
	}
	found, err := x.reporter.applier.Compare(ctx, one)
	if errors.Is(err, member.ErrRevisionGone) {
		x.reporter.planner.RenderAgain(ctx, x.rec, c)
		found, err = x.reporter.applier.Compare(ctx, one)
	}
	leave(err)
	if err != nil {
		return one.Failed(err)
	}
	return found
}

// of returns the comparison of one cluster.
func (x *comparison) of(c placement.Cluster) member.Comparison {
	one := member.Comparison{
		Placement: x.rec.Placement.Name, Strategy: x.strategy, Key: x.rec.Key, Cluster: c, Now: x.reporter.state.Now(),
	}
	if x.wanted != nil {
		one.Revision = x.wanted.Of(c.Name)
	}
	return one
}

// problems returns the errors of the options.
func (o *Query) problems() (errs field.ErrorList) {
	errs = problems.OneOf(errs, field.NewPath("comparison"), o.Comparison, drift.Partial, drift.Full)
	for i, name := range o.Clusters {
		errs = append(errs, problems.Name(field.NewPath("clusters").Index(i), name)...)
	}
	if o.Index != nil && *o.Index < 0 {
		errs = append(errs, field.Invalid(field.NewPath("index"), *o.Index, "must be the index of a snapshot, 0 or more"))
	}
	return errs
}
