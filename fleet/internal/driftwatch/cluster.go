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

// clusterWatch watches the objects that one cluster has of a placement. One goroutine follows the
// watch of the member's objects and enqueues the cluster. The reconcile of the cluster compares it
// and repairs drift.
type clusterWatch struct {
	w        *placementWatch
	reporter *Reporter
	cluster  placement.Cluster
	// running counts the goroutine of the watch and the reconcile of the cluster.
	running sync.WaitGroup
	// cancel ends the goroutine of the watch.
	cancel context.CancelFunc

	mu      sync.Mutex
	stopped bool
	// cancelCall ends the running reconcile.
	cancelCall context.CancelFunc
	// x is the newest comparison of the placement.
	x *comparison
	// watched is the revision whose objects are watched, "" if there is none. restart begins the watch
	// again. While a watch begins, or fails to begin, the revision is unknown and restart is nil.
	watched string
	restart context.CancelFunc

	// Only the reconcile of the cluster uses the following fields.

	// reported spaces out the events about drift, restored the repairs.
	reported, restored throttle
	// fight detects another writer that keeps undoing the repairs.
	fight drift.Fight
	// refusals is the backoff after permanent errors.
	refusals *backoff.Backoff
}

func (c *clusterWatch) key() clusterKey { return clusterKey{c.w.name, c.cluster.Name} }

// update sets the comparison of the placement and enqueues the cluster. If the placement has
// changed, the cluster is reconciled at once, without backoff, because a step that failed may
// succeed now. While a run has the placement the cluster is not enqueued, because nothing is
// repaired then, and the watch notices the changes of the run.
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

// stop ends the watch and the running reconcile without waiting for them.
func (c *clusterWatch) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.cancel()
	if c.cancelCall != nil {
		c.cancelCall()
	}
}

// enter begins a reconcile that stop ends through cancel, and returns false if the watch has ended.
// After true, the caller must call running.Done.
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

// follow enqueues the cluster whenever an object of the placement changes on it, until ctx ends.
func (c *clusterWatch) follow(ctx context.Context) {
	for ctx.Err() == nil {
		watching, cancel := context.WithCancel(ctx)
		watch := func() iter.Seq2[struct{}, error] { return c.watch(watching, cancel) }
		for _, err := range guard.Rewatch(watching, watch, c.reporter.cfg.Poll) {
			_ = err // a failed watch says nothing about the cluster, so compare it anyway
			c.w.r.clusters.Add(c.key())
		}
		cancel()
	}
}

// watch yields when it has begun, and when an object of the placement changes on the cluster.
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

// restartIfOutdated begins the watch again if the watched revision differs from the given one,
// unless that is "".
func (c *clusterWatch) restartIfOutdated(revision string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if revision != "" && revision != c.watched && c.restart != nil {
		c.restart()
		c.restart = nil
	}
}

// refusal is a permanent error with the wait before the cluster's next reconcile.
type refusal struct {
	error
	wait time.Duration
}

func (e *refusal) Unwrap() error { return e.error }

func newRefusals() *backoff.Backoff { return backoff.New(member.ReachMost, throttleMost) }

// refusalWait returns the minimum wait after an error.
func refusalWait(err error) time.Duration {
	if e := (*refusal)(nil); errors.As(err, &e) {
		return e.wait
	}
	return 0
}

// clusterFailed logs permanent errors and panics. Other errors are in the recorded drift of the
// cluster.
func (r *Reconciler) clusterFailed(_ context.Context, key clusterKey, err error) {
	panicked := (*reconcile.PanicError)(nil)
	if errors.Is(err, backend.ErrPermanent) || errors.As(err, &panicked) {
		r.reporter.log.Warn("the drift of a cluster is not reconciled", "placement", key.placement, "cluster", key.cluster, "error", err)
	}
}

// reconcileCluster compares a watched cluster of a placement and repairs drift.
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

// reconcile compares the cluster, records the differences and repairs drift. It returns the
// revision that it compared with, and when to compare again. It never overwrites drift that a run
// recorded since: that is an error, and the cluster is compared again.
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
		after, err = c.repair(ctx, x, &found)
	}
	return found.Revision, after, err
}

// repair corrects drift, unless a run has the placement or the last repair is too recent. It
// returns when to try again.
func (c *clusterWatch) repair(ctx context.Context, x *comparison, found *drift.ClusterReport) (time.Duration, error) {
	if wait := c.restored.left(); wait > 0 {
		return wait, nil
	}
	if may, err := c.mayRepair(ctx, x); !may || err != nil {
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
	c.fight.Restored()
	c.w.event(ev)
	return 0, nil
}

// mayRepair reports whether repairs are allowed: the placement still has the strategy of the
// comparison, no run has it, because a run decides for itself, and it is not being deleted.
func (c *clusterWatch) mayRepair(ctx context.Context, x *comparison) (bool, error) {
	rec, _, err := c.reporter.state.Placement(ctx, x.rec.Placement.Name)
	if err != nil {
		return false, err
	}
	return rec.Queue.Active == nil && rec.Deleting == nil && rec.Placement.ApplyStrategy.Key() == x.rec.Placement.ApplyStrategy.Key(), nil
}

// restore brings the cluster back to the revision that its ledger proves, and reports whether it
// wrote anything.
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
		return false, nil // a run has reached the cluster and is responsible for it
	}
	return sent, err
}

// recordEnds records in the ledger which objects have ended, so that they do not count as drift
// once they are gone.
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

// assignment returns the assignment of the cluster between runs.
func (c *clusterWatch) assignment(x *comparison) member.Assignment {
	p := &x.rec.Placement
	return member.WithKey(backend.Assignment{
		Placement: p.Name, Cluster: c.cluster, AllowCoOwnership: p.AllowCoOwnership, Exclusive: p.Exclusive,
		DeletePolicy: p.DeletePolicy, Strategy: x.strategy,
	}, x.rec.Key)
}

// finish closes the intent of a repair that an engine left open.
func (c *clusterWatch) finish(ctx context.Context, x *comparison) error {
	revision, err := c.reporter.applier.Unrestored(ctx, c.assignment(x))
	if err != nil || revision == "" {
		return err
	}
	if may, err := c.mayRepair(ctx, x); !may || err != nil {
		return err
	}
	_, err = c.restore(ctx, x, revision)
	return err
}
