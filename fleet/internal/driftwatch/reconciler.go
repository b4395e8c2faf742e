package driftwatch

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/parallel"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/placement"
)

// Reconciler watches the clusters of the placements that ask for it, by their strategy or because
// they report status. It records drift, and repairs it between runs if the strategy says so. Of
// several engines, only the holder of a placement's lease does so.
//
// Two engines that work on a placement at the same time do no harm: repairs are written under the
// ledger's compare-and-swap, and only while the ledger is unchanged since the comparison.
//
// There are three level-triggered queues. The placement queue selects clusters; the cluster queue
// compares one cluster and repairs drift; the event queue writes the events of a placement in
// batches. State that belongs to one key of a queue needs no lock. State that other queues read is
// behind a lock.
type Reconciler struct {
	reporter   *Reporter
	sessions   Sessions
	placements *reconcile.Queue[string]
	clusters   *reconcile.Queue[clusterKey]
	events     *reconcile.Queue[string]

	mu sync.Mutex
	// watches are the watches of the placements that ask for one, or may ask for one.
	watches map[string]*placementWatch
	// inventory counts the changes of the inventory.
	inventory int
}

// clusterKey names a cluster of a placement.
type clusterKey struct{ placement, cluster string }

// endedAtOnce is the number of watches that end concurrently when the reconciler ends.
const endedAtOnce = 32

// NewReconciler returns a reconciler that watches nothing yet.
func NewReconciler(reporter *Reporter, sessions Sessions) *Reconciler {
	r := &Reconciler{reporter: reporter, sessions: sessions, watches: map[string]*placementWatch{}}
	r.placements = reconcile.New(reconcile.Options[string]{
		Reconcile: r.reconcilePlacement,
		Failed: func(_ context.Context, name string, err error) {
			reporter.log.Warn("the clusters of a placement are not watched as they should be", "placement", name, "error", err)
		},
		First: member.ReachFirst, Most: reporter.cfg.Lease / 3,
	})
	r.clusters = reconcile.New(reconcile.Options[clusterKey]{
		Reconcile: r.reconcileCluster, Failed: r.clusterFailed,
		First: member.ReachFirst, Most: member.ReachMost, AtLeast: refusalWait,
	})
	r.events = reconcile.New(reconcile.Options[string]{
		Reconcile: r.writeEvents,
		Failed: func(_ context.Context, name string, err error) {
			reporter.log.Error("events about drift were not written", "placement", name, "error", err)
		},
		First: eventsWait, Most: member.ReachMost,
	})
	return r
}

// Run reconciles until ctx ends. It returns once everything that it started has ended and the
// leases are released. It must be called once.
func (r *Reconciler) Run(ctx context.Context) {
	var queues sync.WaitGroup
	queues.Go(func() { r.placements.Run(ctx) })
	queues.Go(func() { r.clusters.Run(ctx) })
	queues.Go(func() { r.events.Run(ctx) })
	queues.Wait()
	end := func(ctx context.Context, w *placementWatch) *placementWatch {
		w.stopAll()
		w.events.writeAll(ctx, r.reporter)
		w.giveBack(ctx)
		return w
	}
	for w := range parallel.Map(context.WithoutCancel(ctx), endedAtOnce, r.all(), end) {
		r.forget(w)
	}
}

// Changed enqueues a new or changed placement; read reads its record. It may be called before Run
// and while it runs.
func (r *Reconciler) Changed(ctx context.Context, name string, read func() (*record.Placement, error)) {
	if !r.watched(name) {
		if asks, err := asksForWatch(read()); ctx.Err() != nil || err == nil && !asks {
			return // if unknown, the reconcile finds out
		}
	}
	if w := r.watch(name); w != nil {
		w.unseen.Store(true)
	}
	r.placements.Add(name)
}

// look enqueues a watched placement and makes its reconcile read the records.
func (r *Reconciler) look(w *placementWatch) {
	w.unseen.Store(true)
	r.placements.Add(w.name)
}

