package memory

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/internal/feed"
	"github.com/slipway-dev/slipway/placement"
)

// Fleet is an inventory of simulated clusters and a dialer for them. Each member can be slowed
// down, cut off or made to hang, which also affects open connections.
type Fleet struct {
	shared *contents

	mu      sync.Mutex
	members map[string]*member
	made    map[string]int // how many clusters without a UID had the name
	watches map[chan struct{}]struct{}
}

var (
	_ backend.InventoryWatcher = (*Fleet)(nil)
	_ backend.Dialer           = (*Fleet)(nil)
)

// member is a cluster in the fleet. The maps in info are immutable.
type member struct {
	uid     string
	info    placement.Cluster // guarded by the fleet's lock
	cluster *Cluster
	faults  faults
}

// NewFleet returns a fleet of these clusters. It calls [Fleet.Add] for each.
func NewFleet(clusters ...placement.Cluster) *Fleet {
	f := &Fleet{
		shared:  newContents(),
		members: make(map[string]*member, len(clusters)),
		made:    map[string]int{},
		watches: map[chan struct{}]struct{}{},
	}
	for _, c := range clusters {
		f.Add(c)
	}
	return f
}

// Add adds an empty cluster to the fleet and returns it. It replaces a cluster of the same name,
// like a cluster that was recreated. Without a UID the cluster gets [Cluster.UID], which differs
// from the uids of earlier clusters with the name; with a UID, the uids of its objects depend on
// its name and UID.
func (f *Fleet) Add(c placement.Cluster) *Cluster {
	f.mu.Lock()
	defer f.mu.Unlock()
	c = c.Clone()
	seed := c.UID
	if seed == "" {
		seed = strconv.Itoa(f.made[c.Name])
		f.made[c.Name]++
	}
	cluster := newCluster(c.Name, seed, f.shared)
	if c.UID == "" {
		c.UID = cluster.UID()
	}
	f.members[c.Name] = &member{uid: c.UID, info: c, cluster: cluster}
	f.announce()
	return cluster
}

// Remove removes a cluster from the inventory, if it is there. Connections to it keep working.
func (f *Fleet) Remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.members[name] != nil {
		delete(f.members, name)
		f.announce()
	}
}

// Report changes the inventory's data about a cluster, if it is there: labels, properties,
// taints, leaving or unhealthy. The name and the UID stay. change is called once, with a copy,
// and must not call the fleet.
func (f *Fleet) Report(name string, change func(*placement.Cluster)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[name]
	if m == nil {
		return
	}
	c := m.info.Clone()
	change(&c)
	c.Name, c.UID = m.info.Name, m.uid
	m.info = c.Clone()
	f.announce()
}

// Relabel gives a cluster other labels, if it is there.
func (f *Fleet) Relabel(name string, labels map[string]string) {
	f.Report(name, func(c *placement.Cluster) { c.Labels = labels })
}

// Cluster returns the cluster of that name, nil if there is none.
func (f *Fleet) Cluster(name string) *Cluster {
	if m := f.member(name); m != nil {
		return m.cluster
	}
	return nil
}

// Len returns the number of clusters.
func (f *Fleet) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.members)
}

func (f *Fleet) member(name string) *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members[name]
}

// Clusters yields the clusters of the fleet at the beginning of the call, by name. The caller
// owns them.
func (f *Fleet) Clusters(ctx context.Context) iter.Seq2[placement.Cluster, error] {
	return func(yield func(placement.Cluster, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(placement.Cluster{}, failed("list", "clusters", err))
			return
		}
		f.mu.Lock()
		clusters := make([]placement.Cluster, 0, len(f.members))
		for _, name := range slices.Sorted(maps.Keys(f.members)) {
			clusters = append(clusters, f.members[name].info)
		}
		f.mu.Unlock()
		for _, c := range clusters {
			if !yield(c.Clone(), nil) {
				return
			}
		}
	}
}

// WatchClusters yields after each change of the inventory. See [backend.InventoryWatcher].
func (f *Fleet) WatchClusters(ctx context.Context) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		signal := make(chan struct{}, 1)
		feed.Wake(signal)
		f.mu.Lock()
		f.watches[signal] = struct{}{}
		f.mu.Unlock()
		defer func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.watches, signal)
		}()
		for {
			err := feed.Await(ctx, signal)
			if !yield(struct{}{}, err) || err != nil {
				return
			}
		}
	}
}

// announce wakes the watches of the inventory. The lock is held.
func (f *Fleet) announce() {
	for signal := range f.watches {
		feed.Wake(signal)
	}
}

// Dial returns a connection to the cluster, like [Cluster.Conn], that is subject to the faults of
// the member. If the cluster is not in the fleet, or has another UID there, the error is
// ErrNotFound.
func (f *Fleet) Dial(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
	m := f.member(c.Name)
	switch {
	case m == nil:
		return nil, failed("dial", c.Name, backend.ErrNotFound)
	case c.UID != "" && c.UID != m.uid:
		return nil, failed("dial", c.Name, fmt.Errorf("%w: the cluster of that name has uid %s, not %s", backend.ErrNotFound, m.uid, c.UID))
	}
	if err := m.faults.pass(ctx); err != nil {
		return nil, failed("dial", c.Name, err)
	}
	return &conn{cluster: m.cluster, faults: &m.faults}, nil
}

// SetDelay makes Dial and every call of a connection wait before any effect, for the duration
// that delay returns or until the context ends. nil removes the delay. delay may be called
// concurrently. SetDelay, SetDown and Hang ignore a name that is not in the fleet.
func (f *Fleet) SetDelay(name string, delay func() time.Duration) {
	if m := f.member(name); m != nil {
		m.faults.set(func(x *faults) { x.delay = delay })
	}
}

// SetDown cuts the member off, or reconnects it. While it is down, Dial and every call fail with
// a transient error, and watches end with that error.
func (f *Fleet) SetDown(name string, down bool) {
	if m := f.member(name); m != nil {
		m.faults.set(func(x *faults) { x.down = down })
	}
}

// Hang makes Dial and every call block until their context ends; with false, later calls proceed
// again. Watches are silent while the member hangs, and yield the missed changes afterwards.
func (f *Fleet) Hang(name string, hang bool) {
	if m := f.member(name); m != nil {
		m.faults.set(func(x *faults) { x.hang = hang })
	}
}
