package inventory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/backend/kube/internal/watch"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/placement"
)

// Options configure an inventory. The zero value is useful.
type Options struct {
	// Log receives the objects that are no clusters; nil means that they are not logged.
	Log *slog.Logger
}

// Inventory is a [backend.InventoryWatcher] of the objects of one kind on a hub, each of which
// represents a cluster. Its methods may be called concurrently.
//
// The first call lists the objects and starts a watch that all callers share; every answer shows
// the state at one recent moment. While the hub cannot be watched, calls return the reason
// instead of old data. If the hub does not have the kind because its definition is not installed,
// the error is [backend.ErrPermanent] until it is installed.
//
// If an object is being deleted, its cluster is leaving. If the name of an object is no DNS label,
// it cannot be a cluster: it is left out and logged. A cluster that has more data than
// [placement.Cluster.Bounded] keeps accepts nothing new.
type Inventory struct {
	kind   inventoryKind
	log    *slog.Logger
	run    func() // follows the objects until stop is called
	stop   context.CancelFunc
	once   sync.Once
	ending sync.WaitGroup

	mu       sync.Mutex
	clusters map[string]registration
	recheck  recheck
	// listed reports whether clusters has the state of the hub. failure is the reason why the hub
	// cannot be watched now.
	listed  bool
	failure error
	// round counts the changes, changed is closed at the next one.
	round   uint64
	changed chan struct{}
}

var _ backend.InventoryWatcher = (*Inventory)(nil)

// inventoryKind is the kind of the objects that represent clusters.
type inventoryKind struct {
	// name is the objects' kind in messages, crd the name of their definition.
	name, crd string
	read      func(metav1.Object) registration
}

func newInventory(kind inventoryKind, objects watch.Client, o Options) *Inventory {
	inv := &Inventory{kind: kind, log: o.Log, clusters: map[string]registration{}, changed: make(chan struct{})}
	if inv.log == nil {
		inv.log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	inv.run = func() {
		f := &follower{inv: inv, pauses: backoff.New(100*time.Millisecond, 2*time.Second).Spread()}
		for ctx.Err() == nil {
			_ = watch.Follow(ctx, objects, metav1.ListOptions{}, f)
			f.pauses.Wait(ctx)
		}
	}
	inv.stop = stop
	return inv
}

var errInventoryClosed = errors.New("the inventory was closed")

// Close ends the watch and waits for its end. Later calls are [backend.ErrPermanent].
func (inv *Inventory) Close() error {
	inv.fail(api.Permanent(errInventoryClosed))
	inv.stop()
	inv.once.Do(func() {})
	inv.ending.Wait()
	return nil
}

// start begins the watch that all callers share.
func (inv *Inventory) start() {
	inv.once.Do(func() { inv.ending.Go(inv.run) })
}

// Clusters yields the clusters by name.
func (inv *Inventory) Clusters(ctx context.Context) iter.Seq2[placement.Cluster, error] {
	return func(yield func(placement.Cluster, error) bool) {
		_, clusters, err := inv.after(ctx, 0)
		if err != nil {
			yield(placement.Cluster{}, err)
			return
		}
		for _, c := range clusters {
			if !yield(c.Clone(), nil) {
				return
			}
		}
	}
}

// WatchClusters yields after each change of the reported clusters. Other changes of the objects,
// such as heartbeats, do not count. Properties may change all the time, so they are announced at
// most every half minute; placements wait for namespaces, so those are announced within a second.
func (inv *Inventory) WatchClusters(ctx context.Context) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		var round uint64
		for {
			var err error
			if round, _, err = inv.after(ctx, round); err != nil {
				yield(struct{}{}, err)
				return
			}
			if !yield(struct{}{}, nil) {
				return
			}
		}
	}
}

