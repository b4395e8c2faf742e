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

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/parallel"
	"github.com/slipway-dev/slipway/placement"
)

// Query narrows a comparison. It is what fleet.DriftOptions ask for.
type Query struct {
	Clusters   []string
	Index      *int
	Comparison drift.Comparison
}

// Drift compares the clusters of a placement, and keeps when a difference was observed first.
func (r *Reporter) Drift(ctx context.Context, name string, o Query) iter.Seq2[member.ClusterDrift, error] {
	return func(yield func(member.ClusterDrift, error) bool) {
		seen, err := r.Drifted(ctx, name)
		if err != nil && !state.IsLasting(err) { // what cannot be read of the past keeps no report back
			yield(member.ClusterDrift{Placement: name}, err)
			return
		}
		before := make(map[string]*member.ClusterDrift, len(seen))
		for i := range seen {
			before[seen[i].Cluster] = &seen[i]
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

// driftOf is Drift; strict reports whether clusters of o that are not compared are an error.
func (r *Reporter) driftOf(ctx context.Context, name string, o Query, strict bool) iter.Seq2[member.ClusterDrift, error] {
	return func(yield func(member.ClusterDrift, error) bool) {
		s, err := r.survey(ctx, name, o)
		if err == nil && strict {
			err = s.missing(o.Clusters)
		}
		if err != nil {
			yield(member.ClusterDrift{Placement: name}, err)
			return
		}
		for c := range s.all(ctx) {
			if !yield(c, nil) {
				return
			}
		}
		if ctx.Err() != nil {
			yield(member.ClusterDrift{Placement: name}, ctx.Err())
		}
	}
}

// comparedAtOnce is how many clusters a report compares at the same time.
const comparedAtOnce = 32

// survey compares the clusters of a placement.
type survey struct {
	e        *Reporter
	rec      *record.Placement
	strategy member.ApplyStrategy
	clusters []placement.Cluster
	// wanted are the revisions to compare with; nil is that of each ledger.
	wanted *planning.Revisions
}

// survey plans a comparison of the clusters of a placement.
func (r *Reporter) survey(ctx context.Context, name string, o Query) (s *survey, err error) {
	if r.snapshots == nil {
		return nil, fmt.Errorf("placement %s: drift cannot be told with an Updater of the host's: it is about objects that the engine applies", name)
	}
	if err := errors.Join(problems.About("drift of placement "+name, o.problems())); err != nil {
		return nil, err
	}
	err = r.state.WithPlacement(ctx, name, func(rec *record.Placement) error {
		s = &survey{e: r, rec: rec, strategy: rec.Placement.ApplyStrategy}
		s.strategy.ComparisonOption = cmp.Or(o.Comparison, s.strategy.ComparisonOption)
		return s.plan(ctx, o)
	})
	return s, err
}

// plan works out which clusters are compared, and with what.
func (s *survey) plan(ctx context.Context, o Query) error {
	inventory, err := s.e.state.Inventory(ctx)
	if err != nil {
		return err
	}
	decision, err := s.e.planner.Resolve(ctx, s.rec, inventory)
	if err != nil {
		return err
	}
	bindings, err := s.e.state.BindingsOf(ctx, s.rec)
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
	s.wanted, err = s.e.planner.Want(ctx, s.rec, o.Index, s.clusters)
	return err
}

// missing returns an error that names the clusters of asked that are not compared.
func (s *survey) missing(asked []string) error {
	var errs []error
	for _, name := range asked {
		_, ok := slices.BinarySearchFunc(s.clusters, name, func(c placement.Cluster, n string) int { return cmp.Compare(c.Name, n) })
		if !ok {
			errs = append(errs, &state.NotFoundError{
				Kind: "cluster", Name: name + " of placement " + s.rec.Placement.Name,
				Hint: "the placement must pick it or have been to it, and the inventory must have it",
			})
		}
	}
	return member.JoinProblems(errs)
}

// all compares every cluster.
func (s *survey) all(ctx context.Context) iter.Seq[member.ClusterDrift] {
	return parallel.Map(ctx, comparedAtOnce, s.clusters, s.look)
}

// look compares one cluster, within the limits of concurrency.
func (s *survey) look(ctx context.Context, c placement.Cluster) member.ClusterDrift {
	x := s.comparison(c)
	leave, err := s.e.lanes.Enter(ctx, c.Name)
	if err != nil {
		return x.Failed(err)
	}
	found, err := s.e.snapshots.Compare(ctx, x)
	if errors.Is(err, member.ErrRevisionGone) {
		s.e.planner.RenderAgain(ctx, s.rec, c)
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
		Placement: s.rec.Placement.Name, Strategy: s.strategy, Key: s.rec.Key, Cluster: c, Now: s.e.state.Now(),
	}
	if s.wanted != nil {
		x.Revision = s.wanted.Of(c.Name)
	}
	return x
}

// problems are those of the options.
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