// asksForWatch reports whether a placement asks for a watch. A placement that is being deleted does
// not, nor does a placement without a snapshot to compare with.
func asksForWatch(rec *record.Placement, err error) (bool, error) {
	if state.IsNotFound(err) {
		return false, nil
	}
	return err == nil && rec.Deleting == nil && len(rec.Snapshots) > 0 && (rec.Placement.ReportStatus || rec.Placement.ApplyStrategy.Watches()), err
}

// FleetChanged enqueues every watched placement, because the inventory has changed. If
// measuredOnly, only properties and namespaces of clusters have changed, and it enqueues only the
// placements that depend on them. It may be called before Run and while it runs.
func (r *Reconciler) FleetChanged(measuredOnly bool) {
	r.mu.Lock()
	r.inventory++
	r.mu.Unlock()
	for _, w := range r.all() {
		if !measuredOnly || !w.unmeasured.Load() {
			r.look(w)
		}
	}
}

func (r *Reconciler) inventoryVersion() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inventory
}

func (r *Reconciler) watched(name string) bool { return r.watch(name) != nil }

// watch returns the watch of a placement, or nil if there is none.
func (r *Reconciler) watch(name string) *placementWatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.watches[name]
}

// watchOrNew returns the watch of a placement, and creates it if there is none.
func (r *Reconciler) watchOrNew(name string) *placementWatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.watches[name]
	if w == nil {
		w = &placementWatch{r: r, name: name, clusters: map[string]*clusterWatch{}, events: eventBatch{placement: name}}
		w.unseen.Store(true)
		r.watches[name] = w
	}
	return w
}

// forget drops the watch of a placement after it has ended.
func (r *Reconciler) forget(w *placementWatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.watches, w.name)
}

// all returns the watches in no particular order.
func (r *Reconciler) all() []*placementWatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*placementWatch, 0, len(r.watches))
	for _, w := range r.watches {
		out = append(out, w)
	}
	return out
}

// placementWatch is the state of a watched placement. Only the reconcile of the placement uses its
// fields, except clusters, which mu guards, and events.
type placementWatch struct {
	r      *Reconciler
	name   string
	events eventBatch

	mu       sync.Mutex
	clusters map[string]*clusterWatch

	// concern and inventory identify the state that the clusters were last compared for.
	concern   string
	inventory int
	// kept are the clusters for which the last deletion of recorded drift kept the records. The
	// records are not listed again for the same clusters, because an API server lets a list wait.
	kept map[string]bool

	lease watchLease
	// unseen reports whether the placement, its lease or the inventory may have changed since they
	// were read.
	unseen atomic.Bool
	// unmeasured reports whether no comparison depends on properties or namespaces of clusters.
	unmeasured atomic.Bool
}

// reconcilePlacement watches the clusters of a placement if it asks for a watch and this engine has
// the lease. It renews the lease.
func (r *Reconciler) reconcilePlacement(ctx context.Context, name string) (time.Duration, error) {
	// The watch exists before the record is read, so that Changed enqueues the placement after later
	// writes.
	w := r.watchOrNew(name)
	if !w.unseen.Swap(false) && w.extend() {
		return r.reporter.cfg.Lease / 3, nil
	}
	after, err := r.readPlacement(ctx, w)
	if err != nil {
		w.unseen.Store(true)
	}
	return after, err
}

// readPlacement reads the records and brings the watch in line with them.
func (r *Reconciler) readPlacement(ctx context.Context, w *placementWatch) (time.Duration, error) {
	name := w.name
	asks, err := asksForWatch(r.reporter.state.LastSeen(ctx, name)())
	switch {
	case err != nil:
		return 0, err
	case !asks:
		w.end(ctx)
		return 0, nil
	}
	held, err := w.hold(ctx)
	if held || err != nil && time.Now().Before(w.lease.until) { // the lease still lasts
		err = errors.Join(err, w.watchClusters(ctx))
	} else {
		w.stopAll()
		w.concern, w.kept = "", nil
	}
	return r.reporter.cfg.Lease / 3, err
}

