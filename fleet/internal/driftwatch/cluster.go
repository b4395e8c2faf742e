package driftwatch

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// clusterWatch watches what one cluster has of a placement. One goroutine follows the watch of the member's
// objects and enqueues the cluster; the queue compares it and puts back what differs.
type clusterWatch struct {
	w        *placementWatch
	reporter *Reporter
	cluster  placement.Cluster
	// running are the goroutine of the watch and the reconcile of the cluster.
	running sync.WaitGroup
	// cancel ends that goroutine.
	cancel context.CancelFunc

	mu      sync.Mutex
	stopped bool
	// cancelCall ends the reconcile that is running.
	cancelCall context.CancelFunc
	// x is the newest view of the placement.
	x *comparison
	// watched is the revision whose objects are watched, "" for none. It is not known while a watch begins, or
	// cannot; then restart is nil, which begins the watch again.
	watched string
	restart context.CancelFunc

	// The rest belongs to the reconcile of the cluster.

	// reported and restored space out the events that the cluster differs, and what is put back.
	reported, restored throttle
	// fight finds out whether another writer keeps changing what is put back.
	fight drift.Fight
	// refusals are the waits after permanent errors.
	refusals *backoff.Backoff
}

func (c *clusterWatch) key() clusterKey { return clusterKey{c.w.name, c.cluster.Name} }

// update sets the view of the placement, and has the cluster compared. Where the placement has changed that is done
// at once: what failed may succeed now. While a run has the placement there is no need: nothing is put back, and what
// the run changes is watched.
func (c *clusterWatch) update(x *comparison, changed bool) {
	c.mu.Lock()
	c.x = x
	c.mu.Unlock()
	switch {
	case x.rec.Queue.Active != nil && !x.strategy.ReportsOnly():
	case changed:
		c.w.r.clusters.AddNow(c.key())
	default:
		c.w.r.clusters.Add(c.key())
	}
}

func (c *clusterWatch) comparison() *comparison {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.x
}

// stop ends the watch and the reconcile that is running, without waiting for them.
func (c *clusterWatch) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.cancel()
	if c.cancelCall != nil {
		c.cancelCall()
	}
}

// enter begins a reconcile, which cancel ends, and reports false where the watch has ended. The caller calls
// running.Done.
func (c *clusterWatch) enter(cancel context.CancelFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return false
	}
	c.cancelCall = cancel
	c.running.Add(1)
	return true
}

// follow enqueues the cluster whenever an object changes that the placement has there, until ctx ends.
func (c *clusterWatch) follow(ctx context.Context) {
	for ctx.Err() == nil {
		watching, cancel := context.WithCancel(ctx)
		watch := func() iter.Seq2[struct{}, error] { return c.watch(watching, cancel) }
		for _, err := range guard.Rewatch(watching, watch, c.reporter.cfg.Poll) {
			_ = err // a watch that fails says nothing of the cluster, which is compared all the same
			c.w.r.clusters.Add(c.key())
		}
		cancel()
	}
}

// watch yields when it has begun and when an object that the placement has on the cluster changes.
func (c *clusterWatch) watch(ctx context.Context, restart context.CancelFunc) iter.Seq2[struct{}, error] {
	c.setWatched("", nil)
	return c.reporter.applier.WatchCompared(ctx, c.comparison().of(c.cluster), c.reporter.cfg.Poll, func(revision string) {
		c.setWatched(revision, restart)
	})
}

func (c *clusterWatch) setWatched(revision string, restart context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched, c.restart = revision, restart
}

// restartIfOutdated begins the watch again where the cluster should have another revision, "" for any, than the
// one whose objects are watched.
func (c *clusterWatch) restartIfOutdated(revision string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if revision != "" && revision != c.watched && c.restart != nil {
		c.restart()
		c.restart = nil
	}
}

// refusal is a permanent error, after which the cluster is left alone for a while.
type refusal struct {
	error
	wait time.Duration
}

func (e *refusal) Unwrap() error { return e.error }

func newRefusals() *backoff.Backoff { return backoff.New(member.ReachMost, throttleMost) }

// refusalWait is how long a cluster is left alone after an error.
func refusalWait(err error) time.Duration {
	if e := (*refusal)(nil); errors.As(err, &e) {
		return e.wait
	}
	return 0
}

// clusterFailed logs the errors that do not go away by themselves. Others are in the cluster's recorded drift.
func (r *Reconciler) clusterFailed(_ context.Context, key clusterKey, err error) {
	panicked := (*reconcile.PanicError)(nil)
	if errors.Is(err, backend.ErrPermanent) || errors.As(err, &panicked) {
		r.reporter.log.Warn("the drift of a cluster is not reconciled", "placement", key.placement, "cluster", key.cluster, "error", err)
	}
}

