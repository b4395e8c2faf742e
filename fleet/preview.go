package fleet

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/driftwatch"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/internal/parallel"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// comparedAtOnce is the number of clusters that are compared at the same time.
const comparedAtOnce = 32

// Preview is a run that does not exist yet: its plan, the changes that it would make and its
// expected course. The plan does not change, but each comparison and each forecast reads the
// current state. A Preview may be used concurrently.
type Preview struct {
	// Plan is the plan that [Engine.CreateRun] would record. Its digest covers the objects that
	// every cluster would get: a run that names it in RunSpec.Plan brings exactly these objects or
	// is refused. The caller must not change the plan.
	Plan *stages.Plan

	e       *Engine
	rec     *record.Placement
	starter approval.Identity
	mu      sync.Mutex
	draft   *planning.Draft
}

// ClusterDiff lists the changes that a run would make on one cluster, in the form of a drift
// report. Revision is the revision that the cluster would get, empty if it would be cleaned.
// Objects lists the objects that the run would change, and the objects that differ but that the run
// would leave alone; the Reason of each object says which. The hub's side of a difference is the
// object that the cluster would get.
type ClusterDiff struct {
	drift.ClusterReport
	// Has is the revision that the cluster proves to have; empty if it has none, and while an
	// update is in progress.
	Has string `json:"has,omitempty"`
}

// Preview plans the run that spec asks for and writes nothing, not even a snapshot. The spec needs
// no name yet. A later plan may differ if something has changed: to be sure, set RunSpec.Plan to
// the digest of this plan. If spec has a digest already and the plan has another, the error matches
// errdef.ErrPlanChanged.
func (e *Engine) Preview(ctx context.Context, spec RunSpec) (*Preview, error) {
	if err := e.withStrategy(ctx, &spec); err != nil {
		return nil, err
	}
	if err := problems.About("preview of a run", spec.problems()); err != nil {
		return nil, err
	}
	d, rec, err := e.planner.Plan(ctx, spec.request())
	if err != nil {
		return nil, err
	}
	if spec.Plan != "" && spec.Plan != d.Plan.Digest {
		return nil, errdef.PlanChanged(spec.Name, spec.Plan, d.Plan.Digest)
	}
	return &Preview{Plan: d.Plan, e: e, rec: rec, starter: spec.Starter, draft: d}, nil
}

// Content returns the objects that a cluster of the plan would get, including the values of
// Secrets; an empty set if the cluster would be cleaned.
func (p *Preview) Content(ctx context.Context, cluster string) (snapshot.Set, error) {
	pos, ok := p.Plan.Position(cluster)
	if !ok {
		return snapshot.Set{}, errdef.NotFound(errdef.Cluster, cluster, "it is not in plan "+p.Plan.Digest)
	}
	digest := p.revisionAt(pos)
	if digest == "" {
		return snapshot.Set{}, nil
	}
	return p.content(ctx, digest)
}

// content returns the set of a digest of the plan. A draft builds it and is not safe for concurrent
// use.
func (p *Preview) content(ctx context.Context, digest string) (snapshot.Set, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.e.planner.ContentOf(ctx, p.draft, p.Plan, digest)
}

// Diff compares the clusters of the plan and yields each once, as soon as it has been compared; up
// to 32 are compared at the same time. It only reads. If only has names, it compares only these
// clusters, and yields an error and nothing else if the plan does not have one of them.
//
// A cluster that cannot be read is yielded with its problems. The problems also include objects
// that the run could not apply, or would leave because the placement's strategy says so. At most
// 100 objects of a cluster are listed, up to 256 KiB; Total counts all. Secret values are not
// shown. A field that the hub dropped is listed if the member records the manager that wrote it, as
// API servers do.
func (p *Preview) Diff(ctx context.Context, only ...string) iter.Seq2[ClusterDiff, error] {
	return func(yield func(ClusterDiff, error) bool) {
		positions, err := p.positions(only)
		if p.e.updates.conns == nil {
			err = fmt.Errorf("placement %s: there is no difference with Config.Updater: it is about objects that the engine applies", p.Plan.Placement)
		}
		if err != nil {
			yield(ClusterDiff{}, err)
			return
		}
		for c := range parallel.Map(ctx, comparedAtOnce, positions, p.compareAt) {
			if !yield(c, nil) {
				return
			}
		}
		if ctx.Err() != nil {
			yield(ClusterDiff{}, ctx.Err())
		}
	}
}

// positions returns the positions of the named clusters, or all positions if no cluster is named.
func (p *Preview) positions(only []string) ([]int, error) {
	var out []int
	var missing []error
	for _, name := range only {
		pos, ok := p.Plan.Position(name)
		if !ok {
			missing = append(missing, errdef.NotFound(errdef.Cluster, name, "it is not in plan "+p.Plan.Digest))
		}
		out = append(out, pos)
	}
	if len(only) == 0 {
		for pos := range p.Plan.Clusters {
			out = append(out, pos)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), member.JoinProblems(missing)
}

// revisionAt returns the digest of the revision that a cluster would get, "" if it would be
// cleaned.
func (p *Preview) revisionAt(pos int) string {
	if r := p.Plan.Clusters[pos].Revision; r >= 0 {
		return p.Plan.Revisions[r]
	}
	return ""
}

// compareAt compares the cluster at a position of the plan, within the limits of concurrency.
func (p *Preview) compareAt(ctx context.Context, pos int) ClusterDiff {
	c := &p.Plan.Clusters[pos]
	out := ClusterDiff{ClusterReport: drift.ClusterReport{
		Placement: p.Plan.Placement, Cluster: c.Name, State: drift.Compared, Revision: p.revisionAt(pos), Observed: p.e.state.Now(),
	}}
	leave, err := p.e.updates.limiter.Enter(ctx, c.Name)
	if err == nil {
		err = p.compare(ctx, placement.Cluster{Name: c.Name, UID: c.UID}, &out)
		leave(err)
	}
	if err != nil {
		out.State, out.Problems = drift.Unknown, append(out.Problems, guard.Clip(err.Error()))
	}
	driftwatch.BoundDrift(&out.ClusterReport)
	return out
}

// compare adds the changes that a run would make on a cluster.
func (p *Preview) compare(ctx context.Context, c placement.Cluster, out *ClusterDiff) (err error) {
	load := func(ctx context.Context) (*member.Revision, error) { return p.revision(ctx, out.Revision) }
	out.Has, err = p.e.updates.applier.Preview(ctx, p.assignment(c, out.Revision), load, &out.ClusterReport)
	return err
}

// assignment returns the assignment of a run with the highest epoch, so that it comes after all
// others.
func (p *Preview) assignment(c placement.Cluster, revision string) member.Assignment {
	decl := &p.rec.Placement
	a := member.WithKey(backend.Assignment{
		Placement: decl.Name, Epoch: math.MaxInt64, Cluster: c, Revision: revision,
		AllowCoOwnership: decl.AllowCoOwnership, Exclusive: decl.Exclusive, DeletePolicy: decl.DeletePolicy, Strategy: decl.ApplyStrategy,
	}, p.rec.Key)
	a.Strategy.ComparisonOption = drift.Partial // a run does not touch fields that the hub does not have
	return a
}

// revision returns a revision of the plan, which may not be stored yet.
func (p *Preview) revision(ctx context.Context, digest string) (*member.Revision, error) {
	set, err := p.content(ctx, digest)
	if err != nil {
		return nil, err
	}
	return member.NewRevision(p.Plan.Placement, set)
}