// end ends the watch of a placement that no longer asks for it.
func (w *placementWatch) end(ctx context.Context) {
	w.stopAll()
	w.events.writeAll(ctx, w.r.reporter)
	if ctx.Err() == nil {
		_ = w.r.reporter.ForgetDrift(ctx, w.name, func(string) bool { return false }) // the next watch or the deletion does
	}
	w.giveBack(ctx)
	w.r.forget(w)
}

// watchClusters begins the watch of each cluster of the placement, and ends the watches of other
// clusters. If the placement or the inventory has changed, existing watches get the new comparison.
func (w *placementWatch) watchClusters(ctx context.Context) error {
	reporter := w.r.reporter
	rec, _, err := reporter.state.Placement(ctx, w.name)
	if err != nil {
		return err
	}
	inventory := w.r.inventoryVersion()
	if concernOf(rec) == w.concern && inventory == w.inventory {
		return nil
	}
	x, err := reporter.comparison(ctx, w.name, Query{})
	if err != nil {
		return err
	}
	// The comparison has read the placement again, which may have changed since. Use the version that
	// it read.
	w.unmeasured.Store(!x.rec.Placement.Policy.Measures() && x.rec.Placement.Namespace == "")
	concern := concernOf(x.rec)
	changed := concern != w.concern
	w.concern, w.inventory = concern, inventory
	wanted := map[string]bool{}
	for _, c := range x.clusters {
		wanted[c.Name] = true
		have := w.cluster(c.Name)
		if have != nil && have.cluster.UID == c.UID {
			have.update(x, changed)
			continue
		}
		if have != nil {
			w.stop(have)
		}
		w.begin(ctx, x, c)
	}
	for _, c := range w.all() {
		if !wanted[c.cluster.Name] {
			w.stop(c)
		}
	}
	if maps.Equal(wanted, w.kept) {
		return nil
	}
	if err := reporter.ForgetDrift(ctx, w.name, func(cluster string) bool { return wanted[cluster] }); err != nil {
		return err
	}
	w.kept = wanted
	return nil
}

// concernOf encodes the parts of a placement's record that comparisons depend on.
func concernOf(rec *record.Placement) string {
	last, _ := rec.Latest()
	return string(record.Encode(struct {
		Policy   placement.Policy
		Decision *lifecycle.Selection
		Strategy apply.Strategy
		Share    bool
		Alone    bool
		Delete   placement.DeletePolicy
		Reports  bool
		Roster   lifecycle.Generation
		Snapshot string
		Active   *lifecycle.Entry
	}{
		rec.Placement.Policy, rec.Selection, rec.Placement.ApplyStrategy, rec.Placement.AllowCoOwnership,
		rec.Placement.Exclusive, rec.Placement.DeletePolicy, rec.Placement.ReportStatus, rec.Bindings, last.Digest, rec.Queue.Active,
	}))
}

// cluster returns the watch of a cluster, or nil if there is none.
func (w *placementWatch) cluster(name string) *clusterWatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clusters[name]
}

// all returns the watches of the clusters in no particular order.
func (w *placementWatch) all() []*clusterWatch {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]*clusterWatch, 0, len(w.clusters))
	for _, c := range w.clusters {
		out = append(out, c)
	}
	return out
}

// begin begins the watch of a cluster.
func (w *placementWatch) begin(ctx context.Context, x *comparison, cl placement.Cluster) {
	ctx, cancel := context.WithCancel(ctx)
	c := &clusterWatch{w: w, reporter: w.r.reporter, cluster: cl, cancel: cancel, x: x, refusals: newRefusals()}
	w.mu.Lock()
	w.clusters[cl.Name] = c
	w.mu.Unlock()
	c.running.Go(func() { c.follow(ctx) })
}

// stop ends the watches of clusters, and returns when no goroutine works on them any more.
func (w *placementWatch) stop(clusters ...*clusterWatch) {
	for _, c := range clusters {
		c.stop()
	}
	for _, c := range clusters {
		c.running.Wait()
		w.r.clusters.Forget(c.key())
		w.mu.Lock()
		delete(w.clusters, c.cluster.Name)
		w.mu.Unlock()
	}
}

// stopAll ends the watch of every cluster.
func (w *placementWatch) stopAll() { w.stop(w.all()...) }