// after returns the clusters as soon as there is a later round than the given one.
func (inv *Inventory) after(ctx context.Context, round uint64) (uint64, []placement.Cluster, error) {
	inv.start()
	for {
		if err := ctx.Err(); err != nil {
			return 0, nil, api.Classify("list", inv.kind.name, err)
		}
		inv.mu.Lock()
		now, listed, failure, changed := inv.round, inv.listed, inv.failure, inv.changed
		var clusters []placement.Cluster
		if listed && failure == nil && now > round {
			clusters = inv.sorted()
		}
		inv.mu.Unlock()
		switch {
		case failure != nil:
			return 0, nil, inv.explain(failure)
		case listed && now > round:
			return now, clusters, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

func (inv *Inventory) sorted() []placement.Cluster {
	out := make([]placement.Cluster, 0, len(inv.clusters))
	for _, r := range inv.clusters {
		out = append(out, r.cluster)
	}
	slices.SortFunc(out, func(a, b placement.Cluster) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// explain returns the error of a hub that cannot be watched.
func (inv *Inventory) explain(err error) error {
	switch {
	case api.IsUnserved(err):
		err = api.Permanent(fmt.Errorf("the hub serves no %s: install the CustomResourceDefinition %s", inv.kind.name, inv.kind.crd))
	case api.IsForbidden(err):
		err = api.Permanent(fmt.Errorf("%s; grant this user list and watch on %s", api.Describe(false, err), inv.kind.crd))
	}
	return api.Classify("list", inv.kind.name, err)
}

// fail makes calls return the reason why the hub cannot be watched now.
func (inv *Inventory) fail(err error) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if errors.Is(inv.failure, errInventoryClosed) {
		return
	}
	if errors.Is(err, errInventoryClosed) {
		inv.recheck.end()
	}
	inv.failure = err
	inv.wake()
}

// follower is the [watch.Handler] of an inventory.
type follower struct {
	inv    *Inventory
	pauses *backoff.Backoff
	list   map[string]registration
}

func (f *follower) Begin() { f.list = map[string]registration{} }

func (f *follower) Listed(obj metav1.Object) error {
	if r, ok := f.inv.registration(obj); ok {
		f.list[r.cluster.Name] = r.at(time.Now())
	}
	return nil
}

func (f *follower) Synced() {
	f.pauses.Reset()
	f.inv.replace(f.list)
}

// Watching does nothing: the listed state is valid.
func (f *follower) Watching() {}

func (f *follower) Changed(deleted bool, obj metav1.Object) error {
	f.inv.change(deleted, obj)
	return nil
}

// Failed makes calls fail until the objects are listed again, because then the definition may be
// installed or the right be granted. A watch that ended at once has no reason of its own; the
// next list reports it.
func (f *follower) Failed(_ int, err error) bool {
	if api.IsExpired(err) {
		return true
	}
	if !errors.Is(err, watch.ErrInterrupted) {
		f.inv.fail(err)
	}
	return false
}

func (inv *Inventory) wake() {
	close(inv.changed)
	inv.changed = make(chan struct{})
}

// replace replaces the clusters by the listed ones.
func (inv *Inventory) replace(clusters map[string]registration) {
	now := time.Now()
	inv.mu.Lock()
	defer inv.mu.Unlock()
	same := inv.listed && inv.failure == nil && maps.EqualFunc(inv.clusters, clusters, func(a, b registration) bool { return a.cluster.Equal(b.cluster) })
	inv.clusters, inv.listed = clusters, true
	if !errors.Is(inv.failure, errInventoryClosed) {
		inv.failure = nil
	}
	if !same {
		inv.announce(now)
	}
	inv.recheck.schedule(now, inv.expires(now), inv.evaluate)
}

// expires returns the earliest time at which a registration must be evaluated again; zero means
// never.
func (inv *Inventory) expires(now time.Time) (next time.Time) {
	for _, r := range inv.clusters {
		next = sooner(next, r.expires(now))
	}
	return next
}

// change applies an event of the watch.
func (inv *Inventory) change(deleted bool, obj metav1.Object) {
	now := time.Now()
	r, ok := inv.registration(obj)
	inv.mu.Lock()
	defer inv.mu.Unlock()
	before, known := inv.clusters[obj.GetName()]
	if deleted || !ok {
		if delete(inv.clusters, obj.GetName()); known {
			inv.announce(now)
		}
		return
	}
	r = r.at(now)
	inv.clusters[r.cluster.Name] = r
	inv.recheck.schedule(now, r.expires(now), inv.evaluate)
	switch {
	case known && before.cluster.Equal(r.cluster):
	case known && before.cluster.SameButProperties(r.cluster):
		inv.recheck.measured = true
		if !slices.Equal(before.cluster.Namespaces, r.cluster.Namespaces) {
			inv.recheck.quiet = sooner(inv.recheck.quiet, now.Add(namespacesPause))
		}
		inv.recheck.schedule(now, later(now, inv.recheck.quiet), inv.evaluate)
	default:
		inv.announce(now)
	}
}

// announce wakes the watchers of the clusters. The lock is held.
func (inv *Inventory) announce(now time.Time) {
	inv.recheck.measured, inv.recheck.quiet = false, now.Add(measuredPause)
	inv.round++
	inv.wake()
}

// evaluate finds the clusters that have become unhealthy, because their heartbeat is too old or a
// problem has lasted too long. It announces them and changed properties.
func (inv *Inventory) evaluate() {
	now := time.Now()
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.recheck.stop()
	changed := inv.recheck.measured && !now.Before(inv.recheck.quiet)
	for name, r := range inv.clusters {
		if next := r.at(now); next.cluster.Unhealthy != r.cluster.Unhealthy {
			inv.clusters[name], changed = next, true
		}
	}
	next := inv.expires(now)
	if changed {
		inv.announce(now)
	} else if inv.recheck.measured {
		next = sooner(next, inv.recheck.quiet)
	}
	inv.recheck.schedule(now, next, inv.evaluate)
}

// registration returns the registration in an object, and false if the object is no cluster.
func (inv *Inventory) registration(obj metav1.Object) (registration, bool) {
	if msgs := validation.IsDNS1123Label(obj.GetName()); len(msgs) > 0 {
		inv.log.Warn("an object is no cluster, since its name is no DNS label", "kind", inv.kind.name, "name", obj.GetName())
		return registration{}, false
	}
	r := inv.kind.read(obj)
	if c := r.cluster.Bounded(); c.Unhealthy != r.cluster.Unhealthy {
		r.cluster = c
		r.problems = append([]problem{{why: c.Unhealthy}}, r.problems...)
	}
	return r, true
}