// reconcileCluster compares a cluster of a placement and puts back what differs, as long as it is watched.
func (r *Reconciler) reconcileCluster(ctx context.Context, key clusterKey) (time.Duration, error) {
	w := r.watch(key.placement)
	if w == nil {
		return 0, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := w.cluster(key.cluster)
	if c == nil || !c.enter(cancel) {
		return 0, nil
	}
	defer c.running.Done()
	revision, after, err := c.reconcile(ctx)
	switch {
	case ctx.Err() != nil: // the watch has ended
		return 0, nil
	case errors.Is(err, backend.ErrPermanent):
		return 0, &refusal{err, c.refusals.Next()}
	case err != nil:
		return 0, err
	}
	c.refusals.Reset()
	c.restartIfOutdated(revision)
	return after, nil
}

// reconcile compares the cluster, records what differs and puts it back. It returns the revision that the cluster
// was compared with, and when to compare it again. Drift that a run records meanwhile is not overwritten: that is
// an error, and the cluster is compared again.
func (c *clusterWatch) reconcile(ctx context.Context) (revision string, after time.Duration, err error) {
	x := c.comparison()
	old, err := c.reporter.loadDrift(ctx, x.rec.Placement.Name, c.cluster.Name)
	if err != nil {
		return "", 0, err
	}
	found, ended := x.compareWatched(ctx, c.cluster)
	if ctx.Err() != nil {
		return "", 0, ctx.Err()
	}
	if found.State == drift.Updating {
		return "", 0, c.finish(ctx, x)
	}
	changed, err := c.reporter.storeDrift(ctx, old, found)
	if err != nil {
		return "", 0, err
	}
	if found.State == drift.Unknown {
		return "", 0, errors.New(found.Problems[0])
	}
	if ended {
		if err := c.recordEnds(ctx, x, found.Revision); err != nil {
			return "", 0, err
		}
	}
	if changed && c.reported.left() == 0 {
		c.reported.done()
		c.w.event(driftEvent(stages.DriftFound, &found))
	}
	if x.strategy.SelfHeals() && slices.ContainsFunc(found.Objects, func(o drift.ObjectReport) bool { return o.Reason == drift.FoundDrifts }) {
		after, err = c.putBack(ctx, x, &found)
	}
	return found.Revision, after, err
}

// putBack applies again what the cluster should have, unless a run has the placement or it was done a moment ago.
// It returns when to try again.
func (c *clusterWatch) putBack(ctx context.Context, x *comparison, found *drift.ClusterReport) (time.Duration, error) {
	if wait := c.restored.left(); wait > 0 {
		return wait, nil
	}
	if may, err := c.mayPutBack(ctx, x); !may || err != nil {
		return 0, err
	}
	done, err := c.restore(ctx, x, found.Revision)
	if err != nil || !done {
		return 0, err
	}
	c.restored.done()
	ev := driftEvent(stages.DriftCorrected, found)
	if _, fighting := c.fight.Drifted(c.restored.last); fighting {
		ev.Message += "; another writer keeps changing it: an ignore rule would leave it alone"
	}
	c.fight.PutBack()
	c.w.event(ev)
	return 0, nil
}

// mayPutBack reports whether the strategy of the placement is still that of the comparison, and no run has it: a
// run decides itself.
func (c *clusterWatch) mayPutBack(ctx context.Context, x *comparison) (bool, error) {
	rec, _, err := c.reporter.state.Placement(ctx, x.rec.Placement.Name)
	if err != nil {
		return false, err
	}
	return rec.Queue.Active == nil && rec.Deleting == nil && rec.Placement.ApplyStrategy.Key() == x.rec.Placement.ApplyStrategy.Key(), nil
}

// restore brings the cluster back to a revision that its ledger proves, and reports whether it wrote anything.
func (c *clusterWatch) restore(ctx context.Context, x *comparison, revision string) (sent bool, err error) {
	leave, err := c.reporter.limiter.Enter(ctx, c.cluster.Name)
	if err != nil {
		return false, err
	}
	defer func() { leave(err) }()
	a := c.assignment(x)
	a.Revision = revision
	sent, released, err := c.reporter.applier.Restore(ctx, a)
	if released != "" {
		c.w.event(stages.Event{Type: stages.ObjectsReleased, Cluster: c.cluster.Name, Message: released})
	}
	if errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrFenced) {
		return false, nil // a run has come to the cluster, and decides
	}
	return sent, err
}

// recordEnds has the ledger say which objects have ended: they are no drift once they are gone.
func (c *clusterWatch) recordEnds(ctx context.Context, x *comparison, revision string) error {
	leave, err := c.reporter.limiter.Enter(ctx, c.cluster.Name)
	if err != nil {
		return err
	}
	defer func() { leave(err) }()
	a := c.assignment(x)
	a.Revision = revision
	err = c.reporter.applier.RecordEnds(ctx, a)
	return err
}

// assignment is what the placement asks of the cluster between runs.
func (c *clusterWatch) assignment(x *comparison) member.Assignment {
	p := &x.rec.Placement
	return member.WithKey(backend.Assignment{
		Placement: p.Name, Cluster: c.cluster, AllowCoOwnership: p.AllowCoOwnership, Exclusive: p.Exclusive,
		DeletePolicy: p.DeletePolicy, Strategy: x.strategy,
	}, x.rec.Key)
}

// finish closes an intent to put something back that an engine left open.
func (c *clusterWatch) finish(ctx context.Context, x *comparison) error {
	revision, err := c.reporter.applier.Unrestored(ctx, c.assignment(x))
	if err != nil || revision == "" {
		return err
	}
	if may, err := c.mayPutBack(ctx, x); !may || err != nil {
		return err
	}
	_, err = c.restore(ctx, x, revision)
	return err
}
